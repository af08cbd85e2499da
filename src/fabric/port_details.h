#pragma once

// What the counters of a port are made of: data by service level, and why packets were dropped
// (IBTA vol 1 §16.1.4). Kept beside PortCounters and only for ports that have something to tell,
// since little traffic leaves service level 0 and few ports drop. Values; no threads.
//
// Units: data in 4-byte words as PortXmitData, else packets. 64 bits, modulo 2^64.

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/identifiers.h"
#include "fabric/path.h"
#include "fabric/tables.h"

namespace weft::fabric {

struct PortCounters;

struct PortDetails {
  static constexpr std::size_t kServiceLevels = 16;
  using BySl = std::array<std::uint64_t, kServiceLevels>;

  // Level 0 is what the sums have and no other level does: see with_level_0().
  BySl xmit_data{};
  BySl rcv_data{};

  // Packets that were dropped, by PathEnd.
  std::array<std::uint64_t, kPathEnds> drops{};

  bool operator==(const PortDetails&) const = default;
  PortDetails& operator+=(const PortDetails& other);
  PortDetails& operator-=(const PortDetails& other);

  [[nodiscard]] std::uint64_t& of(PathEnd end) { return drops.at(static_cast<std::size_t>(end)); }
  [[nodiscard]] std::uint64_t of(PathEnd end) const {
    return drops.at(static_cast<std::size_t>(end));
  }
};

/// By port; one that is not there has nothing.
using DetailsOfPorts = std::unordered_map<PortIndex, PortDetails>;
[[nodiscard]] PortDetails details_of(const DetailsOfPorts& ports, PortIndex port);

/// Counts `words` that leave or reach a port; level 0 costs nothing.
void count_xmit_data(DetailsOfPorts& ports, PortIndex port, ServiceLevel sl, std::uint64_t words);
void count_rcv_data(DetailsOfPorts& ports, PortIndex port, ServiceLevel sl, std::uint64_t words);

/// Counts packets that a port dropped, in their counter and in that of the reason.
void count_drop(PortCounters& counters, DetailsOfPorts& ports, PortIndex port, PathEnd end,
                std::uint64_t packets);

/// Details with level 0, of a port whose sums are `sums`, from which nothing was taken off.
[[nodiscard]] PortDetails with_level_0(PortDetails details, const PortCounters& sums);

}  // namespace weft::fabric
