#include "programs/host/daemon_request.h"

#include <poll.h>

#include <cstddef>
#include <cstdlib>
#include <utility>

#include "base/bytes.h"
#include "os/run_directory.h"

namespace weft::programs {

std::string own_host() {
  const char* const host = std::getenv("WEFT_HOST");
  return host == nullptr ? "" : host;
}

Result<os::PacketSocket> connect_to_daemon() {
  return os::PacketSocket::connect(
      os::control_path(os::run_directory_path(), os::fabric_of_environment()));
}

Result<DaemonAnswer> ask_daemon(const os::PacketSocket& socket, const uabi::Message& request,
                                std::span<const int> descriptors) {
  if (auto sent = socket.send(uabi::encode(request), descriptors); !sent) {
    return std::unexpected(sent.error());
  }
  return receive_answer(socket);
}

Result<DaemonAnswer> receive_answer(const os::PacketSocket& socket) {
  pollfd wait{.fd = socket.fd(), .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kAnswersWithinMs) != 1) {
    return fail(ErrorCode::TimedOut, "the fabric's daemon does not answer");
  }
  std::vector<std::byte> room(uabi::kMaxMessageBytes);
  auto received = socket.receive(room);
  if (!received) {
    return std::unexpected(received.error());
  }
  auto answer = uabi::decode(ByteSpan{room}.first(received->bytes));
  if (!answer) {
    return std::unexpected(answer.error());
  }
  if (const auto* const refused = answer->get_if<uabi::Refused>()) {
    return fail(ErrorCode::Refused, "{}", refused->reason);
  }
  if (received->descriptors.size() != uabi::descriptors_of(*answer)) {
    return fail(ErrorCode::Io, "an answer of the fabric's daemon has not the descriptors it needs");
  }
  return DaemonAnswer{.message = *std::move(answer),
                      .descriptors = std::move(received->descriptors)};
}

}  // namespace weft::programs
