// Fabric: virtual functions without a port, which is given to them and taken from them later. Such
// a function is a host whose port is down; since its programs' QPNs would be those of no port, none
// runs there.

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "node/fabric.h"

namespace weft::node {

using fabric::PortIndex;

std::vector<PortIndex> Fabric::unassigned_functions() const {
  std::vector<PortIndex> ports;
  for (const auto& [port, change] : unassigned_) {
    ports.push_back(port);
  }
  return ports;
}

/// What a function without a port is to have; null if it has one, or is none.
FunctionChange* Fabric::find_unassigned(std::string_view name) {
  const auto node = builder_.find_node(name);
  const auto found = node ? unassigned_.find(builder_.node(*node).first_port) : unassigned_.end();
  return found == unassigned_.end() ? nullptr : &found->second;
}

Result<void> Fabric::check_assigned(PortIndex port) const {
  if (!unassigned_.contains(port)) {
    return {};
  }
  const std::string_view name = builder_.name(builder_.node(builder_.port(port).node));
  return fail(ErrorCode::InvalidArgument,
              "{} is a virtual function without a port; `weft vf assign h1:1 {}` gives it one",
              name, name);
}

Result<void> Fabric::assign_function(const NodeChange& change, Instant now) {
  FunctionChange* const kept = find_unassigned(change.name);
  if (kept == nullptr) {
    const auto port = find_function(change.name);
    return port ? fail(ErrorCode::Exists,
                       "{} has a port already; `weft vf migrate {} {}` moves it there", change.name,
                       change.name, change.of)
                : Result<void>{std::unexpected(port.error())};
  }
  NodeChange wanted = change;
  wanted.function = *kept;
  const auto place = find_place(wanted, now);
  if (!place) {
    return std::unexpected(place.error());
  }
  const PortIndex port = builder_.node(*builder_.find_node(change.name)).first_port;
  unassigned_.erase(port);
  return take_place(port, *place, now);
}

/// The function has nothing any more of the port that it had; what it was given stays.
Result<void> Fabric::unassign_function(const NodeChange& change, Instant now) {
  const auto port = find_function(change.name);
  if (!port) {
    return std::unexpected(port.error());
  }
  const fabric::NodeIndex node = builder_.port(*port).node;
  const auto programs = std::ranges::count_if(
      processes_, [&](const auto& entry) { return entry.first.host == node; });
  if (programs != 0) {
    return fail(ErrorCode::Busy,
                "{} programs run on {}, whose QPs have numbers of this port: end them first, or "
                "`weft vf migrate` moves the function with them",
                programs, change.name);
  }
  SharedPorts& shared = management_.shared_ports();
  const PortIndex physical = shared.physical_of(*port);
  const fabric::FunctionDescription& had = shared.description_of(*port);
  FunctionChange kept{.mads_per_second = had.quotas.mads_per_second,
                      .groups = had.quotas.groups,
                      .policy = had.policy,
                      .is_trusted = had.is_trusted};
  kept.pkeys.emplace();
  for (const std::uint16_t index : had.pkeys) {
    if (index < builder_.pkeys(physical).size()) {  // a subnet manager may have made it shorter
      kept.pkeys->push_back({.key = builder_.pkeys(physical)[index]});
    }
  }
  take_back_slots(builder_.port(physical).node, *port, now);
  shared.remove(*port, now);
  builder_.set_state(*port, fabric::PortState::Down);
  builder_.set_lid(*port, Lid{}, 0);
  builder_.set_subnet_manager(*port, Lid{}, ServiceLevel{});
  unassigned_.emplace(*port, std::move(kept));
  return {};
}

}  // namespace weft::node
