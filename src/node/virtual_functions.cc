// Fabric: virtual functions, each a host of its own whose port has no cable and shares the port of
// another host (node/shared_ports.h, fabric/virtual_ports.h).

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/virtual_ports.h"
#include "node/fabric.h"
#include "node/host_services.h"

namespace weft::node {

using fabric::PortIndex;

namespace {

[[nodiscard]] std::string hex_list(std::span<const PKey> pkeys) {
  std::string text;
  for (const PKey pkey : pkeys) {
    text += fmt::format("{}{:#06x}", text.empty() ? "" : ", ", pkey.value());
  }
  return text;
}

/// Which entry of the port's P_Key table is meant.
[[nodiscard]] Result<std::uint16_t> find_pkey(std::span<const PKey> table, const PKeyChoice& choice,
                                              std::string_view port_name) {
  if (!choice.key) {
    if (choice.index < table.size()) {
      return choice.index;
    }
    return fail(ErrorCode::InvalidArgument,
                "the P_Key table of {} has the entries 0 to {}, so that a function of it can have "
                "those, not {}",
                port_name, table.size() - 1, choice.index);
  }
  const auto found = std::ranges::find(table, *choice.key);
  if (found == table.end()) {
    return fail(
        ErrorCode::InvalidArgument,
        "the P_Key table of {} has {}, so that a function of it can have those, not {:#06x}",
        port_name, hex_list(table), choice.key->value());
  }
  return static_cast<std::uint16_t>(std::distance(table.begin(), found));
}

[[nodiscard]] NodeChange change_of(const fabric::PlannedFunction& planned, std::string of) {
  NodeChange change;
  change.name = planned.name;
  change.of = std::move(of);
  if (!planned.pkeys.empty()) {
    auto& entries = change.function.pkeys.emplace();
    for (const PKey pkey : planned.pkeys) {
      entries.push_back({.key = pkey});
    }
  }
  change.function.mads_per_second = planned.quotas.mads_per_second;
  change.function.groups = planned.quotas.groups;
  change.function.is_trusted = planned.is_trusted;
  return change;
}

}  // namespace

/// A port that virtual functions may share.
Result<PortIndex> Fabric::find_physical(std::string_view name) const {
  const auto ports = find_ports(name);
  if (!ports) {
    return std::unexpected(ports.error());
  }
  if (builder_.port(ports->front()).is_switch_port()) {
    return fail(ErrorCode::InvalidArgument,
                "{} is a port of a switch; virtual functions share the port of a host, as h1:1",
                name);
  }
  if (management_.shared_ports().function_at(ports->front())) {
    return fail(ErrorCode::InvalidArgument,
                "{} is the port of a virtual function; others share the port that it shares", name);
  }
  return ports->front();
}

/// The port of a virtual function that has one, by its host.
Result<PortIndex> Fabric::find_function(std::string_view name) const {
  const auto node = builder_.find_node(name);
  const PortIndex port = node ? builder_.node(*node).first_port : fabric::kNoPort;
  if (auto assigned = check_assigned(port); !assigned) {
    return std::unexpected(assigned.error());
  }
  if (!node || !management_.shared_ports().function_at(port)) {
    return fail(ErrorCode::NotFound, "{} is no virtual function; `weft vf list` has them", name);
  }
  return port;
}

/// Where a function can be, with a number and process slots that are kept for it.
Result<Fabric::FunctionPlace> Fabric::find_place(const NodeChange& change, Instant now) {
  const auto physical = find_physical(change.of);
  if (!physical) {
    return std::unexpected(physical.error());
  }
  FunctionPlace place;
  place.to.physical = *physical;
  place.wanted.name = change.name;
  if (auto described = describe(change.function, *physical, change.of, place.wanted); !described) {
    return std::unexpected(described.error());
  }
  const std::uint32_t number = find_number(*physical, 0, now);
  const auto slots = number == 0 ? std::nullopt : lend_slots(builder_.port(*physical).node, now);
  if (!slots) {
    return fail(ErrorCode::OutOfMemory,
                "{} has no room for a virtual function: a host has {}, and a number is free when "
                "no MAD of the function that had it can be under way",
                change.of, fabric::kMostVirtualFunctions);
  }
  place.to.number = sriov::FunctionId{static_cast<std::uint16_t>(number)};
  place.first_slot = *slots;
  return place;
}

/// A host without a cable.
Result<PortIndex> Fabric::add_function_host(const std::string& name, Instant now) {
  if (builder_.ports().size() + 1 > max_ports_) {
    return fail(ErrorCode::OutOfMemory, "a fabric that runs grows by at most {} ports",
                kReservedPorts);
  }
  topology_.hosts.push_back(fabric::make_host(name, 1, 1));
  builder_.grow(topology_, {});
  management_.grow(now);
  return builder_.node(fabric::NodeIndex{static_cast<std::uint32_t>(builder_.nodes().size() - 1)})
      .first_port;
}

Result<void> Fabric::take_place(PortIndex port, const FunctionPlace& place, Instant now) {
  slots_.insert_or_assign(builder_.port(port).node, ProcessSlots::of_function());
  hand_over_slots(builder_.port(place.to.physical).node, place.first_slot, port);
  make_room_for(place.to.physical, place.to.number.value(), now);
  const bool is_first = !management_.shared_ports().is_shared(place.to.physical);
  auto added =
      management_.shared_ports().add(place.to.physical, port, place.to.number, place.wanted, now);
  if (added && is_first) {
    adopt_connections(place.to.physical, now);
  }
  return added;
}

/// What the port's own host has connected before: from now on its messages are looked at.
void Fabric::adopt_connections(PortIndex physical, Instant now) {
  const fabric::NodeIndex node = builder_.port(physical).node;
  if (!hosts_->has(node)) {
    return;
  }
  std::vector<sriov::CommunicationId> connections;
  for (const cm::IdStatus& id : hosts_->host(node, now).connections().ids()) {
    if (!id.port || id.port->value() != physical.value() || id.local_communication_id == 0) {
      continue;
    }
    const bool is_established = cm::is_established(id.state);
    connections.push_back({.local = id.local_communication_id,
                           .peer = id.remote_communication_id,
                           .is_of_request = id.remote_communication_id == 0,
                           .is_established = is_established,
                           .expires = is_established ? Instant::never()
                                                     : now + sriov::ConnectionLimits{}.unanswered});
  }
  // Beyond the limit of a function they end as they did before: without the other side's hearing.
  management_.shared_ports().adopt_connections(physical, connections);
}

Result<void> Fabric::add_function(const NodeChange& change, Instant now) {
  if (change.of.empty()) {
    const auto port = add_function_host(change.name, now);
    if (port) {
      unassigned_.emplace(*port, change.function);
    }
    return port ? Result<void>{} : std::unexpected(port.error());
  }
  const auto place = find_place(change, now);
  if (!place) {
    return std::unexpected(place.error());
  }
  const auto port = add_function_host(change.name, now);
  if (!port) {
    slots_.at(builder_.port(place->to.physical).node).take_back(place->first_slot, now);
    return std::unexpected(port.error());
  }
  return take_place(*port, *place, now);
}

/// GUIDInfo of the port has room for the GUID of a function with this number.
void Fabric::make_room_for(PortIndex physical, std::uint32_t number, Instant now) {
  constexpr std::uint8_t kAll = fabric::kMostVirtualFunctions + 1;
  if (number >= management_.agents().guid_cap(physical)) {
    management_.agents().set_guid_cap(physical, kAll, now);
  }
}

/// Those that the topology names, before the fabric is brought up.
Result<void> Fabric::add_functions_of_topology(Instant now) {
  const std::vector<fabric::HostDescription> hosts = topology_.hosts;  // functions add to these
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t hca = 0; hca < hosts[host].hcas.size(); ++hca) {
      const fabric::EndPoint port{fabric::NodeKind::Host, host, static_cast<std::uint8_t>(hca),
                                  PortNumber{1}};
      for (const fabric::PlannedFunction& planned : hosts[host].hcas[hca].functions) {
        const NodeChange change = change_of(planned, fabric::to_string(topology_, port));
        if (auto added = add_function(change, now); !added) {
          return fail(added.error().code, "virtual function {}: {}", planned.name,
                      added.error().reason);
        }
      }
    }
  }
  return {};
}

