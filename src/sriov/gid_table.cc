#include "sriov/gid_table.h"

#include "sriov/planted_bug.h"

namespace weft::sriov {

Result<void> GidTable::set(FunctionId function, Guid guid) {
  if (guid == Guid{}) {
    return fail(ErrorCode::InvalidArgument, "0 is no GUID");
  }
  const auto owner = by_guid_.find(guid);
  if (owner != by_guid_.end() && owner->second != function) {
    return fail(ErrorCode::Exists, "function {} has GUID 0x{:016x}", owner->second.value(),
                guid.value());
  }
  remove(function);
  by_guid_[guid] = function;
  by_function_[function] = guid;
  return {};
}

void GidTable::remove(FunctionId function) {
  const auto found = by_function_.find(function);
  if (found == by_function_.end()) {
    return;
  }
  if (!planted(PlantedBug::DeadFunctionSteered)) {
    by_guid_.erase(found->second);
  }
  by_function_.erase(found);
}

std::optional<FunctionId> GidTable::find(const Gid& gid) const {
  if (gid.prefix() != subnet_prefix_ && gid.prefix() != kDefaultGidPrefix) {
    return std::nullopt;
  }
  const auto found = by_guid_.find(gid.interface_id());
  return found == by_guid_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<Gid> GidTable::gid_of(FunctionId function) const {
  const auto found = by_function_.find(function);
  return found == by_function_.end() ? std::nullopt
                                     : std::optional{
                                           Gid{subnet_prefix_, found->second}
  };
}

}  // namespace weft::sriov
