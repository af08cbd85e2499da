#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "uabi/messages.h"

/// Whatever decodes must encode to the same bytes: there is one form of each message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span{data, size});
  if (const auto message = weft::uabi::decode(bytes)) {
    const auto again = weft::uabi::encode(*message);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) {
      std::abort();
    }
  }
  return 0;
}
