#include "core/resource.h"

namespace weft::core {

std::string_view name_of(ResourceKind kind) {
  switch (kind) {
    case ResourceKind::Pd:
      return "PD";
    case ResourceKind::Cq:
      return "CQ";
    case ResourceKind::Qp:
      return "QP";
    case ResourceKind::Mr:
      return "MR";
    case ResourceKind::Mw:
      return "MW";
    case ResourceKind::Srq:
      return "SRQ";
    case ResourceKind::Ah:
      return "AH";
    case ResourceKind::Xrcd:
      return "XRC domain";
    case ResourceKind::Wq:
      return "WQ";
    case ResourceKind::IndirectionTable:
      return "indirection table";
  }
  return "no object";
}

}  // namespace weft::core
