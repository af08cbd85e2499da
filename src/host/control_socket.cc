#include "host/control_socket.h"

#include <poll.h>

#include <memory>

#include "os/clock.h"

namespace weft::host {

static_assert(uabi::kMaxDescriptors <= os::kMostPassedDescriptors);

Result<ControlSocket> ControlSocket::connect(const std::string& path) {
  auto connected = os::PacketSocket::connect(path);
  if (!connected && connected.error().code == ErrorCode::Refused) {
    return fail(ErrorCode::Refused, "no fabric daemon: {}: start one with `weft up`",
                connected.error().reason);
  }
  if (!connected) {
    return std::unexpected(connected.error());
  }
  return ControlSocket{std::move(*connected)};
}

Result<void> ControlSocket::send(const uabi::Message& message,
                                 std::span<const int> descriptors) const {
  return socket_.send(uabi::encode(message), descriptors);
}

Result<Received> ControlSocket::receive() const {
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(uabi::kMaxMessageBytes);
  auto packet = socket_.receive({bytes.get(), uabi::kMaxMessageBytes});
  if (!packet) {
    return std::unexpected(packet.error());
  }
  auto message = uabi::decode({bytes.get(), packet->bytes});
  if (!message) {
    return std::unexpected(message.error());
  }
  if (packet->descriptors.size() != uabi::descriptors_of(*message)) {
    return fail(ErrorCode::Io, "a control message came with {} descriptors instead of {}",
                packet->descriptors.size(), uabi::descriptors_of(*message));
  }
  return Received{.message = std::move(*message), .descriptors = std::move(packet->descriptors)};
}

Result<Received> ControlSocket::receive(Duration longest) const {
  const Instant deadline = os::now() + longest;
  while (true) {
    auto received = receive();
    if (received || received.error().code != ErrorCode::TryAgain) {
      return received;
    }
    const Duration left = deadline - os::now();
    if (left <= Duration{}) {
      return fail(ErrorCode::TimedOut, "the fabric daemon did not answer within {} ms",
                  longest.milliseconds());
    }
    pollfd wait{.fd = fd(), .events = POLLIN, .revents = 0};
    poll(&wait, 1, static_cast<int>(left.milliseconds()) + 1);
  }
}

}  // namespace weft::host
