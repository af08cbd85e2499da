#include <string_view>

#include "uabi/messages.h"

namespace weft::uabi {

std::string_view words(RecordFault what) {
  switch (what) {
    case RecordFault::CorruptRing:
      return "with lengths that no ring permits";
    case RecordFault::MalformedRecord:
      return "that are no packets";
    case RecordFault::ForgedSource:
      return "with a forged source address";
    case RecordFault::ForgedPKey:
      return "with a P_Key that its port does not have";
    case RecordFault::ForgedQpn:
      return "with the source QP of another process";
    case RecordFault::WrongDestination:
      return "for an address that is not the receiver's";
    case RecordFault::ManagementQpn:
      return "for QP0 or QP1";
    case RecordFault::ConnectedElsewhere:
      return "for connections of other processes";
    case RecordFault::NoSuchQp:
      return "for QPs that do not exist";
  }
  return "";
}

}  // namespace weft::uabi