/// Takes over what is said of a function of the port.
Result<void> Fabric::describe(const FunctionChange& change, PortIndex physical,
                              std::string_view port_name,
                              fabric::FunctionDescription& wanted) const {
  wanted.quotas.mads_per_second = change.mads_per_second.value_or(wanted.quotas.mads_per_second);
  wanted.quotas.groups = change.groups.value_or(wanted.quotas.groups);
  wanted.policy = change.policy.value_or(wanted.policy);
  wanted.is_trusted = change.is_trusted.value_or(wanted.is_trusted);
  if (!change.pkeys) {
    return {};
  }
  wanted.pkeys.clear();
  for (const PKeyChoice& choice : *change.pkeys) {
    const auto index = find_pkey(builder_.pkeys(physical), choice, port_name);
    if (!index) {
      return std::unexpected(index.error());
    }
    if (std::ranges::find(wanted.pkeys, *index) != wanted.pkeys.end()) {
      return fail(ErrorCode::InvalidArgument,
                  "entry {} of the P_Key table of {} is named twice; a function has it once",
                  *index, port_name);
    }
    wanted.pkeys.push_back(*index);
  }
  return {};
}

Result<void> Fabric::set_function(const NodeChange& change, Instant now) {
  if (auto possible = check_guids(change.name, change.guids); !possible) {
    return possible;
  }
  if (FunctionChange* const kept = find_unassigned(change.name)) {
    kept->pkeys = change.function.pkeys ? change.function.pkeys : kept->pkeys;
    kept->mads_per_second =
        change.function.mads_per_second ? change.function.mads_per_second : kept->mads_per_second;
    kept->groups = change.function.groups ? change.function.groups : kept->groups;
    kept->policy = change.function.policy ? change.function.policy : kept->policy;
    kept->is_trusted = change.function.is_trusted ? change.function.is_trusted : kept->is_trusted;
    set_guids(builder_.node(*builder_.find_node(change.name)).first_port, change.guids, now);
    return {};
  }
  const auto found = find_function(change.name);
  if (!found) {
    return std::unexpected(found.error());
  }
  const PortIndex port = *found;
  const auto function = management_.shared_ports().function_at(port);
  fabric::FunctionDescription wanted = management_.shared_ports().description_of(port);
  const std::string of{builder_.name(builder_.node(builder_.port(function->physical).node))};
  if (auto described = describe(change.function, function->physical, of, wanted); !described) {
    return described;
  }
  auto changed = management_.shared_ports().change(port, wanted);
  if (changed) {
    set_guids(port, change.guids, now);
  }
  return changed;
}

