#include "ulp/iser/message.h"

#include <utility>

namespace weft::iser {
namespace {

Result<Message> parse_control(ByteSpan octets) {
  if (octets.size() < wire::iser::kAllHeaderBytes) {
    return fail(ErrorCode::Io, "{} octets are no iSCSI PDU behind an iSER header, which has {}",
                octets.size(), wire::iser::kAllHeaderBytes);
  }
  const ByteSpan pdu = octets.subspan(wire::iser::kHeaderBytes);
  const std::span<const std::byte, wire::iscsi::kHeaderBytes> header{
      pdu.first<wire::iscsi::kHeaderBytes>()};
  const auto basic = wire::unpack<wire::iscsi::BasicHeader>(header);
  const ByteSpan rest = pdu.subspan(wire::iscsi::kHeaderBytes);
  const std::size_t additional = std::size_t{basic.total_ahs_length} * 4;
  const std::size_t data = basic.data_segment_length;
  const std::size_t padded = data + wire::iscsi::padding_of(data);
  if (rest.size() < additional + data || rest.size() > additional + padded) {
    return fail(ErrorCode::Io, "{} octets follow the header of a PDU that speaks of {} and {}",
                rest.size(), additional, data);
  }
  return ControlMessage{
      .header = wire::unpack<wire::iser::ControlHeader>(octets.first<wire::iser::kHeaderBytes>()),
      .pdu = {.header = header,
              .additional_headers = rest.first(additional),
              .data = rest.subspan(additional, data)}
  };
}

}  // namespace

Result<Message> parse_message(ByteSpan octets) {
  const auto header = wire::parse<wire::iser::ControlHeader>(octets);
  if (!header) {
    return std::unexpected(header.error());
  }
  const auto fixed = octets.first<wire::iser::kHeaderBytes>();
  switch (header->opcode) {
    case wire::iser::Opcode::ControlPdu:
      return parse_control(octets);
    case wire::iser::Opcode::Hello:
      return wire::unpack<wire::iser::Hello>(fixed);
    case wire::iser::Opcode::HelloReply:
      return wire::unpack<wire::iser::HelloReply>(fixed);
  }
  return fail(ErrorCode::Io, "iSER has no message {}; 1 is a PDU, 2 and 3 are Hello and its reply",
              std::to_underlying(header->opcode));
}

std::vector<std::byte> to_message(const wire::iser::ControlHeader& header,
                                  const iscsi::OutgoingPdu& pdu) {
  const auto packed = wire::pack(header);
  const ByteSpan additional = pdu.additional_headers();
  const ByteSpan data = pdu.data();
  std::vector<std::byte> octets;
  octets.reserve(wire::iser::kAllHeaderBytes + additional.size() + data.size());
  octets.insert(octets.end(), packed.begin(), packed.end());
  octets.insert(octets.end(), pdu.header().begin(), pdu.header().end());
  octets.insert(octets.end(), additional.begin(), additional.end());
  octets.insert(octets.end(), data.begin(), data.end());
  return octets;
}

}  // namespace weft::iser
