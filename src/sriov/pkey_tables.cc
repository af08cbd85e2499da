#include "sriov/pkey_tables.h"

#include <cstddef>

namespace weft::sriov {

Result<void> PKeyTables::assign(FunctionId function, std::vector<std::uint16_t> physical) {
  for (const std::uint16_t index : physical) {
    if (index >= physical_.size()) {
      return fail(ErrorCode::InvalidArgument, "the port's P_Key table has {} entries, not index {}",
                  physical_.size(), index);
    }
  }
  tables_[function] = std::move(physical);
  return {};
}

std::vector<PKey> PKeyTables::table_of(FunctionId function) const {
  if (function == kPhysicalFunction) {
    return physical_;
  }
  std::vector<PKey> table;
  if (const auto found = tables_.find(function); found != tables_.end()) {
    for (const std::uint16_t index : found->second) {
      table.push_back(index < physical_.size() ? physical_[index] : PKey{});
    }
  }
  return table;
}

std::optional<std::uint16_t> PKeyTables::to_physical(FunctionId function,
                                                     std::uint16_t index) const {
  const std::vector<PKey> table = table_of(function);
  if (index >= table.size() || !table[index].is_valid()) {
    return std::nullopt;
  }
  return function == kPhysicalFunction ? index : tables_.at(function)[index];
}

std::optional<std::uint16_t> PKeyTables::to_virtual(FunctionId function, PKey packet) const {
  const std::vector<PKey> table = table_of(function);
  std::optional<std::uint16_t> limited;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!table[i].matches(packet)) {
      continue;
    }
    if (table[i].is_full_member()) {
      return static_cast<std::uint16_t>(i);
    }
    limited = limited.value_or(static_cast<std::uint16_t>(i));
  }
  return limited;
}

bool PKeyTables::has_partition(FunctionId function, PKey pkey) const {
  for (const PKey own : table_of(function)) {
    if (own.is_valid() && own.base() == pkey.base()) {
      return true;
    }
  }
  return false;
}

}  // namespace weft::sriov
