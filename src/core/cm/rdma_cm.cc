#include "core/cm/rdma_cm.h"

namespace weft::core {

std::string_view name_of(verbs::RdmaCmEventType type) {
  using enum verbs::RdmaCmEventType;
  switch (type) {
    case AddressResolved:
      return "address resolved";
    case AddressError:
      return "address not resolved";
    case RouteResolved:
      return "route resolved";
    case RouteError:
      return "route not resolved";
    case ConnectRequest:
      return "connect request";
    case ConnectResponse:
      return "connect response";
    case ConnectError:
      return "connect error";
    case Unreachable:
      return "unreachable";
    case Rejected:
      return "rejected";
    case Established:
      return "established";
    case Disconnected:
      return "disconnected";
    case DeviceRemoval:
      return "device removal";
    case MulticastJoin:
      return "multicast join";
    case MulticastError:
      return "multicast error";
    case AddressChange:
      return "address change";
    case TimewaitExit:
      return "time-wait exit";
    case AddrinfoResolved:
      return "address information";
    case AddrinfoError:
      return "no address information";
    case User:
      return "user event";
  }
  return "unknown event";
}

}  // namespace weft::core
