#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mad/mad_address.h"
#include "wire/mad/mad.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// A management message: a single MAD, or data of any length sent by RMPP behind the class header.
struct MadMessage {
  MadBytes mad{};                 ///< headers; also the data if not RMPP
  bool is_rmpp{};                 ///< sent or received in RMPP segments
  std::vector<std::byte> data{};  ///< RMPP: payload of all segments

  [[nodiscard]] wire::MadHeader header() const;
  void set_header(const wire::MadHeader& header);

  /// Status without the D bit, which a directed-route SMP keeps in the same field.
  [[nodiscard]] std::uint16_t status() const;
  void set_status(std::uint16_t status);
};

/// Offset of the class's data in a MAD, in bytes (IBTA vol 1 §13.4.3).
[[nodiscard]] std::size_t data_offset(wire::ManagementClass mgmt_class);

/// True if MADs of the class have an RMPP header (IBTA vol 1 §13.6).
[[nodiscard]] bool has_rmpp_header(wire::ManagementClass mgmt_class);

/// The RMPP header of a MAD whose class has one.
[[nodiscard]] wire::Rmpp rmpp_of(const MadBytes& mad);
void set_rmpp(MadBytes& mad, const wire::Rmpp& rmpp);

/// The RMPP header of an ACK, STOP or ABORT.
[[nodiscard]] wire::Rmpp rmpp_reply(wire::RmppType type, wire::RmppStatus status);

/// The response method of a request; none if the method has no response (IBTA vol 1 §13.4.5).
[[nodiscard]] std::optional<wire::MadMethod> response_method(wire::MadMethod request);

/// True if the MAD is a response: the R bit is set, or the method is TrapRepress.
[[nodiscard]] bool is_answer(const wire::MadHeader& header);

/// Turns a request's header into that of the response: method, and D bit of a directed route. Has
/// no effect on a response.
void convert_to_response(MadMessage& message);

}  // namespace weft::mad
