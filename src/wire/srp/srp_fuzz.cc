// Arbitrary octets as information units and as attributes of device management: refused with a
// reason, or what is built again from the values is read as the same values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/srp/boot_table.h"
#include "wire/srp/device_management.h"
#include "wire/srp/information_unit.h"

namespace weft::wire {
namespace {

/// Reserved octets are not kept, so the second build is compared with the first.
template <class Unit, class Parse, class Build>
void try_unit(ByteSpan octets, Parse parse_unit, Build build) {
  const Result<Unit> parsed = parse_unit(octets);
  if (!parsed) {
    WEFT_ASSERT(!parsed.error().reason.empty(), "a refusal has its reason");
    return;
  }
  const std::vector<std::byte> built = build(*parsed);
  const Result<Unit> again = parse_unit(built);
  WEFT_ASSERT(again.has_value(), "what was built can be read");
  WEFT_ASSERT(build(*again) == built, "and is the same");
}

template <WireType... Types>
void try_fixed(ByteSpan octets) {
  const auto try_one = [&]<class T>() {
    if (const auto value = parse<T>(octets)) {
      WEFT_ASSERT(parse<T>(pack(*value)) == *value, "what was packed is read as the same");
    }
  };
  (try_one.template operator()<Types>(), ...);
}

void run(ByteSpan octets) {
  if (octets.size() < 2) {
    return;
  }
  const auto offset = static_cast<std::uint16_t>(std::to_integer<unsigned>(octets[0]) * 4);
  octets = octets.subspan(1);
  try_unit<SrpCommandUnit>(
      octets, [&](ByteSpan unit) { return parse_srp_command(unit, offset); },
      [&](const SrpCommandUnit& unit) { return to_unit(unit, offset); });
  try_unit<SrpResponseUnit>(octets, parse_srp_response,
                            [](const SrpResponseUnit& unit) { return to_unit(unit); });
  try_unit<SrpAerUnit>(octets, parse_srp_aer, [](const SrpAerUnit& unit) { return to_unit(unit); });
  try_fixed<SrpLoginReq, SrpLoginReqRdmaCm, SrpLoginRsp, SrpLoginRej, SrpILogout, SrpTLogout,
            SrpTskMgmt, SrpCredReq, SrpCredRsp, SrpAerRsp, DevMgtMad, IoUnitInfo,
            IoControllerProfile, ServiceEntries, SrpBootTable>(octets);
  if (srp_opcode(octets)) {
    WEFT_ASSERT(!name_of(*srp_opcode(octets)).empty(), "an opcode has a name");
  }
}

}  // namespace
}  // namespace weft::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::wire::run(std::as_bytes(std::span{data, size}));
  return 0;
}
