#include "sriov/data_qp_rules.h"

namespace weft::sriov {
namespace {

constexpr VirtualLane kManagementLane{15};

}  // namespace

Result<void> check_data_qkey(FunctionId function, QKey qkey) {
  if (function != kPhysicalFunction && qkey == kGsiQKey) {
    return fail(ErrorCode::InvalidArgument,
                "Q_Key 0x{:08x} belongs to QP1, which a virtual function has as a proxy only",
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
