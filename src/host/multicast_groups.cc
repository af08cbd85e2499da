#include "host/multicast_groups.h"

#include <algorithm>
#include <utility>

namespace weft::host {

/// Returns the number of this join; the daemon answers joins of a process in order. Caller must
/// hold the lock.
std::uint64_t MulticastGroups::request_join(const Membership& membership) {
  daemon_.post(uabi::JoinGroup{
      .port = membership.port.value(), .mlid = membership.mlid, .mgid = membership.mgid});
  return ++joins_asked_;
}

std::optional<std::uint64_t> MulticastGroups::join(std::vector<Membership>& of_qp, const Gid& mgid,
                                                   Lid mlid, const PortOfQp& port) {
  const std::lock_guard guard{lock_};
  const bool is_member = std::ranges::any_of(
      of_qp, [&](const Membership& known) { return known.mgid == mgid && known.mlid == mlid; });
  const auto by = port();
  if (!by || is_member) {
    return std::nullopt;
  }
  of_qp.push_back({.mgid = mgid, .mlid = mlid, .port = *by});
  return request_join(of_qp.back());
}

void MulticastGroups::leave(std::vector<Membership>& of_qp, const Gid& mgid, Lid mlid) {
  const std::lock_guard guard{lock_};
  std::erase_if(of_qp, [&](const Membership& known) {
    const bool ends = known.mgid == mgid && known.mlid == mlid;
    if (ends) {
      daemon_.post(uabi::LeaveGroup{.port = known.port.value(), .mlid = mlid, .mgid = mgid});
    }
    return ends;
  });
}

void MulticastGroups::move(std::vector<Membership>& of_qp, const PortOfQp& port) {
  const std::lock_guard guard{lock_};
  const auto by = port();
  for (Membership& membership : of_qp) {
    if (by && *by != membership.port) {
      const fabric::PortIndex before = std::exchange(membership.port, *by);
      static_cast<void>(request_join(membership));
      daemon_.post(uabi::LeaveGroup{
          .port = before.value(), .mlid = membership.mlid, .mgid = membership.mgid});
    }
  }
}

void MulticastGroups::wait_until_joined(std::uint64_t join) {
  std::unique_lock guard{lock_};
  joined_.wait_for(guard, patience_, [&] { return joins_answered_ >= join || daemon_.is_gone(); });
}

std::vector<uabi::ProcessAddress> MulticastGroups::members(Lid mlid) const {
  const std::lock_guard guard{lock_};
  const auto group = groups_.find(mlid);
  return group != groups_.end() ? group->second : std::vector<uabi::ProcessAddress>{};
}

void MulticastGroups::handle(const uabi::GroupMembers& group) {
  const std::lock_guard guard{lock_};
  groups_[group.mlid] = group.members;
  generation_.fetch_add(1, std::memory_order_release);
}

void MulticastGroups::handle_joined() {
  const std::lock_guard guard{lock_};
  ++joins_answered_;
  joined_.notify_all();
}

void MulticastGroups::handle_daemon_gone() {
  const std::lock_guard guard{lock_};
  joined_.notify_all();
}

}  // namespace weft::host
