#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mad/mad_address.h"
#include "wire/mad/mad.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// What a class exchanges: one MAD, or under RMPP any amount of data behind the class's header.
struct MadMessage {
  MadBytes mad{};                 ///< headers; without RMPP the data too
  bool is_rmpp{};                 ///< goes, or came, in RMPP segments
  std::vector<std::byte> data{};  ///< then: what all segments together carry

  [[nodiscard]] wire::MadHeader header() const;
  void set_header(const wire::MadHeader& header);

  /// A directed route SMP has the D bit in its status: it is no part of it here.
  [[nodiscard]] std::uint16_t status() const;
  void set_status(std::uint16_t status);
};

/// Offset of a class's data in a MAD (IBTA vol 1 §13.4.3).
[[nodiscard]] std::size_t data_offset(wire::ManagementClass mgmt_class);

/// Whether MADs of the class have an RMPP header (IBTA vol 1 §13.6).
[[nodiscard]] bool has_rmpp_header(wire::ManagementClass mgmt_class);

/// The RMPP header of a MAD whose class has one.
[[nodiscard]] wire::Rmpp rmpp_of(const MadBytes& mad);
void set_rmpp(MadBytes& mad, const wire::Rmpp& rmpp);

/// The RMPP header of an ACK, STOP or ABORT.
[[nodiscard]] wire::Rmpp rmpp_reply(wire::RmppType type, wire::RmppStatus status);

/// The method that answers one; none for methods that are not answered (IBTA vol 1 §13.4.5).
[[nodiscard]] std::optional<wire::MadMethod> response_method(wire::MadMethod request);

/// Whether a MAD ends a transaction: the R bit, or TrapRepress.
[[nodiscard]] bool is_answer(const wire::MadHeader& header);

/// Makes the answer's header of a request's: its method, and the D bit of a directed route. What is
/// an answer already, stays.
void turn_into_response(MadMessage& message);

}  // namespace weft::mad
