#include "host/fabric_map.h"

#include <algorithm>
#include <utility>

namespace weft::host {
namespace {

[[nodiscard]] std::optional<fabric::PortIndex> port_of(const fabric::TablesView& view,
                                                       std::uint32_t node, Lid lid) {
  const fabric::PortIndex owner = view.owner_of(lid);
  if (owner == fabric::kNoPort || view.port(owner).node.value() != node) {
    return std::nullopt;
  }
  return owner;
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

fabric::Path FabricMap::resolve(std::uint32_t node, Lid slid, Lid dlid) const {
  const std::lock_guard guard{lock_};
  if (const auto source = port_of(*view_, node, slid)) {
    return fabric::resolve(*view_, *source, dlid);
  }
  fabric::Path path;  // not ours, or the port has lost this LID
  path.outcome = fabric::PathUse::SourceDown;
  path.generation = view_->generation();
  path.source = path.stopped_at = view_->node(fabric::NodeIndex{node}).first_port;
  return path;
}

fabric::MulticastTree FabricMap::resolve_multicast(std::uint32_t node, Lid slid, Lid mlid) const {
  const std::lock_guard guard{lock_};
  if (const auto source = port_of(*view_, node, slid)) {
    return fabric::resolve_multicast(*view_, *source, mlid);
  }
  fabric::MulticastTree tree;
  tree.outcome = fabric::PathUse::SourceDown;
  tree.generation = view_->generation();
  tree.source = tree.stopped_at = view_->node(fabric::NodeIndex{node}).first_port;
  return tree;
}

std::optional<std::uint32_t> FabricMap::node_of(Lid lid) const {
  const std::lock_guard guard{lock_};
  const fabric::PortIndex owner = view_->owner_of(lid);
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
  const auto source = port_of(*view_, sender, slid);
  if (!source) {
    return arrivals;
  }
  const fabric::MulticastTree tree = fabric::resolve_multicast(*view_, *source, mlid);
  const fabric::PortRecord& from = view_->port(*source);
  if (sender == node && !from.is_switch_port() && from.state == fabric::PortState::Active) {
    arrivals.push_back({.at = local(*view_, from), .is_sender = true});
  }
  for (const fabric::PortIndex member : tree.members) {
    const fabric::PortRecord& port = view_->port(member);
    if (port.node.value() == node && !port.is_switch_port()) {
      arrivals.push_back({.at = local(*view_, port), .is_sender = false});
    }
  }
  return arrivals;
}

}  // namespace weft::host
