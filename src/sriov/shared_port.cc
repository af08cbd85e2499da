#include "sriov/shared_port.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>

#include "wire/mad/mad.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::sriov {
namespace {

using mad::InterfaceKind;

[[nodiscard]] SpecialQp qp_of(InterfaceKind kind) {
  return kind == InterfaceKind::Smi ? SpecialQp::Smi : SpecialQp::Gsi;
}

/// The SMA's answer that says how the port is now; the multiplexer learns of it as of any SMP.
[[nodiscard]] MadBytes port_info_answer(const PhysicalPort& port, bool reregisters) {
  wire::Mad mad;
  mad.header = {.mgmt_class = wire::ManagementClass::SubnLidRouted,
                .method = wire::MadMethod::GetResp,
                .attribute_id = static_cast<std::uint16_t>(wire::SmpAttribute::PortInfo)};
  wire::PortInfo info;
  info.port_state = static_cast<wire::LinkState>(port.state);
  info.lid = port.lid;
  info.master_sm_lid = port.manager_lid;
  info.client_reregister = reregisters;
  MadBytes bytes = wire::pack(mad);
  std::ranges::copy(wire::pack(info), bytes.begin() + wire::kSmpDataAt);
  return bytes;
}

[[nodiscard]] wire::TunnelAddressVector address_of(PortNumber port, const mad::MadAddress& to) {
  wire::TunnelAddressVector address{
      .port = port, .source_path_bits = to.path_bits, .dlid = to.lid, .sl = to.sl};
  if (to.global) {
    address.is_global = true;
    address.gid_index = to.global->sgid_index;
    address.hop_limit = to.global->hop_limit;
    address.traffic_class = to.global->traffic_class;
    address.flow_label = to.global->flow_label;
    address.dgid = to.global->dgid;
  }
  return address;
}

/// How a function sees who sent what it receives, and reaches it.
[[nodiscard]] mad::MadAddress source_of(const wire::TunnelReceive& receive,
                                        std::span<const PKey> pkeys) {
  const wire::TunnelReceiveHeader& header = receive.header;
  mad::MadAddress source{
      .lid = header.slid, .sl = header.sl, .qp = header.source_qpn, .path_bits = header.path_bits};
  if (header.pkey_index < pkeys.size()) {
    source.pkey = pkeys[header.pkey_index];
  }
  if (header.is_global) {
    source.global = mad::GlobalRoute{.dgid = receive.grh.sgid,
                                     .flow_label = receive.grh.flow_label,
                                     .hop_limit = receive.grh.hop_limit,
                                     .traffic_class = receive.grh.traffic_class};
  }
  return source;
}

}  // namespace

void SharedPort::update(const PhysicalPort& port, Instant now) {
  if (port == port_) {
    return;
  }
  const bool reregisters = port.reregistrations != port_.reregistrations;
  const bool has_other_keys = port.pkeys != port_.pkeys;
  const bool has_other_prefix =
      !port.gids.empty() &&
      (port_.gids.empty() || port.gids.front().prefix() != port_.gids.front().prefix());
  const bool is_managed = port.state != port_.state || port.lid != port_.lid ||
                          port.manager_lid != port_.manager_lid || reregisters;
  port_ = port;
  if (has_other_keys) {
    mux_.set_pkey_table(port.pkeys);
  }
  if (has_other_prefix) {
    mux_.set_subnet_prefix(port.gids.front().prefix());
  }
  if (is_managed) {
    mux_.set_manager(port.manager_lid, port.lid);
    mux_.observe_smp(port_info_answer(port, reregisters), wire::MadMethod::Set, now);
  }
  collect();
}

Result<void> SharedPort::add(FunctionId function, const FunctionOptions& options, Instant now) {
  auto added = mux_.add_function(function, options, now);
  if (added) {
    functions_.push_back(function);
  }
  return added;
}

Result<void> SharedPort::remove(FunctionId function, Instant now) {
  auto removed = mux_.remove_function(function, now);
  if (removed) {
    forget(function);
  }
  collect();
  return removed;
}

void SharedPort::forget(FunctionId function) {
  std::erase(functions_, function);
  std::erase_if(received_, [&](const FunctionMad& mad) { return mad.function == function; });
}

Result<FunctionState> SharedPort::export_function(FunctionId function, Instant now) {
  auto state = mux_.export_function(function, now);
  if (state) {
    forget(function);
  }
  collect();
  return state;
}

