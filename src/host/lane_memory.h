#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "host/placement/peer_placement.h"
#include "ring/doorbell.h"
#include "ring/lane.h"
#include "ring/sleeper.h"
#include "station/lane_choice.h"
#include "station/link_pace.h"

namespace weft::host {

/// A ring of 64 KiB gives full bandwidth, and few need it (docs/ARCHITECTURE.md, decision 3). Where
/// threads share a CPU, a ring must hold what one can send before the other runs, and time slices
/// are long: a ring that holds a message of a mebibyte at once saves many switches.
inline constexpr ring::LaneShape kLaneShape{.request_capacity = 1U << 22,
                                            .response_capacity = 1U << 16,
                                            .first_request_capacity = 1U << 14,
                                            .first_response_capacity = 1U << 12,
                                            .usual_request_capacity = 1U << 16};

using station::kLanesPerPair;
using station::kMaxTrainBytes;

/// The words in front of the rings of a lane. Each is written by one side for the other; a hostile
/// peer can only disturb this lane.
struct LaneHead {
  std::array<ring::Attention, 2> attention;  // [side]: whether that side sleeps and must be woken
  struct alignas(64) Word {
    std::atomic<std::uint32_t> value{};
  };
  std::array<Word, 2> wants_space;   // [side]: that side waits for space in its outgoing rings
  std::array<Word, 2> doorbell;      // [side]: this lane's number among that side's doorbells
  std::array<Word, 2> lost_answers;  // [side]: how many of that side's responses links have lost
};

/// The heads of all lanes of a pair come first, since each is touched when the pair is joined; the
/// rings follow, lane by lane, and then what direct placement needs.
inline constexpr std::size_t kPairHeadBytes = kLanesPerPair * sizeof(LaneHead);
inline constexpr std::size_t kPlacementAt =
    kPairHeadBytes + kLanesPerPair * ring::lane_bytes(kLaneShape);
static_assert(kPlacementAt % alignof(PlacementMemory) == 0);
inline constexpr std::size_t kPairMemoryBytes = kPlacementAt + kPlacementBytes;

/// The head of lane `index`. Its words are atomics that live as long as the memory.
[[nodiscard]] inline LaneHead& lane_head(MutableByteSpan pair_memory, std::uint32_t index) {
  void* const start = pair_memory.data() + index * sizeof(LaneHead);
  return *static_cast<LaneHead*>(start);
}
/// The memory of the rings of lane `index`.
[[nodiscard]] inline MutableByteSpan lane_rings(MutableByteSpan pair_memory, std::uint32_t index) {
  return pair_memory.subspan(kPairHeadBytes + index * ring::lane_bytes(kLaneShape),
                             ring::lane_bytes(kLaneShape));
}

/// What direct placement needs, behind the rings.
[[nodiscard]] inline MutableByteSpan placement_memory(MutableByteSpan pair_memory) {
  return pair_memory.subspan(kPlacementAt, kPlacementBytes);
}

/// Through this page peers wake a process.
using AttentionPage = ring::BasicAttentionPage<>;
inline constexpr std::size_t kAttentionPageBytes = 4'096;
static_assert(sizeof(AttentionPage) <= kAttentionPageBytes);

}  // namespace weft::host
