// Multicast: which QPs are in which group by which port, and copies in.

#include <algorithm>

#include "host/process_impl.h"

namespace weft::host {

/// The port through which a QP takes part; before INIT it has none, and its HCA's first stands in.
std::optional<fabric::PortIndex> Process::Impl::port_index_of(const QpDriverState& qp_state) const {
  const PortNumber port = std::max(qp_state.qp->port(), PortNumber{1});
  return map.ask([&](const fabric::TablesView& view) {
    return view.find_port(fabric::NodeIndex{self.node}, port, qp_state.hca);
  });
}

Result<void> Process::attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  if (auto attached = impl_->slots.at(hca)->engine->attach_multicast(qp, mgid, mlid); !attached) {
    return attached;
  }
  auto& qp_state = *static_cast<QpDriverState*>(qp.driver_data);
  const auto join = impl_->groups.join(qp_state.memberships, mgid, mlid,
                                       [&] { return impl_->port_index_of(qp_state); });
  if (join) {
    impl_->connection.start_daemon_events();
    impl_->groups.wait_until_joined(*join);
  }
  return {};
}

Result<void> Process::detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  if (auto detached = impl_->slots.at(hca)->engine->detach_multicast(qp, mgid, mlid); !detached) {
    return detached;
  }
  impl_->groups.leave(static_cast<QpDriverState*>(qp.driver_data)->memberships, mgid, mlid);
  return {};
}

/// A QP that was attached before it had its port, or got another one, takes part there from now on.
void Process::Impl::move_memberships(QpDriverState& qp_state) {
  groups.move(qp_state.memberships, [&] { return port_index_of(qp_state); });
}

/// To the members on each port that the sender's tree reaches, whatever their HCA: the tables say
/// which, not the sender.
void Process::Impl::deliver_multicast(Lane& lane, hca::Packet& packet, Instant at) {
  const auto* const arrivals = lane.multicast_arrivals(packet.header);
  if (arrivals == nullptr) {
    refuse(lane, lane.multicast_fault());
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
