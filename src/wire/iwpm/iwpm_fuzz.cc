// Arbitrary bytes as messages of the port mapper, by netlink and between peers: refused with a
// reason, or what is built again from the values is read as the same values.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/iwpm/netlink_messages.h"
#include "wire/iwpm/peer_message.h"

namespace weft::wire::iwpm {
namespace {

template <class Message>
void try_as(ByteSpan payload, std::uint16_t abi) {
  const auto parsed = parse<Message>(payload, abi);
  if (!parsed) {
    if (parsed.error().reason.empty()) {
      std::abort();
    }
    return;
  }
  std::vector<std::byte> datagram;
  if (!append(datagram, kMessageRoom, {}, *parsed, abi)) {
    std::abort();
  }
  ByteSpan rest = datagram;
  const auto message = netlink::take_message(rest);
  if (!message || !rest.empty() || !(parse<Message>(message->payload, abi) == *parsed)) {
    std::abort();
  }
}

template <class... Messages>
void try_all(ByteSpan payload) {
  for (const std::uint16_t abi : {kAbiMin, kAbi}) {
    (try_as<Messages>(payload, abi), ...);
  }
}

void try_every_message(ByteSpan payload) {
  try_all<RegisterPid, RegisterPidAnswer, AddMapping, AddMappingAnswer, QueryMapping,
          ConnectionInfo, RemoveMapping, MapinfoRequest, Mapinfo, MapinfoCount, MapinfoCountAnswer,
          HandleError, Hello>(payload);
}

void try_as_peers(ByteSpan octets) {
  const auto parsed = parse_peer_message(octets);
  if (parsed ? !(parse_peer_message(to_datagram(*parsed)) == *parsed)
             : parsed.error().reason.empty()) {
    std::abort();
  }
}

}  // namespace
}  // namespace weft::wire::iwpm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace iwpm = weft::wire::iwpm;
  const weft::ByteSpan octets = std::as_bytes(std::span{data, size});
  iwpm::try_as_peers(octets);
  weft::ByteSpan rest = octets;
  while (const auto message = weft::wire::netlink::take_message(rest)) {
    iwpm::try_every_message(message->payload);
  }
  return 0;
}
