#pragma once

// What data an SRP_CMD wants moved, and whether its descriptors agree with each other (R-SRPT-17).
// Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ulp/srp/target_connection.h"
#include "wire/srp/information_unit.h"

namespace weft::srp {

inline constexpr std::size_t kMaxTableDescriptors = 4096;  // policy

/// The data of one direction.
struct Transfer {
  std::uint64_t bytes{};
  std::vector<Segment> segments{};  ///< empty for immediate data, and until the table is read
  std::optional<Segment> table{};   ///< must be read from the initiator's memory first

  /// What a table says; InvalidArgument unless it describes exactly `bytes`.
  [[nodiscard]] Result<void> set_table(ByteSpan octets);
};

struct TransferPlan {
  Transfer out{};
  Transfer in{};
};

/// InvalidArgument: a list does not describe the length that it says, or is too long;
/// OutOfMemory: more than `max_bytes` in one direction.
[[nodiscard]] Result<TransferPlan> plan_transfer(wire::SrpDataBuffer data_out,
                                                 wire::SrpDataBuffer data_in,
                                                 std::uint64_t max_bytes);

}  // namespace weft::srp
