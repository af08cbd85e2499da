#pragma once

// The breakdown of a port's counters: data by service level, and reasons for drops (IBTA vol 1
// §16.1.4). Kept beside PortCounters and only for ports that need it, since most traffic is on
// service level 0 and few ports drop. Values; no threads.
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

/// The breakdown for one port.
struct PortDetails {
  static constexpr std::size_t kServiceLevels = 16;
  using BySl = std::array<std::uint64_t, kServiceLevels>;

  // Level 0 is the remainder of the port's sums: see with_level_0().
  BySl xmit_data{};
  BySl rcv_data{};

  // Dropped packets, by PathEnd.
  std::array<std::uint64_t, kPathEnds> drops{};

  bool operator==(const PortDetails&) const = default;
  PortDetails& operator+=(const PortDetails& other);
  PortDetails& operator-=(const PortDetails& other);

  [[nodiscard]] std::uint64_t& of(PathEnd end) { return drops.at(static_cast<std::size_t>(end)); }
  [[nodiscard]] std::uint64_t of(PathEnd end) const {
    return drops.at(static_cast<std::size_t>(end));
  }
};

/// By port; a missing entry is all zeros.
using DetailsOfPorts = std::unordered_map<PortIndex, PortDetails>;
/// The details of a port, zero if there are none.
[[nodiscard]] PortDetails details_of(const DetailsOfPorts& ports, PortIndex port);

/// Counts `words` sent or received by a port; free of cost for level 0.
void count_xmit_data(DetailsOfPorts& ports, PortIndex port, ServiceLevel sl, std::uint64_t words);
void count_rcv_data(DetailsOfPorts& ports, PortIndex port, ServiceLevel sl, std::uint64_t words);

/// Counts packets that a port dropped, in the counter and in that of the reason.
void count_drop(PortCounters& counters, DetailsOfPorts& ports, PortIndex port, PathEnd end,
                std::uint64_t packets);

/// Adds level 0 to `details` of a port with the sums `sums`, before any baseline was subtracted.
[[nodiscard]] PortDetails with_level_0(PortDetails details, const PortCounters& sums);

}  // namespace weft::fabric
