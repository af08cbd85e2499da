// Fabric: GUIDs that an administrator gives a virtual function.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "node/fabric.h"

namespace weft::node {

using fabric::NodeRecord;
using fabric::PortIndex;

namespace {

/// Who has this GUID; none: nobody. An HCA may have that of its own port, as a port that of its
/// HCA's, so the host itself does not count.
[[nodiscard]] std::optional<std::string_view> owner_of(const fabric::TablesBuilder& tables,
                                                       Guid guid, fabric::NodeIndex but_for) {
  const auto has_it = [&](const NodeRecord& node) {
    const auto ports = tables.ports().subspan(node.first_port.value(), node.port_count);
    const auto hcas = tables.hcas().subspan(node.first_hca.value(), node.hca_count);
    return node.guid == guid ||
           std::ranges::find(ports, guid, &fabric::PortRecord::guid) != ports.end() ||
           std::ranges::find(hcas, guid, &fabric::HcaRecord::guid) != hcas.end();
  };
  for (const NodeRecord& node : tables.nodes()) {
    if (!node.is_removed() && &node != &tables.node(but_for) && has_it(node)) {
      return tables.name(node);
    }
  }
  return std::nullopt;
}

}  // namespace

/// A GUID names one port of a subnet (IBTA vol 1 §4.1.2), and programs read theirs once.
Result<void> Fabric::check_guids(std::string_view name, const FunctionGuids& guids) const {
  const auto node = builder_.find_node(name);
  if (guids.empty() || !node) {
    return {};
  }
  for (const std::optional<Guid>& guid : {guids.node, guids.port}) {
    if (const auto owner = guid ? owner_of(builder_, *guid, *node) : std::nullopt) {
      return fail(ErrorCode::Exists, "{} has the GUID {:#018x}; another one is needed", *owner,
                  guid->value());
    }
  }
  const auto programs = std::ranges::count_if(
      processes_, [&](const auto& entry) { return entry.first.host == *node; });
  if (programs != 0) {
    return fail(ErrorCode::Busy,
                "{} programs run on {}, which have read its GUIDs already: end them first",
                programs, name);
  }
  return {};
}

/// A node that was removed keeps its GIDs in the tables, where one of two equal ones counts.
void Fabric::forget_gid_of_removed(Guid guid) {
  for (std::uint32_t i = 0; i < builder_.ports().size(); ++i) {
    const PortIndex port{i};
    const bool has_it = std::ranges::find(builder_.gids(port), guid, &Gid::interface_id) !=
                        builder_.gids(port).end();
    if (has_it && builder_.node(builder_.port(port).node).is_removed()) {
      builder_.set_gids(port, std::array{Gid{}});
    }
  }
}

void Fabric::set_guids(PortIndex port, const FunctionGuids& guids, Instant now) {
  if (guids.node) {
    builder_.set_node_guid(builder_.port(port).hca, *guids.node);
  }
  if (guids.port && *guids.port != builder_.port(port).guid) {
    forget_gid_of_removed(*guids.port);
    builder_.set_port_guid(port, *guids.port);
    if (management_.shared_ports().function_at(port)) {
      management_.shared_ports().follow_guid(port, now);
    } else {
      builder_.set_gids(port, std::array{
                                  Gid{topology_.subnet_prefix, *guids.port}
      });
    }
  }
}

}  // namespace weft::node
