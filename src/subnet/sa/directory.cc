#include "subnet/sa/directory.h"

#include <algorithm>
#include <utility>

namespace weft::subnet {

void SaDirectory::refresh(const Subnet& subnet) {
  if (generation_ == subnet.generation && nodes_ == subnet.nodes().data() &&
      node_count_ == subnet.nodes().size() && node_count_ != 0) {
    return;
  }
  generation_ = subnet.generation;
  nodes_ = subnet.nodes().data();
  node_count_ = subnet.nodes().size();
  end_ports_.clear();
  first_port_.clear();
  kinds_.clear();
  keys_.clear();
  kind_of_keys_.clear();
  alias_guids_.clear();
  for (std::uint32_t n = 0; n < node_count_; ++n) {
    const SubnetNode& node = subnet.nodes()[n];
    first_port_.push_back(kinds_.size());
    for (const SubnetPort& port : node.ports) {
      kinds_.push_back(kind_of_keys(port.pkeys));
      if (port.info.lid == Lid{} || port.guid == Guid{}) {
        continue;
      }
      const PortId id{NodeId{n}, port.number};
      end_ports_.push_back(id);
      for (const Guid guid : port.guids) {
        if (guid != Guid{} && guid != port.guid) {
          alias_guids_.emplace(guid, id);
        }
      }
    }
  }
}

std::optional<PortId> SaDirectory::find_gid(const Subnet& subnet, const Gid& gid) const {
  if (gid.prefix() != subnet.subnet_prefix && gid.prefix() != kDefaultGidPrefix) {
    return std::nullopt;
  }
  if (const auto port = subnet.find_port(gid.interface_id())) {
    return subnet.port(*port).info.lid == Lid{} ? std::nullopt : port;
  }
  const auto alias = alias_guids_.find(gid.interface_id());
  return alias == alias_guids_.end() ? std::nullopt : std::optional{alias->second};
}

PartitionKind SaDirectory::kind_of_keys(const std::vector<PKey>& table) {
  std::vector<std::uint16_t> values;
  std::vector<PKey> keys;
  for (const PKey key : table) {
    if (key.is_valid()) {
      keys.push_back(key);
    }
  }
  if (table.empty()) {  // not read yet: the default partition is in every table (§10.9.1.2)
    keys.push_back(kDefaultPKey);
  }
  values.reserve(keys.size());
  for (const PKey key : keys) {
    values.push_back(key.value());
  }
  const auto [place, is_new] =
      kind_of_keys_.try_emplace(std::move(values), static_cast<PartitionKind>(keys_.size()));
  if (is_new) {
    keys_.push_back(std::move(keys));
  }
  return place->second;
}

PartitionKind SaDirectory::kind_of(const Subnet& subnet, PortId port) const {
  // all ports of a switch count as port 0
  const bool is_switch = subnet.node(port.node).is_switch();
  return kinds_.at(first_port_.at(port.node.value()) + (is_switch ? 0 : port.number.value()));
}

std::optional<PKey> SaDirectory::shared_key(PartitionKind source, PartitionKind destination,
                                            std::optional<PKey> wanted) const {
  for (const PKey mine : keys_.at(source)) {
    if (wanted && wanted->base() != mine.base()) {
      continue;
    }
    const auto is_shared = [mine](PKey theirs) { return mine.matches(theirs); };
    if (std::ranges::any_of(keys_.at(destination), is_shared)) {
      return mine;
    }
  }
  return std::nullopt;
}

bool SaDirectory::has_key(PartitionKind kind, PKey key) const {
  return std::ranges::any_of(keys_.at(kind),
                             [key](PKey mine) { return mine.base() == key.base(); });
}

}  // namespace weft::subnet
