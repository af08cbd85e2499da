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

namespace {

/// Whether a request of NLDEV in the datagram is such a command.
template <class Is>
[[nodiscard]] bool has_request(ByteSpan datagram, Is is_such) {
  while (const auto message = wire::netlink::take_message(datagram)) {
    if (is_for_kernel(*message) &&
        static_cast<Client>(client_of(message->header.type)) == Client::Nldev &&
        is_such(operation_of(message->header.type))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool reads_devices(ByteSpan datagram) {
  return has_request(datagram, [](std::uint16_t) { return true; });
}

bool reads_resources(ByteSpan datagram) { return has_request(datagram, nldev_reads_resources); }

bool reads_counters(ByteSpan datagram) { return has_request(datagram, nldev_reads_counters); }

std::vector<std::vector<std::byte>> answer(ByteSpan datagram, const HostView& host,
                                           const Asker& asker, ServiceSink* services) {
  std::vector<std::vector<std::byte>> datagrams;
  while (auto message = wire::netlink::take_message(datagram)) {
    if (asker.port != 0) {
      message->header.port = asker.port;
    }
    std::vector<std::byte> answers;
    const int error =
        is_for_kernel(*message) ? handle(*message, host, asker, services, answers) : 0;
    const bool is_over = has_end(answers);
    if (error == 0) {
      append_datagrams(answers, datagrams);
    }
    if (error != 0 || (message->header.wants_ack() && !is_over)) {
      // A datagram of its own: programs read one for the answer, and wait for the other.
      std::vector<std::byte> acknowledgement;
      wire::netlink::put_error(acknowledgement, *message, error, asker.wants_capped_errors);
      datagrams.push_back(std::move(acknowledgement));
    }
  }
  return datagrams;
}

}  // namespace weft::host_view
