// Arbitrary bytes as IPoIB payload. Checks that they are refused with a reason, or that parsing and
// building them again yields the same message.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <variant>

#include "wire/ipoib/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace wire = weft::wire;
  const auto parsed = wire::parse_ipoib(std::as_bytes(std::span{data, size}));
  if (!parsed) {
    if (parsed.error().reason.empty()) {
      std::abort();
    }
    return 0;
  }
  const auto check = [&]<class Message>(const Message& message) {
    if constexpr (!std::is_same_v<Message, wire::OtherIpoibMessage>) {
      const auto again = wire::parse_ipoib(wire::to_payload(message));
      if (!again || !(*again == *parsed)) {
        std::abort();
      }
    }
  };
  std::visit(check, *parsed);
  return 0;
}
