#include "wire/mad/smp.h"

namespace weft::wire {

std::string_view name_of(SmpAttribute attribute) {
  switch (attribute) {
    case SmpAttribute::Notice:
      return "Notice";
    case SmpAttribute::NodeDescription:
      return "NodeDescription";
    case SmpAttribute::NodeInfo:
      return "NodeInfo";
    case SmpAttribute::SwitchInfo:
      return "SwitchInfo";
    case SmpAttribute::GuidInfo:
      return "GUIDInfo";
    case SmpAttribute::PortInfo:
      return "PortInfo";
    case SmpAttribute::PKeyTable:
      return "P_KeyTable";
    case SmpAttribute::SlToVlMappingTable:
      return "SLtoVLMappingTable";
    case SmpAttribute::VlArbitrationTable:
      return "VLArbitrationTable";
    case SmpAttribute::LinearForwardingTable:
      return "LinearForwardingTable";
    case SmpAttribute::RandomForwardingTable:
      return "RandomForwardingTable";
    case SmpAttribute::MulticastForwardingTable:
      return "MulticastForwardingTable";
    case SmpAttribute::SmInfo:
      return "SMInfo";
    case SmpAttribute::VendorDiag:
      return "VendorDiag";
    case SmpAttribute::LedInfo:
      return "LedInfo";
    case SmpAttribute::PortInfoExtended:
      return "PortInfoExtended";
  }
  return {};
}

}  // namespace weft::wire
