#include "host/verbs_objects.h"

#include <algorithm>
#include <mutex>

#include "fabric/tables.h"
#include "host/quiesce_guard.h"
#include "sriov/data_qp_rules.h"

namespace weft::host {
namespace {

[[nodiscard]] QpDriverState& state_of(const hca::Qp& qp) {
  return *static_cast<QpDriverState*>(qp.driver_data);
}

/// A connection may migrate between HCAs of one node only: its lane, which stays, leads to that
/// node (docs/ARCHITECTURE.md, decision 3).
[[nodiscard]] Result<void> check_alternate_path(const FabricMap& map, const hca::QpAttributes& now,
                                                const hca::QpAttributes& asked,
                                                hca::QpAttributeMask mask) {
  if (!mask.has(hca::QpAttribute::AlternatePath)) {
    return {};
  }
  const Lid primary = (mask.has(hca::QpAttribute::AddressVector) ? asked : now).address.dlid;
  const Lid alternate = asked.alternate_address.dlid;
  const Qpn peer = (mask.has(hca::QpAttribute::DestQpn) ? asked : now).dest_qpn;
  const auto primary_node = map.node_of(primary, peer);
  const auto alternate_node = map.node_of(alternate, peer);
  return !primary_node || !alternate_node || primary_node == alternate_node
             ? Result<void>{}
             : fail(ErrorCode::InvalidArgument,
                    "LID {} of the alternate path is another node's than LID {} of the primary one",
                    alternate.value(), primary.value());
}

/// Refuses what QPs of a virtual function may not have. That this process runs on one its slot
/// says: only such a host borrows slots, whatever state its port is in.
[[nodiscard]] Result<void> check_qkey(const FabricMap& map, const uabi::ProcessAddress& self,
                                      QKey qkey) {
  constexpr sriov::FunctionId kSomeFunction{1};  // the rules are the same for each virtual one
  return map.ask([&](const fabric::TablesView& view) {
    const fabric::PortIndex port = view.node(fabric::NodeIndex{self.node}).first_port;
    const bool is_virtual =
        std::ranges::find(view.slot_loans(), port, &fabric::SlotLoanRecord::borrower) !=
        view.slot_loans().end();
    return sriov::check_data_qkey(is_virtual ? kSomeFunction : sriov::kPhysicalFunction,
                                  view.port(port).is_trusted(), qkey);
  });
}

}  // namespace

Result<hca::CompletionQueue*> VerbsObjects::create_cq(std::uint32_t hca, std::uint32_t capacity,
                                                      const hca::CompletionQueueOptions& options) {
  auto cq = engine(hca).create_cq(capacity, options);
  if (cq) {
    parts_.qps.add_cq(**cq);
  }
  return cq;
}

Result<void> VerbsObjects::retire_cq(hca::CompletionQueue& cq) {
  const std::lock_guard owner{parts_.progress.maintenance_owner};
  if (auto unused = hca::Hca::check_unused(cq); !unused) {
    return unused;
  }
  parts_.held_events.remove(*static_cast<CqDriverState*>(cq.driver_data));
  return {};
}

Result<void> VerbsObjects::destroy_cq(std::uint32_t hca, hca::CompletionQueue& cq) {
  // Or the thread could be delivering its held event.
  const std::lock_guard owner{parts_.progress.maintenance_owner};
  auto& cq_state = *static_cast<CqDriverState*>(cq.driver_data);
  if (auto destroyed = engine(hca).destroy_cq(cq); !destroyed) {
    return destroyed;
  }
  parts_.held_events.remove(cq_state);
  parts_.qps.remove_cq(cq);
  return {};
}

Result<hca::SharedReceiveQueue*> VerbsObjects::create_xrc_srq(
    std::uint32_t hca, hca::ProtectionDomain& pd, hca::XrcDomain& domain, hca::CompletionQueue& cq,
    std::uint32_t depth, std::uint32_t max_sge) {
  auto srq = engine(hca).create_xrc_srq(pd, domain, cq, depth, max_sge);
  if (srq) {
    parts_.qps.add_xrc_srq(**srq, cq);
  }
  return srq;
}

Result<void> VerbsObjects::destroy_xrc_srq(std::uint32_t hca, hca::SharedReceiveQueue& srq) {
  const QuiesceGuard quiesced{parts_.lanes, parts_.progress};  // or fail_all() could be flushing it
  if (auto destroyed = engine(hca).destroy_srq(srq); !destroyed) {
    return destroyed;
  }
  parts_.qps.remove_xrc_srq(srq);
  return {};
}

Result<hca::Qp*> VerbsObjects::create_qp(std::uint32_t hca, const hca::QpInit& init) {
  if (parts_.daemon.is_gone()) {
    return std::unexpected(parts_.daemon.gone());
  }
  start_serving();
  auto qp = engine(hca).create_qp(init);
  if (!qp) {
    return qp;
  }
  parts_.qps.add(**qp, hca, init);
  parts_.shared_targets.note(hca, **qp);
  return qp;
}

/// Before a QP that ends gives up its requests, and those of its peer: what was answered has
/// completed, and what was asked is answered.
void VerbsObjects::take_arrived(const QpDriverState& qp_state) {
  const Lane* const lane = qp_state.lane.load();
  if (lane != nullptr && lane->state() == LaneState::Open) {
    parts_.receiver.take_arrived(*lane);
  }
}

Result<void> VerbsObjects::destroy_qp(std::uint32_t hca, hca::Qp& qp) {
  QpDriverState& qp_state = state_of(qp);
  take_arrived(qp_state);
  parts_.sender.flush_posted(qp_state);
  // From here on nobody is delivering to it, sending for it or handling its timer.
  const QuiesceGuard quiesced{parts_.lanes, parts_.progress};
  parts_.sender.send_pending_responses(qp_state);
  if (auto destroyed = engine(hca).destroy_qp(qp); !destroyed) {
    return destroyed;
  }
  station::WaitQueue::leave(qp_state);
  parts_.timers.remove(qp_state);
  parts_.qps.remove(qp);
  return {};
}

Result<void> VerbsObjects::modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                     hca::QpAttributeMask mask) {
  if (auto checked = check_alternate_path(parts_.map, qp.query(), attributes, mask); !checked) {
    return checked;
  }
  if (mask.has(hca::QpAttribute::QKey)) {
    if (auto allowed = check_qkey(parts_.map, parts_.daemon.self(), attributes.qkey); !allowed) {
      return allowed;
    }
  }
  QpDriverState& qp_state = state_of(qp);
  if (mask.has(hca::QpAttribute::State) &&
      (attributes.state == hca::QpState::Err || attributes.state == hca::QpState::Reset)) {
    take_arrived(qp_state);
  }
  if (auto modified = qp.modify(attributes, mask); !modified) {
    return modified;
  }
  if (mask.has(hca::QpAttribute::DestQpn) || mask.has(hca::QpAttribute::AddressVector)) {
    parts_.binder.bind(qp_state);
  }
  if (mask.has(hca::QpAttribute::Port)) {
    // A QP that was attached to groups before it had this port takes part by it from now on.
    parts_.groups.move(qp_state.memberships, [&] { return port_index_of(qp_state); });
  }
  parts_.sender.settle(qp_state);
  if (parts_.daemon.is_gone()) {
    hca::QpAttributes error;
    error.state = hca::QpState::Err;
    const bool was_usable = qp.query().state != hca::QpState::Err &&
                            qp.modify(error, hca::QpAttribute::State).has_value();
    if (was_usable) {
      return std::unexpected(parts_.daemon.gone());
    }
  }
  return {};
}

