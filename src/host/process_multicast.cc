// Multicast: which QPs are in which group by which port, copies out, copies in.

#include <algorithm>
#include <mutex>

#include "hca/packet_record.h"
#include "hca/wire_length.h"
#include "host/clock.h"
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
  const std::lock_guard guard{impl_->qps_lock};
  const bool is_member = std::ranges::any_of(carrier.memberships, [&](const Membership& known) {
    return known.mgid == mgid && known.mlid == mlid;
  });
  const auto port = impl_->port_index_of(carrier);
  if (port && !is_member) {  // attaching twice changes nothing (R-RVT-21)
    carrier.memberships.push_back({.mgid = mgid, .mlid = mlid, .port = *port});
    impl_->post(uabi::JoinGroup{.port = port->value(), .mlid = mlid});
  }
  return {};
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
      impl_->post(uabi::LeaveGroup{.port = known.port.value(), .mlid = mlid});
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
      post(uabi::JoinGroup{.port = port->value(), .mlid = membership.mlid});
      post(uabi::LeaveGroup{.port = membership.port.value(), .mlid = membership.mlid});
      membership.port = *port;
    }
  }
}

/// One copy for each process with members on a host that the tree reaches, or on our own; it finds
/// out at which of its ports it arrives. Unreliable: a process whose ring is full misses it. False:
/// the links are busy.
bool Process::Impl::send_multicast(const hca::PacketHeader& header,
                                   std::span<const ByteSpan> gather) {
  const fabric::MulticastTree tree = map.resolve_multicast(self.node, header.slid, header.dlid);
  const std::size_t payload_bytes = total_bytes(gather);
  {
    const std::lock_guard guard{multicast_lock};
    if (!tree.timed.empty() && multicast_departs > now() + kAheadOfLink) {
      return false;
    }
    auto& [generation, entry] = multicast_counters[{header.slid, header.dlid}];
    if (entry == nullptr || generation != tree.generation) {
      const std::lock_guard page_guard{counters_lock};
      entry = &counters->open(tree);
      generation = tree.generation;
    }
    entry->count(1, hca::packet_length_words(header, payload_bytes));
    if (tree.is_tapped) {
      std::array<std::byte, hca::kMaxRecordHeaderBytes> encoded;
      const std::size_t bytes = hca::encode_record_header(header, encoded);
      if (!taps.show(tree.edges, ByteSpan{encoded}.first(bytes), gather)) {
        return true;  // the packet is lost rather than unseen
      }
    }
  }
  send_multicast_copies(header, gather, tree);
  return true;
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
