// Multicast memberships of ids.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

/// Removes the membership that matches from its id; null if there is none.
template <class Matches>
[[nodiscard]] std::unique_ptr<Membership> take(Id& id, Matches matches) {
  const std::lock_guard guard{id.memberships_lock};
  const auto found = std::ranges::find_if(id.memberships, matches);
  if (found == id.memberships.end()) {
    return nullptr;
  }
  auto taken = std::move(*found);
  id.memberships.erase(found);
  return taken;
}

[[nodiscard]] int join(Id& id, const sockaddr* address, bool is_send_only, void* context) {
  const auto group = to_daemon(address);
  if (!group || group->family == uabi::RdmaCmFamily::None) {
    return refuse(EINVAL, "a group's address is one of AF_INET, AF_INET6 or AF_IB");
  }
  auto added = std::make_unique<Membership>();
  Membership& membership = *added;
  membership.id = &id;
  membership.uid = name(membership);
  membership.context = context;
  membership.is_send_only = is_send_only;
  std::memcpy(&membership.address, address, length_of(address));
  {
    // Before the daemon knows it, since its event may arrive before the response.
    const std::lock_guard guard{id.memberships_lock};
    id.memberships.push_back(std::move(added));
  }
  const auto number = request(
      id,
      uabi::JoinRdmaCmGroup{
          .id = id.number, .uid = membership.uid, .is_send_only = is_send_only, .address = *group});
  if (!number) {
    remove_name(membership.uid);
    static_cast<void>(take(id, [&](const auto& each) { return each.get() == &membership; }));
    return -1;
  }
  membership.number = *number;
  return complete(id);
}

}  // namespace
}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_join_multicast(rdma_cm_id* cm, sockaddr* address, void* context) {
  return join(id_of(cm), address, false, context);
}

WEFT_EXPORT int rdma_join_multicast_ex(rdma_cm_id* cm, rdma_cm_join_mc_attr_ex* attributes,
                                       void* context) {
  if (attributes->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) {
    return refuse(EOPNOTSUPP, "a group is joined by address and join flags alone");
  }
  constexpr std::uint32_t kNeeded = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if ((attributes->comp_mask & kNeeded) != kNeeded ||
      attributes->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
    return refuse(EINVAL, "a group is joined with its address, as full or send-only full member");
  }
  const bool is_send_only = attributes->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  return join(id_of(cm), attributes->addr, is_send_only, context);
}

WEFT_EXPORT int rdma_leave_multicast(rdma_cm_id* cm, sockaddr* address) {
  Id& id = id_of(cm);
  const std::size_t bytes = length_of(address);
  if (bytes == 0) {
    return refuse(EINVAL, "a group's address is one of AF_INET, AF_INET6 or AF_IB");
  }
  const auto membership =
      take(id, [&](const auto& each) { return std::memcmp(&each->address, address, bytes) == 0; });
  if (membership == nullptr) {
    return refuse(EADDRNOTAVAIL, "the id is no member of that group");
  }
  if (membership->is_attached && cm->qp != nullptr) {
    ibv_detach_mcast(cm->qp, &membership->mgid, membership->mlid);
  }
  const auto told = request(id, uabi::LeaveRdmaCmGroup{.membership = membership->number});
  remove_name(membership->uid);
  if (!told) {
    return -1;
  }
  membership->acknowledged.wait_for(*told);
  return 0;
}

}  // extern "C"