/// What a function has, at another port: the same P_Keys, which must be in that port's table, too.
Result<fabric::FunctionDescription> Fabric::describe_at(PortIndex port, PortIndex physical,
                                                        std::string_view port_name) const {
  fabric::FunctionDescription wanted = management_.shared_ports().description_of(port);
  const auto keys = builder_.pkeys(management_.shared_ports().physical_of(port));
  std::vector<PKeyChoice> choices;
  for (const std::uint16_t index : wanted.pkeys) {
    if (index < keys.size()) {  // a subnet manager may have made the table shorter
      choices.push_back({.key = keys[index]});
    }
  }
  if (!choices.empty()) {
    if (auto described = describe({.pkeys = choices}, physical, port_name, wanted); !described) {
      return std::unexpected(described.error());
    }
  }
  return wanted;
}

/// A free number for a function of the port, `preferred` if it is; 0: there is none.
std::uint32_t Fabric::find_number(PortIndex physical, std::uint32_t preferred, Instant now) const {
  const auto may_use = [&](std::uint32_t number) {
    return management_.shared_ports().may_add(
        physical, sriov::FunctionId{static_cast<std::uint16_t>(number)}, now);
  };
  if (preferred != 0 && may_use(preferred)) {
    return preferred;
  }
  std::uint32_t number = 1;
  while (number <= fabric::kMostVirtualFunctions && !may_use(number)) {
    ++number;
  }
  return number > fabric::kMostVirtualFunctions ? 0 : number;
}

