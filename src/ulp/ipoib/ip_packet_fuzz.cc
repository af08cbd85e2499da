// Arbitrary bytes as an IP packet of the host. Checks that what is read of reports lies in the
// packet, that answers to packets that are too long are IP packets and are never answered
// themselves, and that what is fragmented is not answered, and makes IP packets that fit.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ulp/ipoib/fragments.h"
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
  constexpr std::uint32_t kShortMtu = 100;
  const auto fragments = ipoib::fragments_of(packet, kShortMtu);
  require(fragments.empty() || !ipoib::make_too_big(packet, kShortMtu));
  for (const auto& fragment : fragments) {
    require(fragment.size() <= kShortMtu && ipoib::ends_of(fragment).has_value());
  }
  return 0;
}
