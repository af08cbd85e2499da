#include "sriov/service_table.h"

#include <algorithm>
#include <span>

namespace weft::sriov {
namespace {

template <class Table>
[[nodiscard]] Result<void> add(Table& table, const typename Table::key_type& key,
                               FunctionId function, std::size_t limit) {
  const auto found = table.find(key);
  if (found != table.end()) {
    return found->second == function
               ? Result<void>{}
               : fail(ErrorCode::AddressInUse, "function {} has it", found->second.value());
  }
  const auto own =
      std::ranges::count_if(table, [&](const auto& entry) { return entry.second == function; });
  if (static_cast<std::size_t>(own) >= limit) {
    return fail(ErrorCode::OutOfMemory, "the function has {} already", limit);
  }
  table.emplace(key, function);
  return {};
}

template <class Table>
[[nodiscard]] std::optional<FunctionId> find_in(const Table& table,
                                                const typename Table::key_type& key) {
  const auto found = table.find(key);
  return found == table.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace

Result<void> ServiceTable::add_address(FunctionId function, const wire::RdmaCmAddress& address) {
  return add(addresses_, address, function, limit_);
}

Result<void> ServiceTable::add_listener(FunctionId function, std::uint64_t service_id, PKey pkey) {
  return add(listeners_, {service_id, pkey.base()}, function, limit_);
}

void ServiceTable::remove_listener(FunctionId function, std::uint64_t service_id, PKey pkey) {
  const auto found = listeners_.find({service_id, pkey.base()});
  if (found != listeners_.end() && found->second == function) {
    listeners_.erase(found);
  }
}

void ServiceTable::remove(FunctionId function) {
  const auto is_own = [&](const auto& entry) { return entry.second == function; };
  std::erase_if(addresses_, is_own);
  std::erase_if(listeners_, is_own);
}

std::optional<FunctionId> ServiceTable::find_address(const wire::SidrReq& request) const {
  if (!is_rdma_cm_service(request.service_id)) {
    return std::nullopt;
  }
  const auto header = wire::unpack<wire::RdmaCmHeader>(
      std::span{request.private_data}.first<wire::kSizeOf<wire::RdmaCmHeader>>());
  return find_in(addresses_, header.destination_address);
}

std::optional<FunctionId> ServiceTable::find_listener(const wire::SidrReq& request) const {
  return find_in(listeners_, {request.service_id, request.pkey.base()});
}

}  // namespace weft::sriov
