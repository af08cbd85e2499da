#pragma once

// How much of what a command writes goes without being asked for, and in which PDUs (RFC 7143
// §4.2.5.2, §13.10, §13.11, §13.14). A value.

#include <algorithm>
#include <cstdint>

namespace weft::iser {

/// What login agreed on.
struct TransferParameters {
  bool initial_r2t{true};
  bool immediate_data{true};
  std::uint32_t first_burst_bytes{65'536};
  std::uint32_t max_send_segment_bytes{8'192};  ///< the target's MaxRecvDataSegmentLength
  bool says_hello{};                            ///< before anything else (RFC 7145 §5.1.3)
};

struct UnsolicitedPlan {
  std::uint32_t immediate_bytes{};  ///< with the command
  std::uint32_t data_out_bytes{};   ///< in Data-Out PDUs behind it

  UnsolicitedPlan() = default;
  UnsolicitedPlan(std::uint32_t write_bytes, const TransferParameters& agreed) {
    const std::uint32_t burst = std::min(write_bytes, agreed.first_burst_bytes);
    if (agreed.immediate_data) {
      immediate_bytes = std::min(burst, agreed.max_send_segment_bytes);
    }
    if (!agreed.initial_r2t) {
      data_out_bytes = burst - immediate_bytes;
    }
  }
  [[nodiscard]] std::uint32_t total() const { return immediate_bytes + data_out_bytes; }
};

}  // namespace weft::iser
