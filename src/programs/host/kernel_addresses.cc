#include "programs/host/kernel_addresses.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "os/run_directory.h"
#include "uabi/messages.h"

namespace weft::programs {
namespace {

constexpr int kAnswersWithinMs = 5'000;  // policy

[[nodiscard]] std::string own_host() {
  const char* const host = std::getenv("WEFT_HOST");
  return host == nullptr ? "" : host;
}

}  // namespace

Result<KernelAddresses> KernelAddresses::open() {
  auto socket = os::PacketSocket::connect(
      os::control_path(os::run_directory_path(), os::fabric_of_environment()));
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return KernelAddresses{*std::move(socket)};
}

Result<void> KernelAddresses::set(PKey pkey, std::span<const InterfaceAddress> addresses) {
  uabi::CarryAddresses request{
      .version = uabi::kVersion, .host = own_host(), .pkey = pkey.value(), .addresses = {}};
  for (const InterfaceAddress& address :
       addresses.first(std::min(addresses.size(), uabi::kMaxHostAddresses))) {
    request.addresses.push_back(to_string(address));
  }
  if (auto sent = socket_.send(uabi::encode(uabi::Message{std::move(request)}), {}); !sent) {
    return sent;
  }
  pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kAnswersWithinMs) != 1) {
    return fail(ErrorCode::TimedOut, "the fabric's daemon does not answer");
  }
  std::vector<std::byte> room(uabi::kMaxMessageBytes);
  const auto received = socket_.receive(room);
  if (!received) {
    return std::unexpected(received.error());
  }
  const auto answer = uabi::decode(ByteSpan{room}.first(received->bytes));
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const auto* const refused = answer->get_if<uabi::Refused>();
  return refused == nullptr ? Result<void>{} : fail(ErrorCode::Refused, "{}", refused->reason);
}

}  // namespace weft::programs
