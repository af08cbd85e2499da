#include "programs/srp/unit_identity.h"

namespace weft::programs::srp {
namespace {

constexpr std::size_t kPageHeader = 4;
constexpr std::size_t kDesignatorHeader = 4;
constexpr std::byte kPage{0x83};

[[nodiscard]] std::size_t number(ByteSpan octets, std::size_t at) {
  return std::to_integer<std::size_t>(octets[at]);
}

}  // namespace

Result<std::vector<std::byte>> unit_designators(ByteSpan page) {
  std::vector<std::byte> all;
  const bool is_page = page.size() >= kPageHeader && page[1] == kPage;
  const std::size_t length = is_page ? number(page, 2) << 8 | number(page, 3) : 0;
  if (is_page && length <= page.size() - kPageHeader) {
    ByteSpan rest = page.subspan(kPageHeader, length);
    while (rest.size() >= kDesignatorHeader) {
      const std::size_t whole = kDesignatorHeader + number(rest, 3);
      const std::size_t association = number(rest, 1) >> 4 & 0x3;
      if (whole > rest.size()) {
        break;
      }
      if (association == 0) {
        const ByteSpan one = rest.first(whole);
        all.insert(all.end(), one.begin(), one.end());
      }
      rest = rest.subspan(whole);
    }
  }
  if (all.empty()) {
    return fail(ErrorCode::NotSupported,
                "the unit does not say which one it is (INQUIRY, page 0x83)");
  }
  return all;
}

}  // namespace weft::programs::srp
