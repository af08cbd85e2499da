// Fabric: adding and removing nodes at run time. Indices of nodes and ports are stable: new nodes
// are appended, and entries of removed ones stay unused.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "fabric/addresses.h"
#include "fabric/topology_check.h"
#include "node/fabric.h"
#include "node/host_services.h"
#include "node/subnet_services.h"

namespace weft::node {

using fabric::EndPoint;
using fabric::NodeKind;
using fabric::PortIndex;

namespace {

/// Position in `nodes` of the node with this name that is not removed.
template <class Nodes>
[[nodiscard]] std::optional<std::uint32_t> position_of(const Nodes& nodes, NodeKind kind,
                                                       std::string_view name,
                                                       const fabric::TablesBuilder& tables) {
  for (std::size_t i = nodes.size(); i-- != 0;) {  // names may be reused: the latest node is meant
    const EndPoint end{kind, static_cast<std::uint32_t>(i), 0, PortNumber{1}};
    if (nodes[i].name == name && !tables.node(tables.port(tables.port_of(end)).node).is_removed()) {
      return end.node;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<HostAddresses> Fabric::host_addresses() const {
  std::vector<HostAddresses> hosts;
  for (std::uint32_t position = 0; position < topology_.hosts.size(); ++position) {
    const EndPoint first{NodeKind::Host, position, 0, PortNumber{1}};
    const fabric::NodeIndex index = builder_.port(builder_.port_of(first)).node;
    const fabric::NodeRecord& node = builder_.node(index);
    if (node.is_removed()) {
      continue;
    }
    HostAddresses host{.host = index, .name = topology_.hosts[position].name, .addresses = {}};
    for (std::uint32_t port = 0; port < node.port_count; ++port) {
      std::ranges::copy(fabric::addresses_of(topology_, position, port),
                        std::back_inserter(host.addresses));
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Result<void> Fabric::change_node(const NodeChange& change, Instant now) {
  using enum NodeChange::Action;
  switch (change.action) {
    case Set:
      return set_function(change, now);
    case Move:
      return move_function(change, now);
    case Assign:
      return assign_function(change, now);
    case Unassign:
      return unassign_function(change, now);
    case Add:
    case Remove:
      break;
  }
  auto changed = change.action == Add ? add_node(change, now) : remove_node(change, now);
  if (!changed || !has_subnet_manager_) {
    return changed;
  }
  return start_managers(std::nullopt, now);
}

/// Finds a port given as h1:1, h1/weft1:2 or s1:3 that has no cable.
Result<EndPoint> Fabric::find_free_port(std::string_view name) const {
  const std::size_t colon = name.find(':');
  const std::string_view place = name.substr(0, colon);
  const std::string_view node = place.substr(0, place.find('/'));
  std::uint32_t number{};
  if (colon != std::string_view::npos) {
    std::from_chars(name.data() + colon + 1, name.data() + name.size(), number);
  }
  std::optional<EndPoint> end;
  std::size_t ports = 0;
  if (const auto at = position_of(topology_.switches, NodeKind::Switch, node, builder_);
      at && place == node) {
    end = EndPoint{NodeKind::Switch, *at, 0, PortNumber{static_cast<std::uint8_t>(number)}};
    ports = topology_.switches[*at].port_count;
  } else if (const auto host = position_of(topology_.hosts, NodeKind::Host, node, builder_)) {
    const auto& hcas = topology_.hosts[*host].hcas;
    const auto hca = place == node ? hcas.begin()
                                   : std::ranges::find(hcas, place.substr(node.size() + 1),
                                                       &fabric::HcaDescription::name);
    if (hca != hcas.end()) {
      end = EndPoint{NodeKind::Host, *host, static_cast<std::uint8_t>(hca - hcas.begin()),
                     PortNumber{static_cast<std::uint8_t>(number)}};
      ports = hca->ports.size();
    }
  }
  if (!end) {
    return fail(ErrorCode::NotFound, "{}: the fabric has no such node; ports are named as s1:7",
                name);
  }
  if (number < 1 || number > ports) {
    return fail(ErrorCode::NotFound, "{}: {} has ports 1 to {}", name, place, ports);
  }
  const PortIndex peer = builder_.port(builder_.port_of(*end)).peer;
  if (peer != fabric::kNoPort) {
    return fail(ErrorCode::Exists, "{} is taken: its cable leads to {}; another port is needed",
                name, builder_.name(builder_.node(builder_.port(peer).node)));
  }
  return *end;
}

/// The links of the last node of `topology`, in order of its ports, of the types of the ports that
/// they lead to.
Result<std::vector<fabric::LinkDescription>> Fabric::links_of(
    const NodeChange& change, const fabric::Topology& topology) const {
  fabric::LinkDescription link{.a = {}, .b = {}, .rate_gbps = {}, .delay = {}};
  if (!topology_.links.empty()) {
    link = topology_.links.front();
  }
  const bool is_switch = change.kind == NodeKind::Switch;
  const std::size_t position = (is_switch ? topology.switches.size() : topology.hosts.size()) - 1;
  link.a = {change.kind, static_cast<std::uint32_t>(position), 0, PortNumber{}};
  std::vector<fabric::LinkDescription> links;
  for (std::uint32_t i = 0; i < change.links.size(); ++i) {
    const auto end = find_free_port(change.links[i]);
    if (!end) {
      return std::unexpected(end.error());
    }
    link.b = *end;
    link.type = link_type_of(topology, *end);
    link.a.hca = static_cast<std::uint8_t>(is_switch ? 0 : i / change.ports);
    link.a.port = PortNumber{static_cast<std::uint8_t>(is_switch ? i + 1 : i % change.ports + 1)};
    if (std::ranges::find(links, link.b, &fabric::LinkDescription::b) != links.end()) {
      return fail(ErrorCode::InvalidArgument, "{} is named twice", change.links[i]);
    }
    links.push_back(link);
  }
  return links;
}

Result<void> Fabric::check_new_name(const NodeChange& change) const {
  const bool is_switch = change.kind == NodeKind::Switch;
  if (auto named = fabric::internal::check_name(is_switch ? "switch" : "host", change.name);
      !named) {
    return named;
  }
  if (builder_.find_node(change.name)) {
    return fail(ErrorCode::Exists, "the fabric has a node {} already; another name would do",
                change.name);
  }
  return {};
}

Result<void> Fabric::add_node(const NodeChange& change, Instant now) {
  if (auto named = check_new_name(change); !named) {
    return named;
  }
  if (change.is_function) {
    return add_function(change, now);
  }
  const bool is_switch = change.kind == NodeKind::Switch;
  const std::size_t more = is_switch ? change.ports + 1U : std::size_t{change.hcas} * change.ports;
  if (builder_.ports().size() + more > max_ports_) {
    return fail(ErrorCode::OutOfMemory, "a fabric that runs grows by at most {} ports",
                kReservedPorts);
  }
  fabric::Topology topology = topology_;
  if (is_switch) {
    topology.switches.push_back(
        {.name = change.name, .port_count = static_cast<std::uint8_t>(change.ports), .guid = {}});
  } else {
    topology.hosts.push_back(fabric::make_host(change.name, change.hcas, change.ports));
  }
  const auto links = links_of(change, topology);
  if (!links) {
    return std::unexpected(links.error());
  }
  for (const fabric::LinkDescription& link : *links) {
    (is_switch ? topology.switches.back().link_type
               : topology.hosts.back().hcas[link.a.hca].link_type) = link.type;
  }
  for (const fabric::LinkDescription& link : *links) {
    if (link_type_of(topology, link.a) != link.type) {
      return fail(ErrorCode::InvalidArgument,
                  "{} leads to {}, which is of another type than the other links of {}: all links "
                  "of a switch or an HCA are of one type",
                  to_string(topology, link.a), to_string(topology, link.b), change.name);
    }
  }
  topology.links.insert(topology.links.end(), links->begin(), links->end());
  topology_ = std::move(topology);
  builder_.grow(topology_, *links);
  management_.grow(now);
  return {};
}

/// The connections of a host that goes end in order: its programs hear of it, and its peers by
/// MADs, as where a kernel removes a device.
void Fabric::disconnect(fabric::NodeIndex node, Instant now) {
  constexpr int kTurns = 16;  // policy: of ManagementPlane::kMadsPerRun MADs
  hosts_->remove_devices(node, now);
  management_.set_takes_time(false);
  for (int turn = 0; turn < kTurns && management_.run(now); ++turn) {
  }
  management_.set_takes_time(true);
}

Result<void> Fabric::remove_node(const NodeChange& change, Instant now) {
  const auto found = builder_.find_node(change.name);
  if (!found) {
    return fail(ErrorCode::NotFound, "the fabric has no node {}", change.name);
  }
  const fabric::NodeRecord& node = builder_.node(*found);
  const bool is_host = node.kind == NodeKind::Host;
  if (auto checked = check_removal(*found, change.is_forced); !checked) {
    return checked;
  }
  const auto is_other_host = [&](const fabric::NodeRecord& other) {
    return other.kind == NodeKind::Host && !other.is_removed() && &other != &node;
  };
  if (is_host && std::ranges::none_of(builder_.nodes(), is_other_host)) {
    return fail(ErrorCode::InvalidArgument, "{} is the only host; `weft down` ends a fabric",
                change.name);
  }
  disconnect(*found, now);
  const auto is_of_node = [&](PortIndex port) { return builder_.port(port).node == *found; };
  std::erase_if(managers_, [&](const Manager& manager) { return is_of_node(manager.port); });
  for (std::uint32_t i = 0; i < node.port_count; ++i) {
    const PortIndex port{node.first_port.value() + i};
    unplugged_.erase(std::min(port, builder_.port(port).peer));
  }
  hosts_->remove(*found);
  remove_function_of(*found, now);
  management_.agents().power_off(*found, now);
  std::erase_if(topology_.links, [&](const fabric::LinkDescription& link) {
    return is_of_node(builder_.port_of(link.a)) || is_of_node(builder_.port_of(link.b));
  });
  builder_.remove_node(*found);
  return {};
}

}  // namespace weft::node
