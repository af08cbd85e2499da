#include "node/shared_ports.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/process_slot.h"
#include "fabric/virtual_ports.h"
#include "verbs/port_policy.h"

namespace weft::node {

using fabric::PortIndex;
using fabric::PortRecord;
using sriov::FunctionId;

namespace {

/// Policy: QPs of tunnels have numbers that no program has, those of the host's own process slot 0,
/// above those of its IPoIB interfaces (ipoib_qpn()).
constexpr Qpn kFirstProxyQpn{0x2800};
constexpr Qpn kFirstTunnelQpn{0x3000};
static_assert(kFirstProxyQpn.value() + 8 * (fabric::kMostVirtualFunctions + 1) <=
                  kFirstTunnelQpn.value(),
              "proxies end where the others begin");
static_assert(kFirstTunnelQpn.value() + 8 * (fabric::kMostVirtualFunctions + 1) <
                  first_qpn_of(1).value(),
              "they are of slot 0");

/// Policy: as AliasGuidLimits::timeout, after which the Delete is sent again.
constexpr Duration kDeletedWithin = Duration::seconds(2);

[[nodiscard]] sriov::PhysicalPort physical_port_of(const fabric::TablesBuilder& tables,
                                                   PortIndex index) {
  const PortRecord& record = tables.port(index);
  const auto pkeys = tables.pkeys(index);
  const auto gids = tables.gids(index);
  return {
      .state = record.state,
      .lid = record.lid,
      .manager_lid = record.sm_lid,
      .reregistrations = record.reregistrations,
      .pkeys = {pkeys.begin(), pkeys.end()},
      .gids = {gids.begin(),  gids.end() }
  };
}

[[nodiscard]] sriov::FunctionOptions options_of(const fabric::FunctionDescription& wanted) {
  sriov::FunctionOptions options{.pkeys = wanted.pkeys};
  if (const std::uint32_t mads = wanted.quotas.mads_per_second; mads != 0) {
    options.mad_interval = Duration::seconds(1) / mads;
    options.mad_burst = std::clamp(mads, 1U, options.mad_burst);
  }
  if (wanted.quotas.groups != 0) {
    options.most_groups = wanted.quotas.groups;
  }
  return options;
}

}  // namespace

SharedPorts::Shared& SharedPorts::shared_at(PortIndex physical, Instant now) {
  Shared& shared = shared_[physical];
  if (!shared.port) {
    const PortRecord& record = tables_.port(physical);
    sriov::MultiplexerOptions options;
    options.port_guid = record.guid;
    options.subnet_prefix = tables_.gids(physical).front().prefix();
    options.most_functions = fabric::kMostVirtualFunctions + 1;
    options.proxy_base = kFirstProxyQpn;
    options.tunnel_base = kFirstTunnelQpn;
    shared.port = std::make_unique<sriov::SharedPort>(options, now);
    shared.port->multiplexer().set_tunnel_tap([this, physical](const sriov::TunnelDatagram& mad) {
      if (tunnel_tap_) {
        tunnel_tap_(physical, mad);
      }
    });
    if (make_directory_) {
      shared.directory = make_directory_(physical);
      shared.port->multiplexer().set_directory(*shared.directory);
    }
    shared.port->update(physical_port_of(tables_, physical), now);
  }
  return shared;
}

Result<void> SharedPorts::add(PortIndex physical, PortIndex port, FunctionId function,
                              const fabric::FunctionDescription& wanted, Instant now) {
  Shared& shared = shared_at(physical, now);
  sriov::FunctionOptions options = options_of(wanted);
  options.guid = tables_.port(port).guid;
  if (auto added = shared.port->add(function, options, now); !added) {
    return added;
  }
  shared.functions[function] = port;
  shared.descriptions[port] = wanted;
  tables_.set_trusted(port, wanted.is_trusted);
  functions_[port] = {.physical = physical, .number = function};
  ports_as_of_ = 0;
  pass_on(physical, shared, now);
  return {};
}

Result<void> SharedPorts::change(PortIndex port, const fabric::FunctionDescription& wanted) {
  const Function& function = functions_.at(port);
  Shared& shared = shared_.at(function.physical);
  if (auto changed = shared.port->change(function.number, options_of(wanted)); !changed) {
    return changed;
  }
  shared.descriptions[port] = wanted;
  tables_.set_trusted(port, wanted.is_trusted);
  ports_as_of_ = 0;
  return {};
}

void SharedPorts::follow_guid(PortIndex port, Instant now) {
  const Function& function = functions_.at(port);
  Shared& shared = shared_.at(function.physical);
  const auto set = shared.port->set_guid(function.number, tables_.port(port).guid, now);
  WEFT_ASSERT(set.has_value(), "a function that was added has a GUID");
  ports_as_of_ = 0;
  pass_on(function.physical, shared, now);
}

const fabric::FunctionDescription& SharedPorts::description_of(PortIndex port) const {
  return shared_.at(functions_.at(port).physical).descriptions.at(port);
}

void SharedPorts::remove(PortIndex port, Instant now) {
  const auto found = functions_.find(port);
  WEFT_ASSERT(found != functions_.end(), "the port is a function's");
  const Function function = found->second;
  functions_.erase(found);
  if (const auto at = shared_.find(function.physical); at != shared_.end()) {
    const auto removed = at->second.port->remove(function.number, now);
    WEFT_ASSERT(removed.has_value(), "a function that was added can be removed");
    at->second.functions.erase(function.number);
    at->second.descriptions.erase(port);
    pass_on(function.physical, at->second, now);
  }
}

/// SA is asked for the GUID at the other port when it has answered the Delete at this one, since it
/// declines a GUID that two ports have; without an answer, after that request's time.
Result<std::size_t> SharedPorts::move(PortIndex port, const Function& to,
                                      const fabric::FunctionDescription& wanted, Instant now) {
  const Function from = functions_.at(port);
  Shared& target = shared_at(to.physical, now);
  target.port->update(physical_port_of(tables_, to.physical), now);  // its P_Keys as they are now
  if (auto possible = target.port->multiplexer().can_add(to.number, now); !possible) {
    return std::unexpected(possible.error());
  }
  for (const std::uint16_t index : wanted.pkeys) {
    if (index >= tables_.pkeys(to.physical).size()) {
      return fail(ErrorCode::InvalidArgument, "the port has no entry {} in its P_Key table", index);
    }
  }
  Shared& source = shared_.at(from.physical);
  const auto state = source.port->export_function(from.number, now);
  WEFT_ASSERT(state.has_value(), "a function that was added can be exported");
  source.functions.erase(from.number);
  source.descriptions.erase(port);
  pass_on(from.physical, source, now);
  const auto lost = target.port->import_function(to.number, options_of(wanted), *state, now);
  WEFT_ASSERT(lost.has_value(), "number and P_Keys were looked at");
  target.functions[to.number] = port;
  target.descriptions[port] = wanted;
  functions_[port] = to;
  target.port->multiplexer().alias_guids().postpone(to.number, now + kDeletedWithin);
  moves_[port] = {.from = from, .to = to};
  ports_as_of_ = 0;
  pass_on(to.physical, target, now);
  end_moves(from.physical, now);  // if the port is down, there is nothing to wait for
  return lost->size();
}

/// Has the GUIDs of functions that have left the port registered, where SA has deleted them.
void SharedPorts::end_moves(PortIndex from, Instant now) {
  const auto is_deleted = [&](const Function& function) {
    const auto source = shared_.find(function.physical);
    return source == shared_.end() || source->second.port->multiplexer().alias_guids().state(
                                          function.number) != sriov::AliasGuidState::Withdrawing;
  };
  std::erase_if(moves_, [&](const auto& entry) {
    const Move& move = entry.second;
    if (move.from.physical != from || !is_deleted(move.from)) {
      return false;
    }
    if (const auto target = shared_.find(move.to.physical); target != shared_.end()) {
      target->second.port->multiplexer().alias_guids().postpone(move.to.number, now);
      pass_on(target->first, target->second, now);
    }
    return true;
  });
}

bool SharedPorts::may_add(PortIndex physical, FunctionId function, Instant now) const {
  const auto found = shared_.find(physical);
  return found == shared_.end() ||
         found->second.port->multiplexer().can_add(function, now).has_value();
}

std::optional<SharedPorts::Function> SharedPorts::function_at(PortIndex port) const {
  const auto found = functions_.find(port);
  return found == functions_.end() ? std::nullopt : std::optional{found->second};
}

PortIndex SharedPorts::physical_of(PortIndex port) const {
  const auto function = function_at(port);
  return function ? function->physical : port;
}

std::vector<PortIndex> SharedPorts::functions_of(PortIndex physical) const {
  std::vector<PortIndex> ports;
  if (const auto found = shared_.find(physical); found != shared_.end()) {
    for (const auto& [number, port] : found->second.functions) {
      ports.push_back(port);
    }
  }
  return ports;
}

std::vector<PortIndex> SharedPorts::functions_of_hca(fabric::HcaIndex hca) const {
  const fabric::HcaRecord& record = tables_.hcas()[hca.value()];
  std::vector<PortIndex> ports;
  for (std::uint32_t i = 0; i < record.port_count; ++i) {
    std::ranges::copy(functions_of(PortIndex{record.first_port.value() + i}),
                      std::back_inserter(ports));
  }
  std::ranges::sort(ports, {}, &PortIndex::value);
  return ports;
}

std::vector<PortIndex> SharedPorts::physical_ports() const {
  std::vector<PortIndex> ports;
  for (const auto& [physical, shared] : shared_) {
    ports.push_back(physical);
  }
  return ports;
}

bool SharedPorts::send(PortIndex from, mad::InterfaceKind kind, const mad::MadPacket& packet,
                       Instant now) {
  const auto function = function_at(from);
  const auto shared = shared_.find(function ? function->physical : from);
  if (shared == shared_.end() || (!function && kind == mad::InterfaceKind::Smi)) {
    return false;
  }
  shared->second.port->send(function ? function->number : sriov::kPhysicalFunction, kind, packet,
                            now);
  pass_on(shared->first, shared->second, now);
  return true;
}

bool SharedPorts::receive(PortIndex at, mad::InterfaceKind kind, const mad::MadAddress& source,
                          const mad::MadBytes& bytes, Instant now) {
  const auto shared = shared_.find(at);
  if (shared == shared_.end() || kind == mad::InterfaceKind::Smi) {
    return false;
  }
  shared->second.port->receive(source, bytes, now);
  pass_on(at, shared->second, now);
  end_moves(at, now);
  return true;
}

void SharedPorts::pass_on(PortIndex physical, Shared& shared, Instant now) {
  while (const auto mad = shared.port->poll_transmit(now)) {
    wire_.send(physical, *mad);
  }
  while (const auto mad = shared.port->poll_receive()) {
    const auto port = shared.functions.find(mad->function);
    if (mad->function == sriov::kPhysicalFunction) {
      wire_.deliver(physical, mad->source, mad->bytes);
    } else if (port != shared.functions.end()) {
      wire_.deliver(port->second, mad->source, mad->bytes);
    }
  }
  while (shared.port->poll_event()) {
    ports_as_of_ = 0;  // programs learn of events by the tables
  }
}

void SharedPorts::update(PortIndex physical, Shared& shared, Instant now) {
  shared.port->update(physical_port_of(tables_, physical), now);
  pass_on(physical, shared, now);
  for (const auto& [number, port] : shared.functions) {
    sriov::VirtualPort wanted = shared.port->port_of(number);
    wanted.state = verbs::state_under(shared.descriptions.at(port).policy, wanted.state);
    write_port(physical, port, wanted);
  }
}

void SharedPorts::write_port(PortIndex physical, PortIndex port, const sriov::VirtualPort& wanted) {
  const PortRecord before = tables_.port(port);
  const PortRecord& from = tables_.port(physical);
  bool is_changed = false;
  const auto change_if = [&](bool differs, auto set) {
    if (differs) {
      set();
      is_changed = true;
    }
  };
  change_if(before.lid != wanted.lid || before.lmc != from.lmc,
            [&] { tables_.set_lid(port, wanted.lid, from.lmc); });
  change_if(before.state != wanted.state, [&] { tables_.set_state(port, wanted.state); });
  change_if(before.sm_lid != from.sm_lid || before.sm_sl != from.sm_sl,
            [&] { tables_.set_subnet_manager(port, from.sm_lid, from.sm_sl); });
  change_if(before.active_mtu != from.active_mtu,
            [&] { tables_.set_active_mtu(port, from.active_mtu); });
  change_if(before.active_width != from.active_width || before.active_speed != from.active_speed ||
                before.active_speed_extended != from.active_speed_extended ||
                before.rate_mbps != from.rate_mbps,
            [&] {
              tables_.set_link_speed(port, {.rate_mbps = from.rate_mbps,
                                            .width = from.active_width,
                                            .speed = from.active_speed,
                                            .extended = from.active_speed_extended});
            });
  change_if(!std::ranges::equal(tables_.pkeys(port), wanted.pkeys),
            [&] { tables_.set_pkeys(port, wanted.pkeys); });
  // Without a registered GUID the entry stays: the port is not Active then.
  change_if(wanted.gid && !std::ranges::equal(tables_.gids(port), std::vector{*wanted.gid}),
            [&] { tables_.set_gids(port, std::vector{*wanted.gid}); });
  const std::uint8_t asked = from.reregistrations - before.reregistrations;
  for (std::uint8_t i = 0; i != asked; ++i) {
    tables_.request_reregistration(port);
    is_changed = true;
  }
  tables_changed_ |= is_changed;
}

void SharedPorts::run(Instant now) {
  if (shared_.empty()) {
    return;
  }
  for (auto& [physical, shared] : shared_) {
    if (shared.port->poll_deadline() <= now) {
      shared.port->handle_timeout(now);
      pass_on(physical, shared, now);
    }
  }
  if (ports_as_of_ != tables_.port_changes()) {
    for (auto& [physical, shared] : shared_) {
      update(physical, shared, now);
    }
    ports_as_of_ = tables_.port_changes();
  }
}

Instant SharedPorts::deadline() const {
  if (shared_.empty()) {
    return Instant::never();
  }
  if (ports_as_of_ != tables_.port_changes()) {
    return Instant{};
  }
  Instant next = Instant::never();
  for (const auto& [physical, shared] : shared_) {
    next = std::min(next, shared.port->poll_deadline());
  }
  return next;
}

}  // namespace weft::node
