// Multicast: which QPs are in which group by which port, and copies in.

#include <algorithm>

#include "host/process_impl.h"

namespace weft::host {

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
  const auto join = impl_->groups.join(carrier.memberships, mgid, mlid,
                                       [&] { return impl_->port_index_of(carrier); });
  if (join) {
    impl_->connection.start_hearing();
    impl_->groups.wait_until_joined(*join);
  }
  return {};
}

Result<void> Process::detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  if (auto detached = impl_->slots.at(hca)->engine->detach_multicast(qp, mgid, mlid); !detached) {
    return detached;
  }
  impl_->groups.leave(static_cast<QpCarrier*>(qp.carrier)->memberships, mgid, mlid);
  return {};
}

/// A QP that was attached before it had its port, or got another one, takes part there from now on.
void Process::Impl::move_memberships(QpCarrier& carrier) {
  groups.move(carrier.memberships, [&] { return port_index_of(carrier); });
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
