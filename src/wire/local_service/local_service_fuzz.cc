// Arbitrary bytes as messages of resolvers, in both formats: refused with a reason, or what is
// built again from the values is read as the same values.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/local_service/data_message.h"
#include "wire/local_service/messages.h"

namespace weft::wire::local_service {
namespace {

template <class Message>
void try_as(ByteSpan payload, Result<Message> (*parse_it)(ByteSpan)) {
  const auto parsed = parse_it(payload);
  if (!parsed) {
    if (parsed.error().reason.empty()) {
      std::abort();
    }
    return;
  }
  std::vector<std::byte> datagram;
  append(datagram, {}, *parsed);
  ByteSpan rest = datagram;
  const auto message = netlink::take_message(rest);
  if (!message || !rest.empty() || !(parse_it(message->payload) == *parsed)) {
    std::abort();
  }
}

}  // namespace
}  // namespace weft::wire::local_service

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace local = weft::wire::local_service;
  const weft::ByteSpan octets = std::as_bytes(std::span{data, size});
  local::try_as(octets, &local::parse_resolve_request);
  local::try_as(octets, &local::parse_resolve_answer);
  local::try_as(octets, &local::parse_set_timeout);
  local::try_as(octets, &local::parse_ip_resolve_request);
  local::try_as(octets, &local::parse_ip_resolve_answer);
  local::try_as(octets, &local::parse_data_message);
  return 0;
}
