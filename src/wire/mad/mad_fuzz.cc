// Arbitrary bytes as payload for QP0 or QP1. Checks that they are printed whatever class, attribute
// and segment they claim to be, and that the output covers no more bytes than the input.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/bytes.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/mad_print.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::wire {
namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void print(ByteSpan payload) {
  const auto headers = printed_mad(payload);
  require(headers.empty() == (payload.size() < kSizeOf<MadHeader>));
  std::size_t attribute_bytes = 0;
  for (const PrintedHeader& header : headers) {
    require(!to_text(header).empty());
    attribute_bytes += &header == &headers.front() ? 0 : header.bytes;
  }
  // Details of a notice are printed in addition to the notice.
  require(attribute_bytes <= 2 * kMadBytes);
}

/// Compares a query and a record, both from the input, by a mask from the input.
void compare(std::span<const std::byte, kMadBytes> mad) {
  const auto sa = unpack<SaMad>(mad);
  const auto wanted = unpack<PathRecord>(std::span{sa.data}.first<64>());
  const auto record = unpack<PathRecord>(std::span{sa.data}.subspan<64, 64>());
  require(components_match(wanted, wanted, sa.sa.component_mask));
  const bool match = components_match(wanted, record, all_components<PathRecord>());
  require(match == (wanted == record));
  require(!match || components_match(wanted, record, sa.sa.component_mask));
}

}  // namespace
}  // namespace weft::wire

/// Input shorter than a MAD is zero-extended; some of it is also used as it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weft::ByteSpan input = std::as_bytes(std::span{data, size});
  if (size < weft::wire::kMadBytes && size % 8 == 0) {  // printing dominates the run time
    weft::wire::print(input);
  }
  std::array<std::byte, weft::wire::kMadBytes> mad{};
  weft::copy_bytes(mad, input.first(std::min(input.size(), mad.size())));
  weft::wire::print(mad);
  weft::wire::compare(mad);
  return 0;
}
