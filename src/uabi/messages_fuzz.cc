// Foreign bytes as a control message: refused with a reason, or a message of which there is one
// form.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "uabi/messages.h"

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span{data, size});
  const auto message = weft::uabi::decode(bytes);
  if (!message) {
    require(!message.error().reason.empty());
    return 0;
  }
  require(weft::uabi::descriptors_of(*message) <= weft::uabi::kMaxDescriptors);
  require(std::ranges::equal(weft::uabi::encode(*message), bytes));
  if (const auto* report = std::get_if<weft::uabi::PeerMisbehaves>(&*message)) {
    require(!weft::uabi::words(report->what).empty());
  }
  return 0;
}
