#include "host/fabric_map.h"

#include <algorithm>
#include <utility>

#include "fabric/virtual_ports.h"

namespace weft::host {
namespace {

[[nodiscard]] std::optional<fabric::PortIndex> port_of(const fabric::TablesView& view,
                                                       std::uint32_t node, Lid lid) {
  const fabric::PortIndex port = fabric::port_of_node(view, fabric::NodeIndex{node}, lid);
  return port == fabric::kNoPort ? std::nullopt : std::optional{port};
}

/// Where packets of this port enter the fabric; none from a virtual function that is not Active,
/// whatever its physical port is.
[[nodiscard]] std::optional<fabric::PortIndex> source_of(const fabric::TablesView& view,
                                                         std::uint32_t node, Lid lid) {
  const auto port = port_of(view, node, lid);
  if (!port) {
    return std::nullopt;
  }
  const fabric::PortIndex physical = fabric::physical_port(view, *port);
  const bool is_virtual = physical != *port;
  if (is_virtual && view.port(*port).state != fabric::PortState::Active) {
    return std::nullopt;
  }
  return physical;
}

[[nodiscard]] FabricMap::LocalPort local(const fabric::TablesView& view,
                                         const fabric::PortRecord& port) {
  return {.hca = port.hca.value() - view.node(port.node).first_hca.value(), .port = port.number};
}

}  // namespace

Result<void> FabricMap::replace(os::Mapping image) {
  auto view = fabric::TablesView::open(image.bytes());
  if (!view) {
    return std::unexpected(view.error());
  }
  const std::lock_guard guard{lock_};
  if (view_ && view->generation() <= view_->generation()) {
    return fail(ErrorCode::Io, "fabric tables of generation {} after {}", view->generation(),
                view_->generation());
  }
  view_ = *view;
  image_ = std::move(image);
  generation_.store(view_->generation(), std::memory_order_release);
  return {};
}

fabric::Path FabricMap::resolve(std::uint32_t node, Lid slid, Lid dlid, ServiceLevel sl) const {
  const std::lock_guard guard{lock_};
  if (const auto source = source_of(*view_, node, slid)) {
    return fabric::resolve(*view_, *source, dlid, sl);
  }
  fabric::Path path;  // not ours, or the port has lost this LID
  path.outcome = fabric::PathUse::SourceDown;
  path.generation = view_->generation();
  path.source = path.stopped_at = view_->node(fabric::NodeIndex{node}).first_port;
  return path;
}

fabric::MulticastTree FabricMap::resolve_multicast(std::uint32_t node, Lid slid, Lid mlid,
                                                   ServiceLevel sl) const {
  const std::lock_guard guard{lock_};
  if (const auto source = source_of(*view_, node, slid)) {
    return fabric::resolve_multicast(*view_, *source, mlid, sl);
  }
  fabric::MulticastTree tree;
  tree.outcome = fabric::PathUse::SourceDown;
  tree.generation = view_->generation();
  tree.source = tree.stopped_at = view_->node(fabric::NodeIndex{node}).first_port;
  return tree;
}

std::optional<std::uint32_t> FabricMap::node_of(Lid lid, Qpn qpn) const {
  const std::lock_guard guard{lock_};
  const fabric::PortIndex owner = fabric::port_of_qp(*view_, lid, qpn);
  return owner == fabric::kNoPort ? std::nullopt : std::optional{view_->port(owner).node.value()};
}

std::optional<uabi::RecordFault> FabricMap::validate_source(std::uint32_t node, Lid slid, PKey pkey,
                                                            const Gid* sgid) const {
  const std::lock_guard guard{lock_};
  const auto port = port_of(*view_, node, slid);
  if (!port || (sgid != nullptr && view_->owner_of(*sgid) != *port)) {
    return uabi::RecordFault::ForgedSource;
  }
  if (std::ranges::find(view_->pkeys(view_->port(*port)), pkey) ==
      view_->pkeys(view_->port(*port)).end()) {
    return uabi::RecordFault::ForgedPKey;
  }
  return std::nullopt;
}

std::optional<FabricMap::LocalPort> FabricMap::local_port(std::uint32_t node, Lid lid) const {
  const std::lock_guard guard{lock_};
  const auto owner = port_of(*view_, node, lid);
  if (!owner || view_->port(*owner).is_switch_port()) {
    return std::nullopt;
  }
  return local(*view_, view_->port(*owner));
}

std::vector<FabricMap::MulticastArrival> FabricMap::multicast_arrivals(std::uint32_t node,
                                                                       std::uint32_t sender,
                                                                       Lid slid, Lid mlid) const {
  const std::lock_guard guard{lock_};
  std::vector<MulticastArrival> arrivals;
  const auto own = port_of(*view_, sender, slid);
  const auto source = source_of(*view_, sender, slid);
  if (!own || !source) {
    return arrivals;
  }
  // At a physical port, and at those of its functions.
  const auto arrive = [&](fabric::PortIndex physical) {
    const auto arrive_at = [&](fabric::PortIndex index) {
      const fabric::PortRecord& port = view_->port(index);
      const bool may_be_inactive = index == physical && physical != *source;  // the walk has asked
      if (port.node.value() == node &&
          (may_be_inactive || port.state == fabric::PortState::Active)) {
        arrivals.push_back({.at = local(*view_, port), .is_sender = index == *own});
      }
    };
    arrive_at(physical);
    for (const fabric::PortIndex function : fabric::functions_of(*view_, physical)) {
      arrive_at(function);
    }
  };
  const fabric::MulticastTree tree = fabric::resolve_multicast(*view_, *source, mlid);
  if (!view_->port(*source).is_switch_port()) {
    arrive(*source);
  }
  for (const fabric::PortIndex member : tree.members) {
    if (!view_->port(member).is_switch_port()) {
      arrive(member);
    }
  }
  return arrivals;
}

}  // namespace weft::host
