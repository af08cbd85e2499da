#include "fabric/path_end.h"

namespace weft::fabric {

DropCounter drop_counter(PathEnd end) {
  switch (end) {
    case PathEnd::DlidMapping:
    case PathEnd::Looping:
      return DropCounter::RcvSwitchRelayErrors;
    case PathEnd::Malformed:
    case PathEnd::Damaged:
      return DropCounter::RcvErrors;
    case PathEnd::Delivered:
    case PathEnd::PortInactive:
    case PathEnd::NeighborMtu:
    case PathEnd::LifetimeLimit:
    case PathEnd::HeadOfQueueLimit:
    case PathEnd::ManagementLane:
      break;
  }
  return DropCounter::XmitDiscards;
}

std::string_view name_of(PathUse outcome) {
  switch (outcome) {
    case PathUse::Delivered:
      return "Delivered";
    case PathUse::SourceDown:
      return "the source port is not Active";
    case PathUse::NoCable:
      return "a port on the way has no cable";
    case PathUse::LinkDown:
      return "a link on the way is down";
    case PathUse::NoRoute:
      return "a switch has no forwarding entry for the DLID";
    case PathUse::Loop:
      return "the forwarding tables lead in a circle";
    case PathUse::NotTheOwner:
      return "the forwarding tables lead to a port that does not own the DLID";
    case PathUse::InvalidDlid:
      return "the DLID is not a unicast LID";
    case PathUse::ManagementLane:
      return "the source port maps the service level to VL15";
  }
  return "reserved";
}

}  // namespace weft::fabric
