// Arbitrary bytes as a 16B packet and as each attribute of VEMA. Checks that they are refused with
// a reason, or that parsing and building them again yields the same.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/bytes.h"
#include "wire/opa/mac_messages.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"
#include "wire/opa/vesw_port_counters.h"
#include "wire/opa/vesw_port_info.h"

namespace weft::wire {
namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void try_packet(ByteSpan input) {
  const auto parsed = parse_opa_ethernet(input);
  require(parsed || !parsed.error().reason.empty());
  if (!parsed) {
    return;
  }
  const auto again = to_opa_packet(parsed->header, parsed->frame);
  const auto reparsed = parse_opa_ethernet(again);
  require(reparsed && reparsed->has_valid_icrc && reparsed->header == parsed->header &&
          std::ranges::equal(reparsed->frame, parsed->frame));
}

void try_mad_packet(ByteSpan input) {
  const auto parsed = parse_opa_mad(input);
  require(parsed || !parsed.error().reason.empty());
  if (!parsed) {
    return;
  }
  const auto again =
      parse_opa_mad(to_opa_mad_packet(parsed->header, parsed->management, parsed->mad));
  require(again && again->has_valid_icrc && again->management == parsed->management &&
          std::ranges::equal(again->mad, parsed->mad));
}

template <WireType T>
void try_attribute(ByteSpan input) {
  const auto value = parse<T>(input);
  require(value.has_value() == (input.size() >= kSizeOf<T>));
  require(!value || unpack<T>(pack(*value)) == *value);
}

void try_lists(ByteSpan input) {
  if (const auto block = parse_mac_table(input)) {
    require(parse_mac_table(to_data(*block)).value() == *block);
  }
  const auto list = parse_mac_list(input);
  if (list && list->macs.size() <= kMaxMacsInMessage) {
    require(parse_mac_list(to_data(*list)).value() == *list);
  }
}

}  // namespace
}  // namespace weft::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace wire = weft::wire;
  const weft::ByteSpan input = std::as_bytes(std::span{data, size});
  wire::try_packet(input);
  wire::try_mad_packet(input);
  wire::try_lists(input);
  wire::try_attribute<wire::VeswPortInfo>(input);
  wire::try_attribute<wire::VeswPortSummaryCounters>(input);
  wire::try_attribute<wire::VeswPortErrorCounters>(input);
  wire::try_attribute<wire::OpaClassPortInfo>(input);
  wire::try_attribute<wire::VemaNotice>(input);
  // Whole MADs are rare among short inputs.
  std::array<std::byte, wire::kOpaMadBytes> mad{};
  weft::copy_bytes(mad, input.first(std::min(input.size(), mad.size())));
  wire::try_attribute<wire::VemaMad>(mad);
  return 0;
}