Result<std::vector<std::uint32_t>> SharedPort::import_function(FunctionId function,
                                                               const FunctionOptions& options,
                                                               const FunctionState& state,
                                                               Instant now) {
  auto lost = mux_.import_function(function, options, state, now);
  if (lost) {
    functions_.push_back(function);
  }
  collect();
  return lost;
}

/// In the function's own table; the exact entry, for a full and a limited member differ.
std::optional<std::uint16_t> SharedPort::index_of(FunctionId function, PKey pkey) const {
  const std::vector<PKey> table = port_of(function).pkeys;
  const auto found = std::ranges::find(table, pkey);
  return found == table.end()
             ? std::nullopt
             : std::optional{static_cast<std::uint16_t>(std::distance(table.begin(), found))};
}

void SharedPort::send(FunctionId function, InterfaceKind kind, const mad::MadPacket& packet,
                      Instant now) {
  constexpr std::uint16_t kNoEntry = 0xFFFF;  // refused by the multiplexer, and counted there
  wire::TunnelSend send{.mad = packet.bytes};
  send.header.address = address_of(PortNumber{1}, packet.address);
  send.header.remote_qpn = packet.address.qp;
  send.header.qkey = packet.address.qkey;
  send.header.pkey_index = kind == InterfaceKind::Smi
                               ? std::uint16_t{0}
                               : index_of(function, packet.address.pkey).value_or(kNoEntry);
  const SpecialQp qp = qp_of(kind);
  // A tunnel that is full loses what does not fit, as a queue of QP1 does.
  if (mux_.post_send(function, qp, mux_.proxy_qpn(function, qp), send)) {
    while (mux_.serve_tunnel(now)) {
    }
  }
  collect();
}

void SharedPort::receive(const mad::MadAddress& source, const MadBytes& bytes, Instant now) {
  InboundMad inbound{.source_qpn = source.qp,
                     .slid = source.lid,
                     .sl = source.sl,
                     .path_bits = source.path_bits,
                     .pkey = source.pkey,
                     .bytes = bytes};
  if (source.global) {
    const std::size_t entry = source.global->sgid_index;
    inbound.grh = wire::Grh{.traffic_class = source.global->traffic_class,
                            .flow_label = source.global->flow_label,
                            .hop_limit = source.global->hop_limit,
                            .sgid = source.global->dgid,
                            .dgid = entry < port_.gids.size() ? port_.gids[entry] : Gid{}};
  }
  mux_.handle_wire(inbound, now);
  collect();
}

std::optional<mad::MadPacket> SharedPort::poll_transmit(Instant now) {
  for (;;) {
    while (mux_.serve_tunnel(now)) {  // what had to wait for the queue to the wire
    }
    const auto mad = mux_.poll_wire(now);
    collect();
    if (!mad) {
      return std::nullopt;
    }
    if (mad->pkey_index >= port_.pkeys.size()) {
      continue;  // the subnet manager has made the table shorter
    }
    mad::MadPacket packet{.address = mad->to, .bytes = mad->bytes};
    packet.address.pkey = port_.pkeys[mad->pkey_index];
    if (packet.address.global) {
      packet.address.global->sgid_index = static_cast<std::uint8_t>(mad->source_gid_index);
    }
    return packet;
  }
}

/// What the tunnels have for the functions.
void SharedPort::collect() {
  for (const FunctionId function : functions_) {
    const std::vector<PKey> pkeys = port_of(function).pkeys;
    while (const auto receive = mux_.poll_receive(function, SpecialQp::Gsi)) {
      received_.push_back({.function = function,
                           .kind = InterfaceKind::Gsi,
                           .source = source_of(*receive, pkeys),
                           .bytes = receive->mad});
    }
  }
}

std::optional<FunctionMad> SharedPort::poll_receive() {
  if (received_.empty()) {
    return std::nullopt;
  }
  const FunctionMad mad = received_.front();
  received_.pop_front();
  return mad;
}

void SharedPort::handle_timeout(Instant now) {
  mux_.handle_timeout(now);
  collect();
}

VirtualPort SharedPort::port_of(FunctionId function) const {
  using verbs::PortState;
  VirtualPort port{.lid = port_.lid, .pkeys = mux_.pkeys_of(function)};
  if (function == kPhysicalFunction) {
    port.state = port_.state;
  } else if (mux_.port_state(function) == FunctionPortState::Active) {
    port.state = PortState::Active;
  } else {
    port.state = std::min(port_.state, PortState::Initialize);
  }
  port.gid = mux_.gid_of(function);
  return port;
}

}  // namespace weft::sriov
