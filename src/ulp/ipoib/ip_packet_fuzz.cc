// Arbitrary bytes as an IP packet of the host. Checks that what is read of reports lies in the
// packet, and that answers to packets that are too long are IP packets and are never answered
// themselves.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ulp/ipoib/listening.h"
#include "ulp/ipoib/too_big.h"

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace ipoib = weft::ipoib;
  const weft::ByteSpan packet = std::as_bytes(std::span{data, size});
  const auto listenings = ipoib::listenings_of(packet);
  require(listenings.size() <= ipoib::kMaxReportedGroups);
  for (const ipoib::Listening& one : listenings) {
    require(one.group.is_multicast());
  }
  if (const auto answer = ipoib::make_too_big(packet, 2044)) {
    require(ipoib::ends_of(*answer).has_value());
    require(!ipoib::make_too_big(*answer, 2044));
  }
  return 0;
}
