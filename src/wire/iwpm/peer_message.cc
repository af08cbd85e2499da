#include "wire/iwpm/peer_message.h"

#include <algorithm>
#include <span>

namespace weft::wire::iwpm {
namespace {

using Field16 = std::array<std::byte, 16>;

[[nodiscard]] Field16 field_of(const IpAddress& ip) {
  Field16 field{};
  copy_bytes(field, ip.octets());
  return field;
}

[[nodiscard]] SocketAddress address_of(const Field16& field, std::uint8_t ip_version,
                                       std::uint16_t port) {
  if (ip_version == 6) {
    return {IpAddress{field}, port};
  }
  IpAddress::V4Octets octets{};
  std::copy_n(field.begin(), octets.size(), octets.begin());
  return {IpAddress{octets}, port};
}

}  // namespace

std::vector<std::byte> to_datagram(const PeerMessage& message) {
  const bool is_request = message.type == IwpmMessageType::Request;
  IwpmRequest request;
  request.message = {.version = 0,
                     .type = message.type,
                     .ip_version = static_cast<std::uint8_t>(message.accepting.ip.family()),
                     .pm_time = 0,
                     .mapped_port = is_request ? message.mapped_connecting.port : std::uint16_t{0},
                     .accepting_port = message.accepting.port,
                     .connecting_port = message.connecting.port,
                     .handle = message.handle,
                     .connecting_ip = field_of(message.connecting.ip),
                     .accepting_ip = field_of(message.accepting.ip)};
  if (!is_request) {
    const auto octets = pack(request.message);
    return {octets.begin(), octets.end()};
  }
  request.mapped_ip = field_of(message.mapped_connecting.ip);
  const auto octets = pack(request);
  return {octets.begin(), octets.end()};
}

Result<PeerMessage> parse_peer_message(ByteSpan datagram) {
  constexpr std::size_t kShort = kSizeOf<IwpmMessage>;
  constexpr std::size_t kLong = kSizeOf<IwpmRequest>;
  if (datagram.size() != kShort && datagram.size() != kLong) {
    return fail(ErrorCode::Io, "a port mapper's message has {} or {} octets, not {}", kShort, kLong,
                datagram.size());
  }
  const auto header = unpack<IwpmMessage>(datagram.first<kShort>());
  if (header.version != 0) {
    return fail(ErrorCode::Io, "the port mappers' protocol has version 0, not {}", header.version);
  }
  if (header.ip_version != 4 && header.ip_version != 6) {
    return fail(ErrorCode::Io, "there is no IP version {}", header.ip_version);
  }
  PeerMessage message;
  message.type = header.type;
  message.handle = header.handle;
  message.connecting = address_of(header.connecting_ip, header.ip_version, header.connecting_port);
  message.accepting = address_of(header.accepting_ip, header.ip_version, header.accepting_port);
  if (header.type != IwpmMessageType::Request) {
    return message;
  }
  if (datagram.size() != kLong) {
    return fail(ErrorCode::Io, "a request has {} octets, not {}", kLong, datagram.size());
  }
  const auto request = unpack<IwpmRequest>(datagram.first<kLong>());
  message.mapped_connecting = address_of(request.mapped_ip, header.ip_version, header.mapped_port);
  return message;
}

}  // namespace weft::wire::iwpm
