#include "wire/iwpm/netlink_messages.h"

namespace weft::wire::iwpm {

std::optional<netlink::MessageWriter> create_message(std::vector<std::byte>& datagram,
                                                     std::size_t room, const Envelope& envelope,
                                                     Operation operation, std::size_t payload) {
  const std::size_t begin = netlink::aligned(datagram.size());
  if (begin > room || room - begin < netlink::kHeaderBytes ||
      room - begin - netlink::kHeaderBytes < payload) {
    return std::nullopt;
  }
  datagram.resize(begin);
  netlink::MessageWriter writer{datagram};
  writer.begin({.length = 0,
                .type = type_of(envelope.client, operation),
                .flags = envelope.flags,
                .sequence = envelope.sequence,
                .port = envelope.port});
  return writer;
}

}  // namespace weft::wire::iwpm
