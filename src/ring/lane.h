#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "ring/spsc_ring.h"

namespace weft::ring {

/// A lane joins two processes: a request ring and a response ring each way (docs/ARCHITECTURE.md,
/// decision 3), which begin small and grow: requests to the usual capacity, and to all of it when
/// they are let (Producer::let_grow). Its memory is four rings one after the other, each a page and
/// some lines from the last, so that their position lines do not share cache sets.
struct LaneShape {
  std::size_t request_capacity{1U << 17};
  std::size_t response_capacity{1U << 17};
  std::size_t first_request_capacity{request_capacity};
  std::size_t first_response_capacity{response_capacity};
  std::size_t usual_request_capacity{request_capacity};

  [[nodiscard]] constexpr bool is_valid() const {
    return is_ring_capacity(request_capacity) && is_ring_capacity(response_capacity) &&
           is_ring_capacity(first_request_capacity) && is_ring_capacity(first_response_capacity);
  }
};

enum class LaneSide : std::uint8_t { A, B };

/// Between rings, against aliasing of equal offsets in pages: an odd number of lines.
inline constexpr std::size_t kStaggerBytes = 3 * kSlotBytes;

[[nodiscard]] constexpr std::size_t lane_bytes(const LaneShape& shape) {
  return 2 * (ring_bytes(shape.request_capacity) + ring_bytes(shape.response_capacity)) +
         4 * kStaggerBytes;
}

/// One process's ends of a lane.
struct LaneEnds {
  Producer<> request_out;
  Producer<> response_out;
  Consumer<> request_in;
  Consumer<> response_in;
};

/// Ends for `side` over memory of lane_bytes(shape), 64-byte aligned, zero when the lane is new.
[[nodiscard]] inline LaneEnds lane_ends(std::span<std::byte> memory, const LaneShape& shape,
                                        LaneSide side) {
  WEFT_ASSERT(shape.is_valid() && memory.size() >= lane_bytes(shape),
              "a lane has the memory that its shape needs");
  std::size_t at = 0;
  const auto next = [&](std::size_t capacity) {
    const std::span<std::byte> ring = memory.subspan(at, ring_bytes(capacity));
    at += ring_bytes(capacity) + kStaggerBytes;
    return ring;
  };
  const auto a_requests = next(shape.request_capacity);
  const auto a_responses = next(shape.response_capacity);
  const auto b_requests = next(shape.request_capacity);
  const auto b_responses = next(shape.response_capacity);
  const bool is_a = side == LaneSide::A;
  const std::size_t requests = shape.first_request_capacity;
  const std::size_t responses = shape.first_response_capacity;
  const std::size_t usual = shape.usual_request_capacity;
  return {
      .request_out = Producer<>{is_a ? a_requests : b_requests, requests, usual},
      .response_out = Producer<>{is_a ? a_responses : b_responses, responses},
      .request_in = Consumer<>{is_a ? b_requests : a_requests, requests},
      .response_in = Consumer<>{is_a ? b_responses : a_responses, responses}
  };
}

}  // namespace weft::ring
