#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "ring/doorbell.h"
#include "ring/lane.h"
#include "ring/sleeper.h"

namespace weft::host {

/// A ring of 64 KiB gives full bandwidth; few need it (docs/ARCHITECTURE.md, decision 3). Where
/// threads share a CPU it is the room for what one can do before the other has its turn, and turns
/// are long: a ring that takes a message of a mebibyte at once spares many.
inline constexpr ring::LaneShape kLaneShape{.request_capacity = 1U << 22,
                                            .response_capacity = 1U << 16,
                                            .first_request_capacity = 1U << 14,
                                            .first_response_capacity = 1U << 12,
                                            .usual_request_capacity = 1U << 16};

/// Longest train, in payload bytes. Half as long costs more headers, twice as long lets the reader
/// wait for the writer: both are slower; policy.
inline constexpr std::uint32_t kMaxTrainBytes = 8'192;

/// What stands before the rings of a lane. Each word is written by one side for the other; a liar
/// can only disturb this lane.
struct LaneHead {
  std::array<ring::Attention, 2> attention;  // [side]: that side sleeps and wants to be woken
  struct alignas(64) Word {
    std::atomic<std::uint32_t> value{};
  };
  std::array<Word, 2> wants_space;   // [side]: that side waits for room in what it sends
  std::array<Word, 2> doorbell;      // [side]: this lane's number on that side's board
  std::array<Word, 2> lost_answers;  // [side]: how many of that side's responses links have lost
};

/// A pair of processes is joined by so many lanes (docs/ARCHITECTURE.md, decision 3): QP pairs are
/// spread over them, so that threads with QPs of their own do not meet on one ring. A lane that
/// carries nothing costs no memory; policy.
inline constexpr std::uint32_t kLanesPerPair = 4;

/// The heads of all lanes of a pair lie together, since each is touched when the pair is joined;
/// the rings follow, lane by lane.
inline constexpr std::size_t kPairHeadBytes = kLanesPerPair * sizeof(LaneHead);
inline constexpr std::size_t kPairMemoryBytes =
    kPairHeadBytes + kLanesPerPair * ring::lane_bytes(kLaneShape);

/// The head of lane `index` of a pair. Its words are atomics that live as long as the memory.
[[nodiscard]] inline LaneHead& lane_head(MutableByteSpan pair_memory, std::uint32_t index) {
  void* const start = pair_memory.data() + index * sizeof(LaneHead);
  return *static_cast<LaneHead*>(start);
}
[[nodiscard]] inline MutableByteSpan lane_rings(MutableByteSpan pair_memory, std::uint32_t index) {
  return pair_memory.subspan(kPairHeadBytes + index * ring::lane_bytes(kLaneShape),
                             ring::lane_bytes(kLaneShape));
}

/// By which peers wake a process.
using AttentionPage = ring::BasicAttentionPage<>;
inline constexpr std::size_t kAttentionPageBytes = 4'096;
static_assert(sizeof(AttentionPage) <= kAttentionPageBytes);

}  // namespace weft::host
