#pragma once

// Information units with what follows their fixed part: additional CDB, descriptors, response and
// sense data. Input is not trusted: every length is held against the octets that are there. Value
// types; spans of a parsed unit point into its octets.

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/srp/descriptors.h"
#include "wire/srp/login.h"
#include "wire/srp/requests.h"
#include "wire/srp/responses.h"

namespace weft::wire {

/// The data of one direction, as an SRP_CMD describes it.
struct SrpDataBuffer {
  SrpBufferFormat format{SrpBufferFormat::None};
  std::vector<SrpDirectDescriptor> descriptors{};  ///< Direct: one. Indirect: the partial list
  SrpDirectDescriptor table{};                     ///< Indirect
  std::uint64_t length{};                          ///< octets of data
  bool operator==(const SrpDataBuffer&) const = default;

  /// Indirect: the whole list, or part of it if that is not in the unit.
  [[nodiscard]] std::size_t table_descriptors() const {
    return table.length / kSizeOf<SrpDirectDescriptor>;
  }
};

/// SRP_CMD with its CDB, its data buffers and its immediate data.
struct SrpCommandUnit {
  SrpCmd header{};
  std::vector<std::byte> additional_cdb{};
  SrpDataBuffer data_out{};
  SrpDataBuffer data_in{};
  ByteSpan immediate_data{};
  bool operator==(const SrpCommandUnit& other) const;
};

/// SRP_RSP with what follows.
struct SrpResponseUnit {
  SrpRsp header{};
  std::optional<SrpResponseCode> response_code{};  ///< of at least four octets of response data
  ByteSpan sense{};
};

/// SRP_AER_REQ with its sense data.
struct SrpAerUnit {
  SrpAerReq header{};
  ByteSpan sense{};
};

/// The opcode of a unit; fails for one that is empty or has none of SRP's.
[[nodiscard]] Result<SrpOpcode> srp_opcode(ByteSpan unit);

/// Descriptors begin behind the additional CDB, those of data-out first. `immediate_offset` is the
/// login's. Fails with InvalidArgument for lists that contradict each other, and with Io for a unit
/// that is shorter than it says (R-SRPT-17).
[[nodiscard]] Result<SrpCommandUnit> parse_srp_command(ByteSpan unit,
                                                       std::uint16_t immediate_offset);
[[nodiscard]] Result<SrpResponseUnit> parse_srp_response(ByteSpan unit);
[[nodiscard]] Result<SrpAerUnit> parse_srp_aer(ByteSpan unit);

/// Counts of the header are those of the buffers. Immediate data is placed at `immediate_offset`,
/// which lies behind the descriptors (asserted).
[[nodiscard]] std::vector<std::byte> to_unit(const SrpCommandUnit& command,
                                             std::uint16_t immediate_offset);
/// The same in place of what `unit` has, whose room is used again.
void put_unit(const SrpCommandUnit& command, std::uint16_t immediate_offset,
              std::vector<std::byte>& unit);
/// Lengths of the header, and the flags that make them valid, follow from what is there.
[[nodiscard]] std::vector<std::byte> to_unit(const SrpResponseUnit& response);
void put_unit(const SrpResponseUnit& response, std::vector<std::byte>& unit);
[[nodiscard]] std::vector<std::byte> to_unit(const SrpAerUnit& event);

/// A unit that has only a fixed part.
template <WireType T>
[[nodiscard]] std::vector<std::byte> to_unit(const T& unit) {
  const auto octets = pack(unit);
  return {octets.begin(), octets.end()};
}

/// Direct descriptors one behind the other, as in a table of the initiator's memory. Octets behind
/// the last whole one are ignored.
[[nodiscard]] std::vector<SrpDirectDescriptor> parse_descriptors(ByteSpan octets);
[[nodiscard]] std::vector<std::byte> to_octets(std::span<const SrpDirectDescriptor> descriptors);

}  // namespace weft::wire
