#include "station/one_sided.h"

namespace weft::station {
namespace {

[[nodiscard]] bool is_one_sided(const wire::OpcodeInfo& info) {
  switch (info.operation) {
    case wire::Operation::RdmaWrite:
      return !info.headers.has(wire::ExtensionHeader::Immediate);
    case wire::Operation::RdmaReadRequest:
    case wire::Operation::CompareSwap:
    case wire::Operation::FetchAdd:
    case wire::Operation::AtomicWrite:
    case wire::Operation::Flush:
      return true;
    case wire::Operation::Send:
    case wire::Operation::RdmaReadResponse:
    case wire::Operation::Acknowledge:
    case wire::Operation::AtomicAcknowledge:
    case wire::Operation::CongestionNotification:
      return false;
  }
  return false;
}

}  // namespace

const std::array<bool, 256> kOneSidedOpcodes = [] {
  std::array<bool, 256> rows{};
  for (const wire::OpcodeInfo& info : wire::opcode_table()) {
    rows[static_cast<std::uint8_t>(info.opcode)] = is_one_sided(info);
  }
  return rows;
}();

}  // namespace weft::station
