#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "cm/connection.h"
#include "cm/events.h"
#include "cm/parameters.h"
#include "mad/mad_address.h"
#include "wire/cm/cm_codes.h"
#include "wire/cm/lap.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"
#include "wire/mad/mad.h"

/// Conversion between callers' parameters, connection state and CM MADs. Pure functions.
namespace weft::cm {

template <wire::WireType Message>
[[nodiscard]] mad::MadBytes make_mad(wire::CmAttribute attribute, std::uint64_t transaction_id,
                                     const Message& message, std::uint32_t modifier = 0) {
  static_assert(wire::kSizeOf<Message> == wire::kCmDataBytes);
  mad::MadBytes mad{};
  const auto header =
      wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::ComMgt,
                                 .class_version = wire::kCmClassVersion,
                                 .method = wire::MadMethod::Send,
                                 .transaction_id = transaction_id,
                                 .attribute_id = static_cast<std::uint16_t>(attribute),
                                 .attribute_modifier = modifier});
  std::ranges::copy(header, mad.begin());
  std::ranges::copy(wire::pack(message), mad.begin() + header.size());
  return mad;
}

[[nodiscard]] inline wire::MadHeader header_of(const mad::MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

template <wire::WireType Message>
[[nodiscard]] Message message_of(const mad::MadBytes& mad) {
  return wire::unpack<Message>(
      std::span{mad}.subspan<wire::kSizeOf<wire::MadHeader>, wire::kCmDataBytes>());
}

/// Copies `data` into a message field. The caller has checked that it fits.
template <std::size_t kBytes>
void put(std::array<std::byte, kBytes>& field, ByteSpan data) {
  copy_bytes(std::span{field}.first(data.size()), data);
}

/// The primary or alternate path of a REQ or LAP, from the receiver's view.
[[nodiscard]] Path path_of(const wire::CmPath& path, PKey pkey, verbs::Mtu mtu);
/// A path as the sender of a REQ or LAP encodes it.
[[nodiscard]] wire::CmPath wire_path(const Path& path, std::uint8_t ack_timeout);
/// The type of the QP that a REQ asks for.
[[nodiscard]] QpType passive_type(const wire::Req& req);
/// True if the message describes no alternate path.
[[nodiscard]] bool is_absent(const wire::CmPath& path);

/// The Local ACK Timeout for a path, as an exponent: twice the packet lifetime plus the ACK delay
/// of the responder's CA (IBTA vol 1 §12.7.34).
[[nodiscard]] std::uint8_t ack_timeout(std::uint8_t packet_life_time, std::uint8_t ack_delay);

[[nodiscard]] mad::MadBytes make_req(const Link& link, const RequestParameters& parameters);
[[nodiscard]] ReqReceived req_received_from(const wire::Req& req, std::uint32_t ece_options);
[[nodiscard]] mad::MadBytes make_rep(const Link& link, const ReplyParameters& parameters);
[[nodiscard]] RepReceived rep_received_from(const wire::Rep& rep, QpType qp_type,
                                            std::uint32_t ece_options);
[[nodiscard]] mad::MadBytes make_sidr_rep(const Link& link, const SidrReplyParameters& parameters);
[[nodiscard]] SidrRepReceived sidr_rep_received_from(const wire::SidrRep& rep,
                                                     std::uint32_t ece_options);

/// Refuse counts and exponents that do not fit their fields, invalid paths, and private data that
/// is too long (R-CM-7).
[[nodiscard]] Result<void> check(const RequestParameters& parameters);
[[nodiscard]] Result<void> check(const ReplyParameters& parameters);
[[nodiscard]] Result<void> check(const RejectParameters& parameters);
[[nodiscard]] Result<void> check(const AprParameters& parameters);
[[nodiscard]] Result<void> check(const SidrRequestParameters& parameters);
[[nodiscard]] Result<void> check(const SidrReplyParameters& parameters);
[[nodiscard]] Result<void> check(const Path& path, std::string_view what);
[[nodiscard]] Result<void> check_length(std::string_view what, ByteSpan data, std::size_t room);
[[nodiscard]] Result<void> check_width(std::string_view what, std::uint64_t value, unsigned bits);

}  // namespace weft::cm
