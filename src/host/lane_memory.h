#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/bell_board.h"
#include "ring/doorbell.h"
#include "ring/lane.h"

namespace weft::host {

/// A ring of 64 KiB gives full bandwidth; few need it (DESIGN.md, decision 3).
inline constexpr ring::LaneShape kLaneShape{.request_capacity = 1U << 16,
                                            .response_capacity = 1U << 16,
                                            .first_request_capacity = 1U << 14,
                                            .first_response_capacity = 1U << 12};

/// Longest train, in payload bytes: two records of it fit in a ring.
inline constexpr std::uint32_t kMaxTrainBytes = 16'384;

/// What stands before the rings of a lane. Each word is written by one side for the other; a liar
/// can only disturb this lane.
struct LaneHead {
  std::array<ring::Attention, 2> attention;  // [side]: that side sleeps and wants to be woken
  struct alignas(64) Word {
    std::atomic<std::uint32_t> value{};
  };
  std::array<Word, 2> wants_room;  // [side]: that side waits for room in what it sends
  std::array<Word, 2> bell;        // [side]: this lane's number on that side's board
};

inline constexpr std::size_t kLaneMemoryBytes = sizeof(LaneHead) + ring::lane_bytes(kLaneShape);

/// A process's attention page: peers wake it by ringing their lane's bell, changing the word and
/// waking its waiters. They all may write it: a liar can wake in vain, hide a bell, and take back a
/// wake of others just before the sleep, so no sleep is long.
struct AttentionPage {
  std::atomic<std::uint32_t> wake{};
  ring::BellBoard rung;
};
inline constexpr std::size_t kAttentionPageBytes = 4'096;
static_assert(sizeof(AttentionPage) <= kAttentionPageBytes);

}  // namespace weft::host
