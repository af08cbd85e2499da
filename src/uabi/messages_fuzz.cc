// Arbitrary bytes as control message. Checks that they are refused with a reason, or decode to a
// message that encodes to the same bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/random.h"
#include "uabi/testing/sample_message.h"

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
  if (const auto* report = message->get_if<weft::uabi::ReportPeer>()) {
    require(!weft::uabi::words(report->what).empty());
  }
  return 0;
}

/// Sometimes starts from a valid message of random type.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  weft::Random random{seed};
  if (random.chance(1, 16)) {
    const auto made =
        weft::uabi::testing::sample_octets(random.below(weft::uabi::Message::kCount), random);
    if (made.size() <= most) {
      std::ranges::copy(made, data);
      size = made.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}