/// The port by which a QP takes part in groups. Before INIT it has none, and the first of its HCA
/// stands in.
std::optional<fabric::PortIndex> VerbsObjects::port_index_of(const QpDriverState& qp_state) const {
  const PortNumber port = std::max(qp_state.qp->port(), PortNumber{1});
  return parts_.map.ask([&](const fabric::TablesView& view) {
    return view.find_port(fabric::NodeIndex{parts_.daemon.self().node}, port, qp_state.hca);
  });
}

Result<void> VerbsObjects::attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                            Lid mlid) {
  if (auto attached = engine(hca).attach_multicast(qp, mgid, mlid); !attached) {
    return attached;
  }
  QpDriverState& qp_state = state_of(qp);
  const auto join =
      parts_.groups.join(qp_state.memberships, mgid, mlid, [&] { return port_index_of(qp_state); });
  if (join) {
    parts_.daemon.start_daemon_events();
    parts_.groups.wait_until_joined(*join);
  }
  return {};
}

Result<void> VerbsObjects::detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid,
                                            Lid mlid) {
  if (auto detached = engine(hca).detach_multicast(qp, mgid, mlid); !detached) {
    return detached;
  }
  parts_.groups.leave(state_of(qp).memberships, mgid, mlid);
  return {};
}

void VerbsObjects::start_serving() {
  parts_.daemon.start_daemon_events();
  parts_.thread.start();
}

void VerbsObjects::carry_for_proxy(std::uint32_t hca, hca::Qp& qp) {
  hca::QpInit init;
  init.type = hca::QpType::XrcTarget;
  parts_.binder.bind(parts_.qps.add(qp, hca, init));
}

void VerbsObjects::for_each_qp_of(std::uint32_t domain,
                                  const std::function<bool(hca::Qp&)>& visit) {
  const QuiesceGuard quiesced{parts_.lanes, parts_.progress};
  parts_.qps.for_each([&](hca::Qp& qp, QpDriverState& qp_state) {
    const hca::XrcDomain* const its = qp.xrc_domain();
    if (its != nullptr && its->name == domain && visit(qp)) {
      parts_.sender.settle(qp_state);
    }
  });
}

/// Under a QuiesceGuard, so that no QP is destroyed meanwhile.
void VerbsObjects::rebind_all() {
  const QuiesceGuard quiesced{parts_.lanes, parts_.progress};
  parts_.qps.for_each([this](hca::Qp& qp, QpDriverState& qp_state) {
    const hca::QpState state = qp.query().state;
    const bool is_connected = state != hca::QpState::Reset && state != hca::QpState::Init;
    if (is_connected && parts_.binder.bind(qp_state)) {
      parts_.sender.settle(qp_state);
    }
  });
}

void VerbsObjects::fail_all() {
  const QuiesceGuard quiesced{parts_.lanes, parts_.progress};
  parts_.qps.fail_all();
}

}  // namespace weft::host
