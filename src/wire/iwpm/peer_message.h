#pragma once

// What port mappers of two hosts say to each other over UDP port 3935. There is no published
// specification: the layout is what rdma-core's iwpmd sends, of which a test has a capture.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/iwpm/socket_address.h"
#include "wire/layout.h"

namespace weft::wire {

enum class IwpmMessageType : std::uint8_t { Request = 0, Accept = 1, Ack = 2, Reject = 3 };

/// The 48 octets of an accept, ack or reject, and the first 48 of a request. IPv4 addresses fill
/// the first four octets of their fields; iwpmd leaves the other twelve as they were in its memory.
struct IwpmMessage {
  static constexpr std::string_view kName = "iWARP port mapper message";

  std::uint8_t version{};
  IwpmMessageType type{};
  std::uint8_t ip_version{4};
  std::uint8_t pm_time{};
  std::uint16_t mapped_port{};  ///< of the connecting peer, in a request; else 0
  std::uint16_t accepting_port{};
  std::uint16_t connecting_port{};
  std::uint64_t handle{};  ///< chosen by the connecting peer's mapper, the same in all answers
  std::array<std::byte, 16> connecting_ip{};
  std::array<std::byte, 16> accepting_ip{};
  bool operator==(const IwpmMessage&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Field<"Version", 2, &IwpmMessage::version>,
      Field<"Type", 2, &IwpmMessage::type>,
      Field<"IPVersion", 4, &IwpmMessage::ip_version>,
      Field<"PMTime", 8, &IwpmMessage::pm_time>,
      Field<"MappedConnectingPort", 16, &IwpmMessage::mapped_port>,
      Field<"AcceptingPort", 16, &IwpmMessage::accepting_port>,
      Field<"ConnectingPort", 16, &IwpmMessage::connecting_port>,
      Field<"AssociationHandle", 64, &IwpmMessage::handle>,
      Octets<"ConnectingIP", 16, &IwpmMessage::connecting_ip>,
      Octets<"AcceptingIP", 16, &IwpmMessage::accepting_ip>>;
  // clang-format on
};

/// A request: it tells the connecting peer's mapped address, too.
struct IwpmRequest {
  static constexpr std::string_view kName = "iWARP port mapper request";

  IwpmMessage message;
  std::array<std::byte, 16> mapped_ip{};
  bool operator==(const IwpmRequest&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Nested<&IwpmRequest::message>,
      Octets<"MappedConnectingIP", 16, &IwpmRequest::mapped_ip>>;
  // clang-format on
};

}  // namespace weft::wire

namespace weft::wire::iwpm {

/// UDP port at which mappers take requests.
inline constexpr std::uint16_t kPeerPort = 3935;

/// The same with addresses as values. All addresses of a message are of one family.
struct PeerMessage {
  IwpmMessageType type{};
  std::uint64_t handle{};
  SocketAddress connecting;         ///< what the connecting peer calls itself
  SocketAddress accepting;          ///< asked for; in an accept: what it is mapped to
  SocketAddress mapped_connecting;  ///< in a request only
  bool operator==(const PeerMessage&) const = default;
};

/// 64 octets for a request, else 48.
[[nodiscard]] std::vector<std::byte> to_datagram(const PeerMessage& message);

/// Fails if the length is another, version or IP version are unknown, or a request has 48 octets.
/// What follows an IPv4 address in its field is ignored.
[[nodiscard]] Result<PeerMessage> parse_peer_message(ByteSpan datagram);

}  // namespace weft::wire::iwpm
