// Fabric: as many virtual functions of an HCA as an administrator asks for.

#include <fmt/format.h>

#include <ranges>
#include <string>
#include <vector>

#include "node/fabric.h"

namespace weft::node {

using fabric::HcaIndex;

Result<void> Fabric::set_function_count(HcaIndex hca, std::uint32_t count, Instant now) {
  std::vector<std::string> names;
  for (const fabric::PortIndex port : management_.shared_ports().functions_of_hca(hca)) {
    names.emplace_back(builder_.name(builder_.node(builder_.port(port).node)));
  }
  if (names.size() == count) {
    return {};
  }
  if (count == 0) {
    return remove_functions(names, now);
  }
  if (!names.empty()) {
    return fail(ErrorCode::Busy,
                "there are {} virtual functions already, which go first: 0, and then {}",
                names.size(), count);
  }
  return add_functions(hca, count, now);
}

/// Named as those of a topology file, h1v1 and so on, but for names that others have.
Result<void> Fabric::add_functions(HcaIndex hca, std::uint32_t count, Instant now) {
  const fabric::HcaRecord& record = builder_.hcas()[hca.value()];
  const fabric::NodeRecord& node = builder_.node(record.node);
  const std::string host{builder_.name(node)};
  const std::string port = hca == node.first_hca
                               ? fmt::format("{}:1", host)
                               : fmt::format("{}/{}:1", host, builder_.name(record));
  std::vector<std::string> added;
  for (std::uint32_t number = 1; added.size() < count; ++number) {
    NodeChange change;
    change.name = fmt::format("{}v{}", host, number);
    change.is_function = true;
    change.of = port;
    change.ports = 1;
    if (builder_.find_node(change.name)) {
      continue;
    }
    if (auto done = change_node(change, now); !done) {
      // Nothing is left of a part of them, as of pci_enable_sriov().
      static_cast<void>(!remove_functions(added, now));
      return done;
    }
    added.push_back(change.name);
  }
  return {};
}

/// The last one first, as they go in a kernel.
Result<void> Fabric::remove_functions(const std::vector<std::string>& names, Instant now) {
  for (const std::string& name : std::views::reverse(names)) {
    NodeChange change;
    change.action = NodeChange::Action::Remove;
    change.name = name;
    change.is_forced = true;
    if (auto done = change_node(change, now); !done) {
      return done;
    }
  }
  return {};
}

}  // namespace weft::node
