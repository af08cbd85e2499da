// Multicast: which QPs are in which group by which port, and copies in.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "host/process_impl.h"

namespace weft::host {
namespace {

constexpr std::chrono::milliseconds kPatienceWithGroups{500};  // policy

}  // namespace

/// The port through which a QP takes part; before INIT it has none, and its HCA's first stands in.
std::optional<fabric::PortIndex> Process::Impl::port_index_of(const QpCarrier& carrier) const {
  const PortNumber port = std::max(carrier.qp->port(), PortNumber{1});
  return map.ask([&](const fabric::TablesView& view) {
    return view.find_port(fabric::NodeIndex{self.node}, port, carrier.hca);
  });
}

Result<void> Process::attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  if (auto attached = impl_->slots.at(hca)->engine->attach_multicast(qp, mgid, mlid); !attached) {
    return attached;
  }
  auto& carrier = *static_cast<QpCarrier*>(qp.carrier);
  std::uint64_t join = 0;
  {
    const std::lock_guard guard{impl_->qps_lock};
    const bool is_member = std::ranges::any_of(carrier.memberships, [&](const Membership& known) {
      return known.mgid == mgid && known.mlid == mlid;
    });
    const auto port = impl_->port_index_of(carrier);
    if (!port || is_member) {  // attaching twice changes nothing (R-RVT-21)
      return {};
    }
    carrier.memberships.push_back({.mgid = mgid, .mlid = mlid, .port = *port});
    join = impl_->ask_to_join(carrier.memberships.back());
  }
  impl_->wait_until_joined(join);
  return {};
}

/// The count of this join among all of this process, which are answered in order. Under qps_lock.
std::uint64_t Process::Impl::ask_to_join(const Membership& membership) {
  post(uabi::JoinGroup{
      .port = membership.port.value(), .mlid = membership.mlid, .mgid = membership.mgid});
  return ++joins_asked;
}

/// By then the daemon has told those who send, and they look for its news before they send: whoever
/// hears of us by other ways reaches us.
void Process::Impl::wait_until_joined(std::uint64_t join) {
  start_hearing();
  std::unique_lock guard{lanes_lock};
  group_joined.wait_for(guard, kPatienceWithGroups,
                        [&] { return joins_answered >= join || daemon_is_gone.load(); });
}

Result<void> Process::detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  if (auto detached = impl_->slots.at(hca)->engine->detach_multicast(qp, mgid, mlid); !detached) {
    return detached;
  }
  auto& carrier = *static_cast<QpCarrier*>(qp.carrier);
  const std::lock_guard guard{impl_->qps_lock};
  std::erase_if(carrier.memberships, [&](const Membership& known) {
    const bool ends = known.mgid == mgid && known.mlid == mlid;
    if (ends) {
      impl_->post(uabi::LeaveGroup{.port = known.port.value(), .mlid = mlid, .mgid = mgid});
    }
    return ends;
  });
  return {};
}

/// A QP that was attached before it had its port, or got another one, takes part there from now on.
void Process::Impl::move_memberships(QpCarrier& carrier) {
  const std::lock_guard guard{qps_lock};
  for (Membership& membership : carrier.memberships) {
    if (const auto port = port_index_of(carrier); port && *port != membership.port) {
      const fabric::PortIndex before = std::exchange(membership.port, *port);
      static_cast<void>(ask_to_join(membership));
      post(uabi::LeaveGroup{
          .port = before.value(), .mlid = membership.mlid, .mgid = membership.mgid});
    }
  }
}

/// False: it is of no group. On the control thread.
bool Process::Impl::handle_group(const uabi::Message& message) {
  const std::lock_guard guard{lanes_lock};
  if (const auto* group = std::get_if<uabi::GroupMembers>(&message)) {
    groups[group->mlid] = group->members;
    groups_generation.fetch_add(1, std::memory_order_release);
    return true;
  }
  if (std::holds_alternative<uabi::GroupJoined>(message)) {
    ++joins_answered;
    group_joined.notify_all();
    return true;
  }
  return false;
}

/// To the members on each port that the sender's tree reaches, whatever their HCA: the tables say
/// which, not the sender.
void Process::Impl::deliver_multicast(Lane& lane, hca::Packet& packet, Instant at) {
  const auto* const arrivals = lane.multicast_arrivals(packet.header);
  if (arrivals == nullptr) {
    refuse(lane, lane.lie_of_multicast());
    return;
  }
  for (const FabricMap::MulticastArrival& arrival : *arrivals) {
    if (arrival.at.hca < slots.size()) {
      packet.is_loopback = arrival.is_sender;
      static_cast<void>(slots[arrival.at.hca]->engine->handle_packet(arrival.at.port, packet, at));
    }
  }
}

}  // namespace weft::host
