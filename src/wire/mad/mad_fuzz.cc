// Foreign bytes as the payload of a packet to QP0 or QP1: whatever class, attribute and segment
// they claim to be, they are printed, and what was printed is no longer than what there was.

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
  // A notice is printed with its details behind it, a part of it once more.
  require(attribute_bytes <= 2 * kMadBytes);
}

/// A query and a record that foreign bytes say, by a mask that they say too.
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

/// What is shorter than a MAD is taken with zeros behind it, some of it also as it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weft::ByteSpan input = std::as_bytes(std::span{data, size});
  if (size < weft::wire::kMadBytes && size % 8 == 0) {  // printing takes most of the time
    weft::wire::print(input);
  }
  std::array<std::byte, weft::wire::kMadBytes> mad{};
  weft::copy_bytes(mad, input.first(std::min(input.size(), mad.size())));
  weft::wire::print(mad);
  weft::wire::compare(mad);
  return 0;
}
