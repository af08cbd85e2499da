#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/identifiers.h"
#include "base/keys.h"
#include "hca/placement.h"
#include "os/peer_file.h"
#include "ring/placement.h"
#include "verbs/access_flags.h"

namespace weft::host {

/// What the owner of memory has granted to a peer's QP: a region, and the times for which that
/// holds.
struct PlacementGrant {
  std::uint64_t epoch{};   ///< of the owner's placements; 0: no grant
  std::uint64_t tables{};  ///< generation in which the request was checked
  Qpn qpn;                 ///< the owner's QP
  RKey rkey;
  std::uint64_t iova{};
  std::uint64_t length{};
  std::uint64_t memory{};  ///< where `iova` is in the owner's address space
  std::uint64_t guard{};   ///< the owner's guard page of this epoch
  os::FileRange file{};    ///< where a peer maps `iova`; without a descriptor: nowhere
  verbs::AccessFlags rights;

  [[nodiscard]] bool has_file() const { return file.descriptor >= 0; }
  /// The peer may change the memory, not only read it.
  [[nodiscard]] bool is_writable() const {
    return rights.has(verbs::Access::RemoteWrite) || rights.has(verbs::Access::RemoteAtomic);
  }
  bool operator==(const PlacementGrant&) const = default;
};

/// A grant in memory that both processes share. One thread writes at a time; readers that see a
/// torn one notice.
class alignas(64) PlacementSlot {
 public:
  void write(const PlacementGrant& grant);
  /// Nothing while it is being written.
  [[nodiscard]] std::optional<PlacementGrant> read() const;

 private:
  std::atomic<std::uint32_t> sequence_{};  // odd: being written
  std::atomic<std::uint32_t> qpn_{};
  std::atomic<std::uint32_t> rkey_{};
  std::atomic<std::uint32_t> rights_{};
  std::atomic<std::int32_t> descriptor_{-1};
  std::atomic<std::uint64_t> epoch_{};
  std::atomic<std::uint64_t> tables_{};
  std::atomic<std::uint64_t> iova_{};
  std::atomic<std::uint64_t> length_{};
  std::atomic<std::uint64_t> memory_{};
  std::atomic<std::uint64_t> guard_{};
  std::atomic<std::uint64_t> device_{};
  std::atomic<std::uint64_t> inode_{};
  std::atomic<std::uint64_t> offset_{};
};

/// What one side of a pair of processes shows the other about its memory. Where two grants have one
/// slot, the newer one is kept, and the other QP's next message goes as packets.
struct PlacementMemory {
  static constexpr std::size_t kSlots = 128;  // policy

  ring::PlacementWords words;
  std::array<PlacementSlot, kSlots> slots;

  [[nodiscard]] static std::size_t index_of(Qpn qpn, RKey rkey) {
    const std::uint64_t mixed =
        (std::uint64_t{qpn.value()} << 32 | rkey.value()) * 0x9e37'79b9'7f4a'7c15U;
    return mixed >> 57;  // 7 bits
  }
  [[nodiscard]] PlacementSlot& slot_of(Qpn qpn, RKey rkey) { return slots.at(index_of(qpn, rkey)); }
};
static_assert(PlacementMemory::kSlots == std::size_t{1} << (64 - 57));

}  // namespace weft::host
