// Fabric: virtual functions, each a host of its own whose port has no cable and shares the port of
// another host (node/shared_ports.h, fabric/virtual_ports.h).

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/virtual_ports.h"
#include "node/fabric.h"

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

/// The port of a virtual function, by its host.
Result<PortIndex> Fabric::find_function(std::string_view name) const {
  const auto node = builder_.find_node(name);
  const PortIndex port = node ? builder_.node(*node).first_port : fabric::kNoPort;
  if (!node || !management_.shared_ports().function_at(port)) {
    return fail(ErrorCode::NotFound, "{} is no virtual function; `weft vf list` has them", name);
  }
  return port;
}

Result<void> Fabric::add_function(const NodeChange& change, Instant now) {
  const auto found = find_physical(change.of);
  if (!found) {
    return std::unexpected(found.error());
  }
  const PortIndex physical = *found;
  const fabric::PortRecord& record = builder_.port(physical);
  if (builder_.ports().size() + 1 > max_ports_) {
    return fail(ErrorCode::OutOfMemory, "a fabric that runs grows by at most {} ports",
                kReservedPorts);
  }
  fabric::FunctionDescription wanted{.name = change.name};
  if (auto described = describe(change.function, physical, change.of, wanted); !described) {
    return described;
  }
  ProcessSlots& slots = slots_[record.node];
  std::uint32_t number = 1;
  const auto may_use = [&](std::uint32_t function) {
    const sriov::FunctionId id{static_cast<std::uint16_t>(function)};
    return management_.shared_ports().may_add(physical, id, now) &&
           slots.lend(fabric::first_slot_of_function(function), fabric::kSlotsPerFunction, now);
  };
  while (number <= fabric::kMostVirtualFunctions && !may_use(number)) {
    ++number;
  }
  if (number > fabric::kMostVirtualFunctions) {
    return fail(ErrorCode::OutOfMemory,
                "{} has no room for a virtual function: a host has {}, and a number is free when "
                "no MAD of the function that had it can be under way",
                change.of, fabric::kMostVirtualFunctions);
  }
  topology_.hosts.push_back(fabric::make_host(change.name, 1, 1));
  builder_.grow(topology_, {});
  management_.grow(now);
  const fabric::NodeIndex node{static_cast<std::uint32_t>(builder_.nodes().size() - 1)};
  slots_.insert_or_assign(
      node, ProcessSlots{fabric::first_slot_of_function(number), fabric::kSlotsPerFunction});
  return management_.shared_ports().add(physical, builder_.node(node).first_port,
                                        sriov::FunctionId{static_cast<std::uint16_t>(number)},
                                        wanted, now);
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

Result<void> Fabric::set_function(const NodeChange& change) {
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
  return management_.shared_ports().change(port, wanted);
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

/// A free number for the function at another port, and its process slots there: those that it has
/// if they are free, and only those while its programs run, whose QPNs name them. 0: there is none.
std::uint32_t Fabric::lend_number(PortIndex port, PortIndex physical, Instant now) {
  const SharedPorts& shared = management_.shared_ports();
  const auto from = *shared.function_at(port);
  const fabric::NodeIndex host = builder_.port(physical).node;
  const bool stays = builder_.port(from.physical).node == host;
  const auto may_use = [&](std::uint32_t number) {
    const sriov::FunctionId id{static_cast<std::uint16_t>(number)};
    return shared.may_add(physical, id, now) &&
           ((stays && id == from.number) ||
            slots_[host].lend(fabric::first_slot_of_function(number), fabric::kSlotsPerFunction,
                              now));
  };
  if (may_use(from.number.value())) {
    return from.number.value();
  }
  const bool has_programs = std::ranges::any_of(
      processes_, [&](const auto& entry) { return entry.first.host == builder_.port(port).node; });
  std::uint32_t number = has_programs ? fabric::kMostVirtualFunctions + 1 : 1;
  while (number <= fabric::kMostVirtualFunctions && !may_use(number)) {
    ++number;
  }
  return number > fabric::kMostVirtualFunctions ? 0 : number;
}

/// Its host keeps its programs, their QPs and its GID; LID and, if no program runs, number change.
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
  const std::uint32_t number = lend_number(*port, *physical, now);
  if (number == 0) {
    return fail(ErrorCode::Busy,
                "{} has no room for {}: a host has {} functions, one that left rests for a while, "
                "and one whose programs run needs the number that it has, {}; end them, or wait",
                change.of, change.name, fabric::kMostVirtualFunctions, from.number.value());
  }
  const sriov::FunctionId id{static_cast<std::uint16_t>(number)};
  const auto moved =
      management_.shared_ports().move(*port, {.physical = *physical, .number = id}, *wanted, now);
  const fabric::NodeIndex host = builder_.port(*physical).node;
  const fabric::NodeIndex old_host = builder_.port(from.physical).node;
  const bool keeps_slots = host == old_host && id == from.number;
  if (!moved) {
    if (!keeps_slots) {
      slots_.at(host).take_back(fabric::first_slot_of_function(number), fabric::kSlotsPerFunction,
                                now);
    }
    return std::unexpected(moved.error());
  }
  if (!keeps_slots) {
    slots_.at(old_host).take_back(fabric::first_slot_of_function(from.number.value()),
                                  fabric::kSlotsPerFunction, now);
  }
  if (id != from.number) {
    slots_.insert_or_assign(
        builder_.port(*port).node,
        ProcessSlots{fabric::first_slot_of_function(number), fabric::kSlotsPerFunction});
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
  for (std::uint32_t i = 0; i < builder_.node(node).port_count; ++i) {
    management_.shared_ports().remove_physical(PortIndex{port.value() + i});
  }
  const auto function = management_.shared_ports().function_at(port);
  if (!function) {
    return;
  }
  management_.shared_ports().remove(port, now);
  slots_.at(builder_.port(function->physical).node)
      .take_back(fabric::first_slot_of_function(function->number.value()),
                 fabric::kSlotsPerFunction, now);
}

}  // namespace weft::node
