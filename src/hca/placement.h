#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/keys.h"
#include "hca/atomic_operation.h"
#include "hca/packet.h"
#include "verbs/access_flags.h"
#include "verbs/mtu.h"

/// Direct placement (docs/ARCHITECTURE.md, decision 18): where both processes and the path allow
/// it, the initiator of an RDMA WRITE or READ moves the bytes by its own hand, or performs
/// an atomic, and no packet is sent. What it may reach it has reached before by packets, which the
/// responder checked; the driver keeps that as a *grant*, and the owner of the memory withdraws it
/// before the answer to that check could change.
namespace weft::hca {

enum class PlacementPolicy : std::uint8_t {
  Never,         ///< nothing is placed, and nothing granted to a peer
  WhereQuicker,  ///< what is alone in its send queue, where packets are slow
                 ///< (rc/placement_choice.h)
  Always,        ///< whatever is long enough
};

/// By what an initiator moves bytes.
enum class PlacementMeans : std::uint8_t {
  None,         ///< not at all: they are sent
  SystemCall,   ///< process_vm_writev(2), which takes as long as a stream of packets of 4 KiB
  SharedPages,  ///< stores into pages that both processes map, quicker than any packet
};

/// Under PlacementPolicy::Always, shorter messages are packets, unless pages are shared. Policy: a
/// copy costs a system call, 2 us, in which a stream of packets brings as much.
inline constexpr std::uint32_t kLeastPlacedBytes = 4'096;
/// So long a message waits until everything before it is acknowledged, SENDs included, if it can
/// then be placed into shared pages: as packets its bytes are copied twice, which takes longer than
/// an acknowledgement does. Policy.
inline constexpr std::uint32_t kLeastAwaitingBytes = 1U << 16;
/// The longest part that is moved at once; between two, the grant is looked at again. Policy.
inline constexpr std::uint32_t kMostPlacedBytes = 1U << 22;

/// A registered region that the peer of a QP has reached by an R_Key.
struct PlaceableMemory {
  RKey rkey;
  std::uint64_t iova{};
  std::uint64_t length{};
  std::byte* memory{};        ///< where `iova` is mapped in this process
  verbs::AccessFlags rights;  ///< of the peer: what the flags of region and QP both have
  const void* region{};       ///< tells it from others until HcaEvents::forget_placeable()
};

/// What an initiator would reach.
struct PlacementTarget {
  const PacketHeader& request;  ///< the request packet, for its addresses; only they are set
  verbs::Access right{verbs::Access::RemoteWrite};  ///< that it needs: for READ, WRITE or atomic
  RKey rkey;
  std::uint64_t address{};
  std::uint32_t length{};  ///< at most kMostPlacedBytes, but for may_place()

  /// Whether a grant of this is enough.
  [[nodiscard]] bool is_within(verbs::AccessFlags rights, std::uint64_t iova,
                               std::uint64_t granted) const {
    return rights.has(right) && address >= iova && length <= granted &&
           address - iova <= granted - length;
  }
};

/// A part of a message to be moved: bytes [offset, offset + target.length) of it; or an atomic,
/// which is performed in shared pages or not at all, since no system call does that.
struct Placement {
  PlacementTarget target;
  std::span<const ByteSpan> from;       ///< WRITE
  std::span<const MutableByteSpan> to;  ///< READ; of an atomic, where the original value goes
  std::optional<AtomicOperation> atomic;
  bool is_first{};
  bool is_last{};
  verbs::Mtu path_mtu{};
};

/// The packets that a placement stands for, so that port counters show what they would without it.
struct PlacedTraffic {
  std::uint64_t request_packets{};
  std::uint64_t request_words{};
  std::uint64_t answer_packets{};
  std::uint64_t answer_words{};
};
[[nodiscard]] PlacedTraffic traffic_of(const Placement& placement);

}  // namespace weft::hca
