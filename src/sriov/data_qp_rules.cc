#include "sriov/data_qp_rules.h"

namespace weft::sriov {
namespace {

constexpr VirtualLane kManagementLane{15};

}  // namespace

Result<void> check_data_qkey(FunctionId function, bool is_trusted, QKey qkey) {
  if (function != kPhysicalFunction && qkey == kGsiQKey && !is_trusted) {
    return fail(ErrorCode::InvalidArgument,
                "Q_Key 0x{:08x} belongs to QP1, which a virtual function has as a proxy only; "
                "`weft vf set NAME --trust on` lets its other QPs have it, too",
                qkey.value());
  }
  return {};
}

std::optional<Reason> check_data_send(FunctionId function, QKey qkey, VirtualLane lane) {
  if (function == kPhysicalFunction) {
    return std::nullopt;
  }
  if (qkey == kGsiQKey) {
    return Reason::WellKnownQKey;
  }
  return lane == kManagementLane ? std::optional{Reason::VirtualLane15} : std::nullopt;
}

}  // namespace weft::sriov
