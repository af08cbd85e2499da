#include "host_view/rdma_netlink.h"

#include <cerrno>

namespace weft::host_view {
namespace {

using wire::netlink::Message;

[[nodiscard]] int handle(const Message& message, const HostView& host, const Asker& asker,
                         ServiceSink* services, std::vector<std::byte>& answers) {
  const std::uint16_t operation = operation_of(message.header.type);
  const auto client = static_cast<Client>(client_of(message.header.type));
  switch (client) {
    case Client::Nldev:
      return answer_nldev(message, operation, host, asker, answers);
    case Client::Ls:
    case Client::Iwcm:
      return services == nullptr ? -EINVAL : services->take(client, operation, message);
    default:
      return -EINVAL;  // no such client
  }
}

/// Linux takes requests only, but of local services answers too: there the kernel asks.
[[nodiscard]] bool is_for_kernel(const Message& message) {
  return message.header.type >= wire::netlink::kTypeMin &&
         (message.header.is_request() ||
          static_cast<Client>(client_of(message.header.type)) == Client::Ls);
}

/// Whether a dump's end is among the messages: it stands for the acknowledgement.
[[nodiscard]] bool has_end(ByteSpan answers) {
  while (const auto message = wire::netlink::take_message(answers)) {
    if (message->header.type == wire::netlink::kTypeDone) {
      return true;
    }
  }
  return false;
}

/// Cuts `answers` between messages.
void append_datagrams(ByteSpan answers, std::vector<std::vector<std::byte>>& datagrams) {
  std::vector<std::byte> current;
  while (const auto message = wire::netlink::take_message(answers)) {
    if (!current.empty() && current.size() + message->whole.size() > kDatagramBytes) {
      datagrams.push_back(std::move(current));
      current = {};
    }
    current.insert(current.end(), message->whole.begin(), message->whole.end());
    current.resize(wire::netlink::aligned(current.size()));
  }
  if (!current.empty()) {
    datagrams.push_back(std::move(current));
  }
}

}  // namespace

bool reads_resources(ByteSpan datagram) {
  while (const auto message = wire::netlink::take_message(datagram)) {
    if (is_for_kernel(*message) &&
        static_cast<Client>(client_of(message->header.type)) == Client::Nldev &&
        nldev_reads_resources(operation_of(message->header.type))) {
      return true;
    }
  }
  return false;
}

std::vector<std::vector<std::byte>> answer(ByteSpan datagram, const HostView& host,
                                           const Asker& asker, ServiceSink* services) {
  std::vector<std::vector<std::byte>> datagrams;
  while (const auto message = wire::netlink::take_message(datagram)) {
    std::vector<std::byte> answers;
    const int error =
        is_for_kernel(*message) ? handle(*message, host, asker, services, answers) : 0;
    if (error != 0) {
      answers.clear();
    }
    if (error != 0 || (message->header.wants_ack() && !has_end(answers))) {
      wire::netlink::put_error(answers, *message, error);
    }
    append_datagrams(answers, datagrams);
  }
  return datagrams;
}

}  // namespace weft::host_view
