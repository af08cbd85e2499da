#include "programs/host/kernel_addresses.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "programs/host/daemon_request.h"

namespace weft::programs {

Result<KernelAddresses> KernelAddresses::open() {
  auto socket = connect_to_daemon();
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return KernelAddresses{*std::move(socket)};
}

Result<void> KernelAddresses::set(const Place& place, std::span<const InterfaceAddress> addresses) {
  uabi::CarryAddresses request{.version = uabi::kVersion,
                               .host = own_host(),
                               .port_of_host = place.port_of_host,
                               .pkey = place.pkey.value(),
                               .addresses = {}};
  for (const InterfaceAddress& address :
       addresses.first(std::min(addresses.size(), uabi::kMaxHostAddresses))) {
    request.addresses.push_back(to_string(address));
  }
  if (auto sent = socket_.send(uabi::encode(uabi::Message{std::move(request)}), {}); !sent) {
    return sent;
  }
  while (true) {
    pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, kAnswersWithinMs) != 1) {
      return fail(ErrorCode::TimedOut, "the fabric's daemon does not answer");
    }
    const auto answer = receive();
    if (!answer) {
      return std::unexpected(answer.error());
    }
    if (const auto* const question = answer->get_if<uabi::AskNeighbor>()) {
      asked_.push_back(*question);
      continue;
    }
    const auto* const refused = answer->get_if<uabi::Refused>();
    return refused == nullptr ? Result<void>{} : fail(ErrorCode::Refused, "{}", refused->reason);
  }
}

Result<uabi::Message> KernelAddresses::receive() {
  std::vector<std::byte> room(uabi::kMaxMessageBytes);
  const auto received = socket_.receive(room);
  if (!received) {
    return std::unexpected(received.error());
  }
  return uabi::decode(ByteSpan{room}.first(received->bytes));
}

Result<std::optional<KernelAddresses::Question>> KernelAddresses::take_question() {
  if (asked_.empty()) {
    const auto message = receive();
    if (!message) {
      return message.error().code == ErrorCode::TryAgain
                 ? Result<std::optional<Question>>{std::nullopt}
                 : std::unexpected(message.error());
    }
    const auto* const question = message->get_if<uabi::AskNeighbor>();
    if (question == nullptr) {
      return fail(ErrorCode::Refused, "the fabric's daemon ends the connection");
    }
    asked_.push_back(*question);
  }
  const uabi::AskNeighbor question = std::move(asked_.front());
  asked_.pop_front();
  const auto neighbor = parse_ip_address(question.neighbor);
  if (!neighbor) {
    return std::unexpected(neighbor.error());
  }
  return Question{.neighbor = *neighbor, .within = Duration::milliseconds(question.within_ms)};
}

Result<void> KernelAddresses::hold_groups(std::span<const Gid> mgids) {
  const auto most = mgids.first(std::min(mgids.size(), uabi::kMaxHeldGroups));
  return socket_.send(uabi::encode(uabi::Message{uabi::HoldGroups{{most.begin(), most.end()}}}),
                      {});
}

Result<void> KernelAddresses::answer(const IpAddress& neighbor, const Gid& gid) {
  return socket_.send(uabi::encode(uabi::Message{
                          uabi::TellNeighbor{to_string(neighbor), gid}
  }),
                      {});
}

}  // namespace weft::programs
