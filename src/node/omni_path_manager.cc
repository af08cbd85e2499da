#include "node/omni_path_manager.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "subnet/routing/graph.h"
#include "subnet/routing/multicast.h"
#include "subnet/routing/routing.h"
#include "subnet/subnet.h"

namespace weft::node {

using fabric::ExtendedLid;
using fabric::NodeIndex;
using fabric::PortIndex;
using fabric::PortRecord;
using fabric::PortState;

/// The parts as the routing engines see them. They want small LIDs: here a port has its position in
/// `owners`, counted from 1.
struct OmniPathManager::Graph {
  subnet::RoutingGraph routing;
  std::vector<NodeIndex> switches;                           // by position
  std::unordered_map<NodeIndex, std::uint32_t> position_of;  // the inverse
  std::vector<ExtendedLid> owners;
};

namespace {

/// Fills a subnet with the nodes and cables of some ports.
class SubnetMaker {
 public:
  explicit SubnetMaker(const fabric::TablesBuilder& tables) : tables_(tables) {}

  subnet::PortId add(PortIndex port) {
    const PortRecord& record = tables_.port(port);
    const auto [found, is_new] = nodes_.try_emplace(key_of(record));
    if (is_new) {
      found->second = subnet.add_node(node_info(record));
      if (record.is_switch_port()) {
        switches.push_back(record.node);
      }
    }
    return {found->second, record.number};
  }

  void connect(PortIndex a, PortIndex b) {
    for (const PortIndex end : {a, b}) {
      subnet.port(add(end)).info.port_state = wire::LinkState::Active;
    }
    subnet.connect(add(a), add(b));
  }

  subnet::Subnet subnet;
  std::vector<NodeIndex> switches;  // in the order of their positions

 private:
  /// Of an HCA, or of a switch as a node.
  using Key = std::pair<std::uint32_t, std::uint32_t>;
  [[nodiscard]] static Key key_of(const PortRecord& port) {
    return {port.node.value(), port.hca.value()};
  }

  [[nodiscard]] wire::NodeInfo node_info(const PortRecord& port) const {
    if (port.is_switch_port()) {
      const fabric::NodeRecord& node = tables_.node(port.node);
      return {.node_type = wire::NodeType::Switch,
              .port_count = static_cast<std::uint8_t>(node.port_count - 1),
              .node_guid = node.guid,
              .port_guid = node.guid};
    }
    const fabric::HcaRecord& hca = tables_.hcas()[port.hca.value()];
    return {.node_type = wire::NodeType::ChannelAdapter,
            .port_count = static_cast<std::uint8_t>(hca.port_count),
            .node_guid = hca.guid,
            .port_guid = port.guid,
            .local_port = port.number};
  }

