// Arbitrary octets as an iSER message: refused with a reason, or what is built again from its parts
// is read as the same.

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "ulp/iser/message.h"
#include "wire/iser/private_data.h"

namespace weft::iser {
namespace {

void run(ByteSpan octets) {
  if (const auto data = wire::parse<wire::iser::PrivateData>(octets)) {
    WEFT_ASSERT(wire::unpack<wire::iser::PrivateData>(wire::pack(*data)) == *data, "the same");
  }
  const auto parsed = parse_message(octets);
  if (!parsed) {
    WEFT_ASSERT(!parsed.error().reason.empty(), "a refusal has its reason");
    return;
  }
  if (const auto* const message = std::get_if<ControlMessage>(&*parsed)) {
    iscsi::OutgoingPdu pdu{
        message->pdu.basic_header(),
        std::vector<std::byte>(message->pdu.data.begin(), message->pdu.data.end())};
    pdu.set_additional_headers(
        {message->pdu.additional_headers.begin(), message->pdu.additional_headers.end()});
    const auto built = to_message(message->header, pdu);
    const auto again = parse_message(built);
    WEFT_ASSERT(again.has_value(), "what was built can be read");
    const auto& same = std::get<ControlMessage>(*again);
    WEFT_ASSERT(same.header == message->header, "with the same header");
    WEFT_ASSERT(same.pdu.basic_header() == message->pdu.basic_header(), "of the same PDU");
    WEFT_ASSERT(std::ranges::equal(same.pdu.data, message->pdu.data), "and the same data");
  }
}

}  // namespace
}  // namespace weft::iser

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::iser::run(std::as_bytes(std::span{data, size}));
  return 0;
}
