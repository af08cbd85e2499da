#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "ring/spsc_ring.h"

namespace weft::ring {

/// Geometry of a lane, which connects two processes by a request ring and a response ring in each
/// direction (docs/ARCHITECTURE.md, decision 3). Rings start small and grow: request rings to the
/// usual capacity, and to the full capacity after Producer::allow_growth. Capacities in bytes. The
/// four rings are laid out one after another, offset by a page and some cache lines, so that their
/// position lines do not share cache sets.
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

/// The two ends of a lane.
enum class LaneSide : std::uint8_t { A, B };

/// Padding between rings: an odd number of cache lines, against aliasing of equal page offsets.
inline constexpr std::size_t kStaggerBytes = 3 * kSlotBytes;

[[nodiscard]] constexpr std::size_t lane_bytes(const LaneShape& shape) {
  return 2 * (ring_bytes(shape.request_capacity) + ring_bytes(shape.response_capacity)) +
         4 * kStaggerBytes;
}

/// The four ring ends of one process. Each ring end is for one thread at a time.
struct LaneEnds {
  Producer<> request_out;
  Producer<> response_out;
  Consumer<> request_in;
  Consumer<> response_in;
};

/// The ends for `side` over memory of lane_bytes(shape), 64-byte aligned, zeroed for a new lane.
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
