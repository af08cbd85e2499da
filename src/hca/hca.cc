#include "hca/hca.h"

#include <mutex>

#include "base/assert.h"
#include "hca/hca_state.h"

namespace weft::hca {
namespace {

/// Encoding of 1,200 Gb/s (ibv_rate; IBTA vol 1 §15.2.5.16, PathRecord Rate).
constexpr std::uint8_t kLastStaticRate = 24;

}  // namespace

Hca::Hca(const HcaConfiguration& configuration, HcaEvents& events)
    : state_(std::make_unique<State>(configuration, events)) {
  WEFT_ASSERT(configuration.port_count >= 1 && configuration.port_count <= 2,
              "an HCA has one port or two");
}

Hca::~Hca() {
  for (auto& slot : state_->qps) {
    delete slot.load(std::memory_order_relaxed);
  }
}

const HcaConfiguration& Hca::configuration() const { return state_->configuration; }

void Hca::set_port(PortNumber port, const PortAttributes& attributes) {
  WEFT_DEBUG_ASSERT(port.value() >= 1 && port.value() <= state_->configuration.port_count,
                    "the port is one of this HCA's");
  const std::lock_guard guard{state_->objects};  // keeps QPs from being created or destroyed
  {
    const std::lock_guard ports_guard{state_->ports_lock};
    PortAttributes& known = state_->ports[port.value()];
    if (known == attributes) {
      return;
    }
    known = attributes;
  }
  state_->each_qp([&](Qp& qp) { qp.take_port(port, attributes); });
  // A peer that has not heard of the new LID or P_Keys must find that its packets are dropped.
  state_->events.withdraw_placement();
}

PortAttributes Hca::port(PortNumber port) const {
  const std::lock_guard guard{state_->ports_lock};
  return port.value() < state_->ports.size() ? state_->ports[port.value()] : PortAttributes{};
}

Result<PKey> Hca::pkey_at(PortNumber port, std::uint16_t index) const {
  const PortAttributes attributes = this->port(port);
  if (!attributes.pkey(index).is_valid()) {
    return fail(ErrorCode::InvalidArgument,
                "P_Key index {} of port {} is empty (the table holds {})", index, port.value(),
                attributes.pkeys.size());
  }
  return attributes.pkey(index);
}

Result<PacketRoute> Hca::make_route(const AddressVector& attributes) const {
  if (attributes.port.value() == 0 || attributes.port.value() > state_->configuration.port_count) {
    return fail(ErrorCode::InvalidArgument, "port {} is not in 1..{}", attributes.port.value(),
                state_->configuration.port_count);
  }
  const PortAttributes port_attributes = port(attributes.port);
  if (attributes.sl.value() > 15) {
    return fail(ErrorCode::InvalidArgument, "service level {} is not in 0..15",
                attributes.sl.value());
  }
  if (attributes.static_rate == 1 || attributes.static_rate > kLastStaticRate) {
    return fail(ErrorCode::InvalidArgument, "static rate {} is not a rate: 0 (none) or 2..{}",
                attributes.static_rate, kLastStaticRate);  // R-RVT-4
  }
  // True with a GRH as well: within a subnet a packet is forwarded by its LRH.
  if (attributes.dlid == Lid{}) {
    return fail(ErrorCode::InvalidArgument,
                "DLID 0 is reserved, and no port has it (IBTA vol 1 §4.1.3): an address{} names "
                "the LID of the destination, or of the router to it",
                attributes.is_global ? " with a GRH, too," : "");
  }
  PacketRoute route;
  route.sl = attributes.sl;
  route.source_port = attributes.port;
  route.source_path_bits = attributes.source_path_bits;
  route.slid = port_attributes.source_lid(attributes.source_path_bits);
  route.dlid = attributes.dlid;
  if (attributes.is_global) {
    const GlobalRoute& global = attributes.grh;
    if (global.sgid_index >= port_attributes.gids.size()) {
      return fail(ErrorCode::InvalidArgument, "GID index {} is outside port {}'s table of {}",
                  global.sgid_index, attributes.port.value(), port_attributes.gids.size());
    }
    route.has_grh = true;
    route.grh.traffic_class = global.traffic_class;
    route.grh.flow_label = global.flow_label & 0xF'FFFF;
    route.grh.hop_limit = global.hop_limit;
    route.grh.sgid = port_attributes.gids[global.sgid_index];
    route.grh.dgid = global.dgid;
  }
  return route;
}

void Hca::report_bad_key(const BadKey& bad) {
  auto& count = bad.kind == BadKey::Kind::PKey ? state_->pkey_violations : state_->qkey_violations;
  count.fetch_add(1, std::memory_order_relaxed);
  state_->events.bad_key(bad);
}

Hca::Counters Hca::counters() const {
  return {.no_qp = state_->no_qp.load(std::memory_order_relaxed),
          .pkey_violations = state_->pkey_violations.load(std::memory_order_relaxed),
          .qkey_violations = state_->qkey_violations.load(std::memory_order_relaxed),
          .malformed = state_->malformed.load(std::memory_order_relaxed)};
}

Qp* Hca::handle_packet(PortNumber port, const Packet& packet, Instant now) {
  if (packet.header.dest_qp == kMulticastQpn) {
    deliver_multicast(port, packet, now);
    return nullptr;
  }
  const std::uint32_t index =
      packet.header.dest_qp.value() - state_->configuration.first_qpn.value();
  Qp* qp = index < state_->qps.size() ? state_->qps[index].load(std::memory_order_acquire)
                                      : state_->find_external(packet.header.dest_qp);
  if (qp == nullptr) {
    state_->no_qp.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  qp->handle_packet(packet, now);
  return qp;
}

/// R-RVT-21: delivers one copy to each QP that is attached on that port. The sending QP gets no
/// copy of its own packet, but a QP with the same number on another HCA does.
void Hca::deliver_multicast(PortNumber port, const Packet& packet, Instant now) {
  if (!packet.header.has_grh) {
    state_->malformed.fetch_add(1,
                                std::memory_order_relaxed);  // a multicast packet must have a GRH
    return;
  }
  const std::lock_guard guard{state_->objects};
  for (const State::Group& group : state_->groups) {
    if (group.mgid == packet.header.grh.dgid && group.mlid == packet.header.dlid) {
      for (Qp* qp : group.members) {
        const bool is_sender =
            packet.is_loopback && qp->external_number() == packet.header.extension.deth.src_qp;
        if (qp->port() == port && !is_sender) {
          qp->handle_packet(packet, now);
        }
      }
    }
  }
}

void Hca::visit_qps(void (*visit)(void*, Qp&), void* context) {
  const std::lock_guard guard{
      state_->objects};  // keeps QPs from being created or destroyed (R-RVT-19)
  state_->each_qp([&](Qp& qp) { visit(context, qp); });
}

}  // namespace weft::hca
