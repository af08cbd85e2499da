#pragma once

// What the kernel does with a datagram that a program sends to it over NETLINK_RDMA: splits it into
// messages, finds the client and the operation, answers, and acknowledges by Linux's rules. Pure;
// one object a socket's worth of rules, no state.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "host_view/host_view.h"
#include "host_view/nldev.h"
#include "wire/netlink/message.h"

namespace weft::host_view {

/// Clients of RDMA netlink (linux/rdma/rdma_netlink.h): the upper 6 bits of a message's type.
enum class Client : std::uint8_t {
  Iwcm = 2,   ///< iWARP port mapper
  Ls = 4,     ///< local services: path and address resolution
  Nldev = 5,  ///< devices
};

[[nodiscard]] constexpr std::uint8_t client_of(std::uint16_t type) {
  return static_cast<std::uint8_t>(type >> 10);
}
[[nodiscard]] constexpr std::uint16_t operation_of(std::uint16_t type) { return type & 0x3FF; }
[[nodiscard]] constexpr std::uint16_t type_of(Client client, std::uint16_t operation) {
  return static_cast<std::uint16_t>(static_cast<std::uint16_t>(client) << 10 | operation);
}

/// Takes messages of the clients whose user is a daemon: they are no queries of the host's state.
class ServiceSink {
 public:
  ServiceSink() = default;
  virtual ~ServiceSink() = default;
  ServiceSink(const ServiceSink&) = delete;
  ServiceSink& operator=(const ServiceSink&) = delete;

  /// Of Client::Ls or Client::Iwcm. Returns 0 or a negative errno; -EINVAL for an operation that it
  /// does not know.
  virtual int take(Client client, std::uint16_t operation,
                   const wire::netlink::Message& message) = 0;
};

/// Whether the datagram holds a request that reads the host's devices: otherwise its HostView is
/// not looked at.
[[nodiscard]] bool reads_devices(ByteSpan datagram);

/// Whether the datagram holds a request that reads what programs hold.
[[nodiscard]] bool reads_resources(ByteSpan datagram);

/// Whether the datagram holds a request that reads the counters of ports.
[[nodiscard]] bool reads_counters(ByteSpan datagram);

/// The datagrams that go back for one that came, each of at most kDatagramBytes unless one message
/// is larger. `services` may be null: then Ls and Iwcm are not there.
inline constexpr std::size_t kDatagramBytes = 16'384;
[[nodiscard]] std::vector<std::vector<std::byte>> answer(ByteSpan datagram, const HostView& host,
                                                         const Asker& asker, ServiceSink* services);

}  // namespace weft::host_view
