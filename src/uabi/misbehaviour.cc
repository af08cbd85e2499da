#include <string_view>

#include "uabi/messages.h"

namespace weft::uabi {

std::string_view words(Misbehaviour what) {
  switch (what) {
    case Misbehaviour::CorruptRing:
      return "with lengths that no ring permits";
    case Misbehaviour::MalformedRecord:
      return "that are no packets";
    case Misbehaviour::ForgedSource:
      return "with a forged source address";
    case Misbehaviour::ForgedPKey:
      return "with a P_Key that its port does not have";
    case Misbehaviour::ForgedQpn:
      return "with the source QP of another process";
    case Misbehaviour::WrongDestination:
      return "for an address that is not the receiver's";
    case Misbehaviour::ManagementQpn:
      return "for QP0 or QP1";
    case Misbehaviour::OthersConnection:
      return "for connections of other processes";
    case Misbehaviour::NobodyThere:
      return "for QPs that do not exist";
  }
  return "";
}

}  // namespace weft::uabi