/// Its host keeps its programs, their QPs and its GID; LID and number change.
Result<void> Fabric::move_function(const NodeChange& change, Instant now) {
  const auto port = find_function(change.name);
  const auto physical = port ? find_physical(change.of) : port;
  if (!physical) {
    return std::unexpected(physical.error());
  }
  const auto from = *management_.shared_ports().function_at(*port);
  if (*physical == from.physical) {
    return fail(ErrorCode::InvalidArgument, "{} is at {} already", change.name, change.of);
  }
  const auto wanted = describe_at(*port, *physical, change.of);
  if (!wanted) {
    return std::unexpected(wanted.error());
  }
  const std::uint32_t number = find_number(*physical, from.number.value(), now);
  if (number == 0) {
    return fail(ErrorCode::Busy,
                "{} has no room for {}: a port has {} functions, and one that left rests for a "
                "while; wait, or take another port",
                change.of, change.name, fabric::kMostVirtualFunctions);
  }
  const fabric::NodeIndex host = builder_.port(*physical).node;
  const fabric::NodeIndex old_host = builder_.port(from.physical).node;
  const bool keeps_slots = host == old_host;
  const auto slots =
      keeps_slots ? std::optional{std::vector<std::uint32_t>{}} : lend_slots_to(host, *port, now);
  if (!slots) {
    return fail(ErrorCode::Busy,
                "{} cannot have {} now: the numbers of its QPs, or all that a function could have, "
                "are others' there; end its programs, or wait",
                change.of, change.name);
  }
  const SharedPorts::Function to{.physical = *physical,
                                 .number = sriov::FunctionId{static_cast<std::uint16_t>(number)}};
  const bool is_first = !management_.shared_ports().is_shared(*physical);
  const auto moved = management_.shared_ports().move(*port, to, *wanted, now);
  if (!moved) {
    for (const std::uint32_t first : *slots) {
      slots_.at(host).take_back(first, now);
    }
    return std::unexpected(moved.error());
  }
  if (is_first) {
    adopt_connections(*physical, now);
  }
  make_room_for(*physical, number, now);
  if (!keeps_slots) {
    take_back_slots(old_host, *port, now);
    for (const std::uint32_t first : *slots) {
      hand_over_slots(host, first, *port);
    }
  }
  return {};
}

/// What must not be while a node goes: programs, unless they are to lose their devices, and virtual
/// functions of its ports.
Result<void> Fabric::check_removal(fabric::NodeIndex index, bool is_forced) const {
  const fabric::NodeRecord& node = builder_.node(index);
  const auto programs = std::ranges::count_if(
      processes_, [&](const auto& entry) { return entry.first.host == index; });
  if (programs != 0 && !is_forced) {
    return fail(ErrorCode::Busy, "{} programs run on {}; --force takes their devices away",
                programs, builder_.name(node));
  }
  for (std::uint32_t i = 0; i < node.port_count; ++i) {
    const auto functions =
        management_.shared_ports().functions_of(PortIndex{node.first_port.value() + i});
    if (!functions.empty()) {
      return fail(ErrorCode::Busy, "{} has virtual functions, {} among them, which go first",
                  builder_.name(node),
                  builder_.name(builder_.node(builder_.port(functions.front()).node)));
    }
  }
  return {};
}

/// The node goes: if it is a virtual function, its physical port has room for another.
void Fabric::remove_function_of(fabric::NodeIndex node, Instant now) {
  const PortIndex port = builder_.node(node).first_port;
  unassigned_.erase(port);
  for (std::uint32_t i = 0; i < builder_.node(node).port_count; ++i) {
    management_.shared_ports().remove_physical(PortIndex{port.value() + i});
  }
  const auto function = management_.shared_ports().function_at(port);
  if (!function) {
    return;
  }
  take_back_slots(builder_.port(function->physical).node, port, now);
  management_.shared_ports().remove(port, now);
}

}  // namespace weft::node