  const fabric::TablesBuilder& tables_;
  std::map<Key, subnet::NodeId> nodes_;
};

}  // namespace

bool OmniPathManager::sweep() {
  if (tables_.port_changes() == seen_changes_ && !groups_changed_ &&
      tables_.ports().size() == known_ports_) {
    return false;
  }
  find_ports();
  bool is_changed = false;
  if (!ports_.empty()) {
    is_changed = assign_lids();
    is_changed |= activate();
    std::vector<bool> links_up;
    std::ranges::transform(ports_, std::back_inserter(links_up),
                           [this](PortIndex port) { return is_up(port); });
    if (is_changed || groups_changed_ || links_up != links_up_) {
      links_up_ = std::move(links_up);
      const Graph graph = make_graph();
      write_routes(graph);
      write_groups(graph);
      is_changed = true;
    }
  }
  groups_changed_ = false;
  seen_changes_ = tables_.port_changes();
  return is_changed;
}

/// Ports are never of another kind, and indices stay.
void OmniPathManager::find_ports() {
  for (; known_ports_ < tables_.ports().size(); ++known_ports_) {
    const PortIndex port{static_cast<std::uint32_t>(known_ports_)};
    if (tables_.port(port).is_omni_path()) {
      ports_.push_back(port);
    }
  }
}

/// To ports of HCAs that have a cable, and to switches.
bool OmniPathManager::assign_lids() {
  bool is_changed = false;
  for (const PortIndex port : ports_) {
    const PortRecord& record = tables_.port(port);
    const bool wants_one = record.is_switch_port() ? record.number == PortNumber{} &&
                                                         !tables_.node(record.node).is_removed()
                                                   : record.peer != fabric::kNoPort;
    if (wants_one && record.extended_lid() == ExtendedLid{}) {
      tables_.set_lid(port, ExtendedLid{next_lid_++});
      is_changed = true;
    }
  }
  return is_changed;
}

bool OmniPathManager::activate() {
  bool is_changed = false;
  for (const PortIndex port : ports_) {
    const PortRecord& record = tables_.port(port);
    if (record.peer != fabric::kNoPort && record.state != PortState::Down &&
        record.state != PortState::Active && tables_.port(record.peer).state != PortState::Down) {
      tables_.set_state(port, PortState::Active);
      is_changed = true;
    }
  }
  return is_changed;
}

bool OmniPathManager::is_up(PortIndex port) const {
  const PortRecord& record = tables_.port(port);
  return record.peer != fabric::kNoPort && record.state == PortState::Active &&
         tables_.port(record.peer).state == PortState::Active;
}

OmniPathManager::Graph OmniPathManager::make_graph() const {
  SubnetMaker made{tables_};
  Graph graph;
  for (const PortIndex port : ports_) {
    const PortRecord& record = tables_.port(port);
    if (record.extended_lid() != ExtendedLid{}) {
      graph.owners.push_back(record.extended_lid());
      const Lid position{static_cast<std::uint32_t>(graph.owners.size())};
      made.subnet.set_lids(made.add(port), position, 0);
    }
    if (is_up(port)) {
      made.connect(port, record.peer);
    }
  }
  graph.routing = subnet::make_routing_graph(made.subnet);
  graph.switches = std::move(made.switches);
  for (std::uint32_t i = 0; i < graph.switches.size(); ++i) {
    graph.position_of.emplace(graph.switches[i], i);
  }
  WEFT_ASSERT(graph.routing.size() == graph.switches.size(),
              "the graph has the subnet's switches, in their order");
  return graph;
}

/// Both engines need no more than one lane: neither closes a cycle of buffers.
void OmniPathManager::write_routes(const Graph& graph) {
  if (graph.switches.empty()) {
    return;  // ports that are joined back to back
  }
  auto fat_tree = subnet::route_fat_tree(graph.routing);
  const subnet::Routing routing =
      fat_tree ? std::move(*fat_tree) : subnet::route_up_down(graph.routing);
  for (std::uint32_t position = 0; position < graph.switches.size(); ++position) {
    const NodeIndex node = graph.switches[position];
    const std::vector<PortNumber>& forwarding = routing.forwarding[position];
    tables_.clear_forwarding(node);
    for (std::size_t i = 0; i < graph.owners.size(); ++i) {
      if (i + 1 < forwarding.size() && forwarding[i + 1] != wire::kNoForwardingPort) {
        tables_.set_forwarding(node, graph.owners[i], forwarding[i + 1]);
      }
    }
  }
}

void OmniPathManager::write_groups(const Graph& graph) {
  for (const NodeIndex node : graph.switches) {
    tables_.clear_multicast(node);
  }
  const std::vector<std::uint32_t> roots = subnet::tree_roots(graph.routing);
  if (roots.empty()) {
    return;
  }
  for (const auto& [mlid, joined] : groups_) {
    std::vector<subnet::TreeMember> members;
    for (const auto& [port, times] : joined) {
      if (is_up(port) && tables_.port(tables_.port(port).peer).is_switch_port()) {
        const PortRecord& at = tables_.port(tables_.port(port).peer);
        members.push_back({.at = graph.position_of.at(at.node), .port = at.number});
      }
    }
    const auto tree = subnet::grow_tree(graph.routing, roots[mlid.value() % roots.size()]);
    const auto masks = subnet::multicast_masks(graph.routing, tree, members);
    for (std::size_t position = 0; position < masks.size(); ++position) {
      for (std::size_t number = 0; number < masks[position].size(); ++number) {
        if (masks[position].test(number)) {
          tables_.set_multicast(graph.switches[position], mlid,
                                PortNumber{static_cast<std::uint8_t>(number)}, true);
        }
      }
    }
  }
}

Result<void> OmniPathManager::join(PortIndex port, ExtendedLid mlid) {
  if (!mlid.is_multicast() || mlid.value() - ExtendedLid::kFirstGroup >= kMaxGroups) {
    return fail(ErrorCode::InvalidArgument, "multicast LID {:#08x} is not in {:#08x}..{:#08x}",
                mlid.value(), ExtendedLid::kFirstGroup, ExtendedLid::kFirstGroup + kMaxGroups - 1);
  }
  if (port.value() >= tables_.ports().size() || !tables_.port(port).is_omni_path() ||
      tables_.port(port).is_switch_port()) {
    return fail(ErrorCode::InvalidArgument, "port {} is no Omni-Path port of a host", port.value());
  }
  groups_changed_ |= ++groups_[mlid][port] == 1;
  return {};
}

void OmniPathManager::leave(PortIndex port, ExtendedLid mlid) {
  const auto group = groups_.find(mlid);
  if (group == groups_.end() || !group->second.contains(port)) {
    return;
  }
  if (--group->second.at(port) == 0) {
    group->second.erase(port);
    groups_changed_ = true;
  }
  if (group->second.empty()) {
    groups_.erase(group);
  }
}

void OmniPathManager::set_capabilities(PortIndex port, std::uint16_t mask) {
  const auto known = capabilities_.find(port);
  if (mask == (known == capabilities_.end() ? 0 : known->second.mask)) {
    return;
  }
  Capabilities& of_port = capabilities_[port];
  of_port.mask = mask;
  ++of_port.changes;
  ++capability_changes_;
}

OmniPathManager::Capabilities OmniPathManager::capabilities(PortIndex port) const {
  const auto known = capabilities_.find(port);
  return known == capabilities_.end() ? Capabilities{} : known->second;
}

}  // namespace weft::node
