#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "fabric/tables.h"
#include "fabric/tables_image.h"
#include "verbs/mtu.h"

namespace weft::fabric {
namespace {

/// PortInfo's encoding of a link with `rate_mbps`: the smallest standard width and speed that reach
/// it, 4x EDR (100 Gb/s) without a limit.
struct LinkEncoding {
  std::uint32_t rate_mbps;
  std::uint8_t width;
  std::uint8_t speed;
  std::uint8_t extended;
};

constexpr std::array<LinkEncoding, 8> kLinkEncodings = {
    {
     {2'500, 1, 1, 0},    // 1x SDR
        {10'000, 2, 1, 0},   // 4x SDR
        {20'000, 2, 2, 0},   // 4x DDR
        {40'000, 2, 4, 0},   // 4x QDR
        {56'000, 2, 4, 1},   // 4x FDR
        {100'000, 2, 4, 2},  // 4x EDR
        {200'000, 2, 4, 4},  // 4x HDR
        {400'000, 2, 4, 8},  // 4x NDR
    }
};
constexpr std::size_t kUnlimitedEncoding = 5;

LinkEncoding encode_rate(std::uint32_t rate_mbps) {
  if (rate_mbps == 0) {
    return kLinkEncodings[kUnlimitedEncoding];
  }
  const auto* found =
      std::find_if(kLinkEncodings.begin(), kLinkEncodings.end(),
                   [&](const LinkEncoding& row) { return row.rate_mbps >= rate_mbps; });
  return found == kLinkEncodings.end() ? kLinkEncodings.back() : *found;
}

std::uint32_t megabits(const std::optional<double>& gigabits) {
  return gigabits ? static_cast<std::uint32_t>(std::lround(*gigabits * 1000)) : 0;
}

/// Lays sections out behind an image's header, each aligned to 8. Their elements are read by
/// finish(), which allocates the image once: of large fabrics it has tens of megabytes.
class ImageWriter {
 public:
  template <class T>
  void section(SectionId id, std::span<const T> elements) {
    const auto index = static_cast<std::size_t>(id);
    header_.sections[index] = {header_.image_bytes, elements.size()};
    elements_[index] = std::as_bytes(elements);
    header_.image_bytes = (header_.image_bytes + elements.size_bytes() + 7) / 8 * 8;
  }

  [[nodiscard]] std::vector<std::byte> finish(std::uint64_t generation,
                                              std::uint64_t subnet_prefix) {
    header_.generation = generation;
    header_.subnet_prefix = subnet_prefix;
    std::vector<std::byte> image(header_.image_bytes);
    copy_bytes(image, bytes_of(header_));
    for (std::size_t i = 0; i < kSectionCount; ++i) {
      copy_bytes(std::span{image}.subspan(header_.sections[i].offset), elements_[i]);
    }
    return image;
  }

 private:
  ImageHeader header_{.image_bytes = sizeof(ImageHeader)};
  std::array<ByteSpan, kSectionCount> elements_{};
};

/// P_Key tables; equal ones are stored once, since nearly all ports have the same.
class PKeyPool {
 public:
  std::uint32_t add(const std::vector<PKey>& table) {
    std::vector<std::uint16_t> key;
    key.reserve(table.size());
    for (const PKey pkey : table) {
      key.push_back(pkey.value());
    }
    const auto [found, is_new] =
        offsets_.emplace(std::move(key), static_cast<std::uint32_t>(pool_.size()));
    if (is_new) {
      pool_.insert(pool_.end(), table.begin(), table.end());
    }
    return found->second;
  }
  [[nodiscard]] std::span<const PKey> pool() const { return pool_; }

 private:
  std::map<std::vector<std::uint16_t>, std::uint32_t> offsets_;
  std::vector<PKey> pool_;
};

/// Those of Omni-Path are of another space.
bool has_lid(const PortRecord& port) { return port.lid != Lid{} && !port.is_omni_path(); }

/// A port without a cable does not take a LID from one with a cable: it is a virtual function's.
std::vector<PortIndex> owners_by_lid(std::span<const PortRecord> ports) {
  std::size_t top = 0;
  for (const PortRecord& port : ports) {
    if (has_lid(port)) {
      top = std::max<std::size_t>(top, port.lid.value() + (std::size_t{1} << port.lmc));
    }
  }
  std::vector<PortIndex> owners(top, kNoPort);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!has_lid(ports[i])) {
      continue;
    }
    for (std::size_t offset = 0; offset < std::size_t{1} << ports[i].lmc; ++offset) {
      PortIndex& owner = owners[ports[i].lid.value() + offset];
      if (owner == kNoPort || ports[i].peer != kNoPort || ports[i].is_switch_port()) {
        owner = PortIndex{static_cast<std::uint32_t>(i)};
      }
    }
  }
  return owners;
}

std::vector<std::uint32_t> sorted_by_gid(std::span<const Gid> gids) {
  std::vector<std::uint32_t> order(gids.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order,
                    [&](auto a, auto b) { return std::tie(gids[a], a) < std::tie(gids[b], b); });
  return order;
}

/// Concatenates the tables of all nodes and stores in each record the offset of its own.
std::vector<std::uint8_t> pool_tables(std::span<NodeRecord> nodes,
                                      std::span<const std::vector<std::uint8_t>> tables,
                                      std::uint64_t NodeRecord::* offset) {
  std::size_t total = 0;
  for (const auto& table : tables) {
    total += table.size();
  }
  std::vector<std::uint8_t> pool;
  pool.reserve(total);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].*offset = pool.size();
    pool.insert(pool.end(), tables[i].begin(), tables[i].end());
  }
  return pool;
}

}  // namespace

TablesBuilder::TablesBuilder(const Topology& topology) : subnet_prefix_(topology.subnet_prefix) {
  WEFT_ASSERT(validate(topology), "a topology is checked when it is read");
  nodes_.reserve(topology.hosts.size() + topology.switches.size());
  grow(topology, topology.links);
}

void TablesBuilder::grow(const Topology& topology, std::span<const LinkDescription> links) {
  while (hosts_.size() < topology.hosts.size()) {
    add_host(topology, static_cast<std::uint32_t>(hosts_.size()));
  }
  while (switches_.size() < topology.switches.size()) {
    add_switch(topology, static_cast<std::uint32_t>(switches_.size()));
  }
  forwarding_.resize(nodes_.size());
  multicast_.resize(nodes_.size());
  forwarding_top_.resize(nodes_.size(), kNoIndex);
  for (const LinkDescription& link : links) {
    add_link(link);
  }
}

void TablesBuilder::remove_node(NodeIndex index) {
  NodeRecord& node = nodes_.at(index.value());
  for (std::uint32_t i = 0; i < node.port_count; ++i) {
    PortRecord& port = ports_.at(node.first_port.value() + i);
    if (port.peer != kNoPort) {
      PortRecord& peer = mutable_port(port.peer);
      peer.peer = kNoPort;
      peer.state = PortState::Down;
    }
    port.peer = kNoPort;
    port.state = PortState::Down;
    port.lid = Lid{};
  }
  forwarding_.at(index.value()).clear();
  multicast_.at(index.value()).clear();
  node.removed = 1;
}

std::optional<NodeIndex> TablesBuilder::find_node(std::string_view wanted) const {
  const auto found = std::ranges::find_if(
      nodes_, [&](const NodeRecord& node) { return !node.is_removed() && name(node) == wanted; });
  return found == nodes_.end()
             ? std::nullopt
             : std::optional{
                   NodeIndex{static_cast<std::uint32_t>(std::distance(nodes_.begin(), found))}};
}

std::uint32_t TablesBuilder::add_name(std::string_view name) {
  const auto offset = static_cast<std::uint32_t>(names_.size());
  names_.insert(names_.end(), name.begin(), name.end());
  return offset;
}

void TablesBuilder::add_host(const Topology& topology, std::uint32_t position) {
  const HostDescription& host = topology.hosts[position];
  const NodeIndex node_index{static_cast<std::uint32_t>(nodes_.size())};
  NodeRecord node;
  node.kind = NodeKind::Host;
  node.guid = guid_of(topology, {NodeKind::Host, position, 0, PortNumber{0}});
  node.name_offset = add_name(host.name);
  node.name_bytes = static_cast<std::uint32_t>(host.name.size());
  node.first_port = PortIndex{static_cast<std::uint32_t>(ports_.size())};
  node.first_hca = HcaIndex{static_cast<std::uint32_t>(hcas_.size())};
  node.hca_count = static_cast<std::uint32_t>(host.hcas.size());
  for (std::uint32_t i = 0; i < host.hcas.size(); ++i) {
    const HcaDescription& description = host.hcas[i];
    const HcaIndex hca_index{static_cast<std::uint32_t>(hcas_.size())};
    HcaRecord& hca = hcas_.emplace_back();
    EndPoint end{NodeKind::Host, position, static_cast<std::uint8_t>(i), PortNumber{0}};
    hca.guid = guid_of(topology, end);
    hca.system_image_guid = node.guid;
    hca.node = node_index;
    hca.name_offset = add_name(description.name);
    hca.name_bytes = static_cast<std::uint32_t>(description.name.size());
    hca.first_port = PortIndex{static_cast<std::uint32_t>(ports_.size())};
    hca.port_count = static_cast<std::uint32_t>(description.ports.size());
    for (std::uint32_t number = 1; number <= description.ports.size(); ++number) {
      const HcaPortDescription& port_description = description.ports[number - 1];
      PortRecord& port = ports_.emplace_back();
      port.number = end.port = PortNumber{static_cast<std::uint8_t>(number)};
      port.guid = guid_of(topology, end);
      port.node = node_index;
      port.hca = hca_index;
      port.lmc = port_description.lmc;
      port.link_type = description.link_type;
      port.max_mtu = port.active_mtu = port_description.max_mtu;
      pkeys_.push_back(port_description.pkeys);
      gids_.push_back({
          Gid{subnet_prefix_, port.guid}
      });
      ++node.port_count;
    }
  }
  nodes_.push_back(node);
  hosts_.push_back(node_index);
}

void TablesBuilder::add_switch(const Topology& topology, std::uint32_t position) {
  const SwitchDescription& description = topology.switches[position];
  const NodeIndex node_index{static_cast<std::uint32_t>(nodes_.size())};
  switches_.push_back(node_index);
  NodeRecord& node = nodes_.emplace_back();
  node.kind = NodeKind::Switch;
  node.guid = guid_of(topology, {NodeKind::Switch, position, 0, PortNumber{0}});
  node.name_offset = add_name(description.name);
  node.name_bytes = static_cast<std::uint32_t>(description.name.size());
  node.first_port = PortIndex{static_cast<std::uint32_t>(ports_.size())};
  node.port_count = description.port_count + 1U;
  node.first_hca = HcaIndex{static_cast<std::uint32_t>(hcas_.size())};
  for (std::uint32_t number = 0; number <= description.port_count; ++number) {
    PortRecord& port = ports_.emplace_back();
    port.guid = node.guid;  // IBTA vol 1 §14.2.5.3: all ports of a switch share its port GUID
    port.node = node_index;
    port.number = PortNumber{static_cast<std::uint8_t>(number)};
    port.link_type = description.link_type;
    const bool is_management_port = number == 0;
    pkeys_.push_back(is_management_port ? std::vector{kDefaultPKey} : std::vector<PKey>{});
    gids_.push_back(is_management_port ? std::vector{Gid{subnet_prefix_, port.guid}}
                                       : std::vector<Gid>{});
  }
}

void TablesBuilder::add_link(const LinkDescription& link) {
  const PortIndex a = port_of(link.a);
  const PortIndex b = port_of(link.b);
  mutable_port(a).peer = b;
  mutable_port(b).peer = a;
  const verbs::Mtu mtu = std::min(port(a).max_mtu, port(b).max_mtu);
  set_active_mtu(a, mtu);
  set_active_mtu(b, mtu);
  set_link(a, megabits(link.rate_gbps), link.delay);
}

PortIndex TablesBuilder::port_of(const EndPoint& end_point) const {
  if (end_point.kind == NodeKind::Switch) {
    const NodeRecord& node = nodes_.at(switches_.at(end_point.node).value());
    WEFT_ASSERT(end_point.port.value() < node.port_count, "the caller names what the fabric has");
    return PortIndex{node.first_port.value() + end_point.port.value()};
  }
  const NodeRecord& node = nodes_.at(hosts_.at(end_point.node).value());
  WEFT_ASSERT(end_point.hca < node.hca_count, "the caller names what the fabric has");
  const HcaRecord& hca = hcas_.at(node.first_hca.value() + end_point.hca);
  WEFT_ASSERT(end_point.port.value() >= 1 && end_point.port.value() <= hca.port_count,
              "the caller names what the fabric has");
  return PortIndex{hca.first_port.value() + end_point.port.value() - 1};
}

std::span<const PKey> TablesBuilder::pkeys(PortIndex port) const { return pkeys_.at(port.value()); }

std::span<const Gid> TablesBuilder::gids(PortIndex port) const { return gids_.at(port.value()); }

std::string_view TablesBuilder::name(const NodeRecord& node) const {
  return std::string_view{names_.data(), names_.size()}.substr(node.name_offset, node.name_bytes);
}

std::string_view TablesBuilder::name(const HcaRecord& hca) const {
  return std::string_view{names_.data(), names_.size()}.substr(hca.name_offset, hca.name_bytes);
}

void TablesBuilder::set_state(PortIndex port, PortState state) { mutable_port(port).state = state; }

void TablesBuilder::set_link_state(PortIndex port, PortState state) {
  const PortIndex peer = this->port(port).peer;
  if (peer != kNoPort) {
    set_state(port, state);
    set_state(peer, state);
  }
}

void TablesBuilder::set_lid(PortIndex port, Lid lid, std::uint8_t lmc) {
  WEFT_ASSERT(lmc <= kMaxLmc, "an LMC has three bits");
  WEFT_ASSERT(lid.value() % (1U << lmc) == 0, "the caller names what the fabric has");
  WEFT_ASSERT(lid == Lid{} || (lid.is_unicast() && Lid{lid.value() + (1U << lmc) - 1}.is_unicast()),
              "the caller names what the fabric has");
  mutable_port(port).lid = lid;
  mutable_port(port).lmc = lmc;
}

void TablesBuilder::set_subnet_manager(PortIndex port, Lid lid, ServiceLevel sl) {
  mutable_port(port).sm_lid = lid;
  mutable_port(port).sm_sl = sl;
}

void TablesBuilder::request_reregistration(PortIndex port) { ++mutable_port(port).reregistrations; }

void TablesBuilder::set_active_mtu(PortIndex port, verbs::Mtu mtu) {
  mutable_port(port).active_mtu = mtu;
}

void TablesBuilder::set_tapped(PortIndex port, bool tapped) {
  set_flag(port, PortFlag::Tapped, tapped);
}

void TablesBuilder::set_trusted(PortIndex port, bool trusted) {
  set_flag(port, PortFlag::Trusted, trusted);
}

void TablesBuilder::set_flag(PortIndex port, PortFlag flag, bool value) {
  Flags<PortFlag>& flags = mutable_port(port).flags;
  flags = value ? flags | flag : flags.without(flag);
}

void TablesBuilder::set_pkeys(PortIndex port, std::span<const PKey> pkeys) {
  ++port_changes_;
  WEFT_ASSERT(pkeys.size() <= kMaxPKeysPerPort, "the caller names what the fabric has");
  pkeys_.at(port.value()).assign(pkeys.begin(), pkeys.end());
}

void TablesBuilder::set_gids(PortIndex port, std::span<const Gid> gids) {
  ++port_changes_;
  WEFT_ASSERT(gids.size() <= 0xFFFF, "the caller names what the fabric has");
  gids_.at(port.value()).assign(gids.begin(), gids.end());
}

void TablesBuilder::set_port_guid(PortIndex port, Guid guid) { mutable_port(port).guid = guid; }

void TablesBuilder::set_node_guid(HcaIndex hca, Guid guid) {
  ++port_changes_;
  hcas_.at(hca.value()).guid = guid;
}

void TablesBuilder::set_link(PortIndex port, std::uint32_t rate_mbps, Duration delay) {
  const LinkEncoding encoding = encode_rate(rate_mbps);
  for (const PortIndex end : {port, this->port(port).peer}) {
    if (end != kNoPort) {
      mutable_port(end).delay_ns = delay.nanoseconds();
    }
  }
  set_link_speed(port, {.rate_mbps = rate_mbps,
                        .width = encoding.width,
                        .speed = encoding.speed,
                        .extended = encoding.extended});
}

void TablesBuilder::set_link_speed(PortIndex port, const LinkSpeed& speed) {
  for (const PortIndex end : {port, this->port(port).peer}) {
    if (end == kNoPort) {
      continue;
    }
    PortRecord& record = mutable_port(end);
    record.rate_mbps = speed.rate_mbps;
    record.active_width = speed.width;
    record.active_speed = speed.speed;
    record.active_speed_extended = speed.extended;
  }
}

void TablesBuilder::set_forwarding(NodeIndex switch_node, Lid lid, PortNumber port) {
  WEFT_ASSERT(lid.is_unicast(), "the caller names what the fabric has");
  WEFT_ASSERT(port == kNoRoute || port.value() < node(switch_node).port_count,
              "the caller names what the fabric has");
  WEFT_ASSERT(node(switch_node).kind == NodeKind::Switch, "the caller names what the fabric has");
  std::vector<std::uint8_t>& table = forwarding_[switch_node.value()];
  if (lid.value() >= table.size()) {
    if (port == kNoRoute) {
      return;
    }
    table.resize(lid.value() + 1, kNoRoute.value());
  }
  table[lid.value()] = port.value();
}

void TablesBuilder::clear_forwarding(NodeIndex switch_node) {
  forwarding_.at(switch_node.value()).clear();
  nodes_[switch_node.value()].forwarding_first = 0;
}

void TablesBuilder::set_multicast(NodeIndex switch_node, Lid mlid, PortNumber port, bool forward) {
  WEFT_ASSERT(mlid.is_multicast(), "the caller names what the fabric has");
  set_group_port(switch_node, mlid.value() - kFirstMlid, port, forward);
}

void TablesBuilder::set_group_port(NodeIndex switch_node, std::uint32_t group, PortNumber port,
                                   bool forward) {
  const NodeRecord& record = node(switch_node);
  WEFT_ASSERT(record.kind == NodeKind::Switch, "the caller names what the fabric has");
  WEFT_ASSERT(port.value() < record.port_count, "the caller names what the fabric has");
  std::vector<std::uint8_t>& table = multicast_[switch_node.value()];
  const std::size_t begin = std::size_t{group} * record.mask_bytes();
  if (begin >= table.size()) {
    if (!forward) {
      return;
    }
    table.resize(begin + record.mask_bytes());
  }
  std::uint8_t& byte = table[begin + port.value() / 8];
  const auto bit = static_cast<std::uint8_t>(1U << port.value() % 8);
  byte = static_cast<std::uint8_t>(forward ? byte | bit : byte & ~bit);
}

void TablesBuilder::clear_multicast(NodeIndex switch_node, Lid mlid) {
  const NodeRecord& record = node(switch_node);
  std::vector<std::uint8_t>& table = multicast_[switch_node.value()];
  const std::size_t begin = std::size_t{mlid.value() - kFirstMlid} * record.mask_bytes();
  if (begin < table.size()) {
    std::fill_n(table.begin() + static_cast<std::ptrdiff_t>(begin), record.mask_bytes(),
                std::uint8_t{0});
  }
}

void TablesBuilder::set_faults(std::vector<FaultRecord> faults) {
  WEFT_ASSERT(faults.size() <= kMaxFaultRecords, "rules of faults are counted when they are added");
  faults_ = std::move(faults);
  ++fault_changes_;
}

void TablesBuilder::set_management_levels(PortIndex port, std::uint16_t levels) {
  auto at = std::ranges::lower_bound(management_levels_, port, {}, &ManagementLevelsRecord::port);
  if (at != management_levels_.end() && at->port == port) {
    at = management_levels_.erase(at);
  }
  if (levels != 0) {
    management_levels_.insert(at, {.port = port, .levels = levels});
  }
}

void TablesBuilder::lend_slots(const SlotLoanRecord& loan) {
  const auto at = std::ranges::lower_bound(slot_loans_, loan_key(loan), {}, &loan_key);
  WEFT_ASSERT(loan.first_slot % kSlotsPerLoan == 0, "slots are lent in blocks");
  WEFT_ASSERT(at == slot_loans_.end() || loan_key(*at) != loan_key(loan),
              "a slot is lent to one at a time");
  slot_loans_.insert(at, loan);
}

void TablesBuilder::take_back_slots(NodeIndex lender, std::uint32_t first_slot) {
  const std::pair wanted{lender, first_slot};
  const auto at = std::ranges::lower_bound(slot_loans_, wanted, {}, &loan_key);
  WEFT_ASSERT(at != slot_loans_.end() && loan_key(*at) == wanted, "the slots are lent");
  slot_loans_.erase(at);
}

std::vector<std::byte> TablesBuilder::build(std::uint64_t generation) const {
  std::vector<NodeRecord> nodes = nodes_;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].forwarding_count = static_cast<std::uint32_t>(
        std::min<std::size_t>(forwarding_[i].size(), std::size_t{forwarding_top_[i]} + 1));
    nodes[i].multicast_count =
        multicast_[i].empty()
            ? 0
            : static_cast<std::uint32_t>(multicast_[i].size() / nodes[i].mask_bytes());
  }
  const auto forwarding = pool_tables(nodes, forwarding_, &NodeRecord::forwarding_offset);
  const auto multicast = pool_tables(nodes, multicast_, &NodeRecord::multicast_offset);

  std::vector<PortRecord> ports = ports_;
  PKeyPool pkeys;
  std::vector<Gid> gids;
  std::vector<PortIndex> gid_owners;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    ports[i].first_pkey = pkeys.add(pkeys_[i]);
    ports[i].pkey_count = static_cast<std::uint16_t>(pkeys_[i].size());
    ports[i].first_gid = static_cast<std::uint32_t>(gids.size());
    ports[i].gid_count = static_cast<std::uint16_t>(gids_[i].size());
    gids.insert(gids.end(), gids_[i].begin(), gids_[i].end());
    gid_owners.insert(gid_owners.end(), gids_[i].size(), PortIndex{static_cast<std::uint32_t>(i)});
  }

  const std::vector<std::uint32_t> gid_order = sorted_by_gid(gids);
  const std::vector<PortIndex> lid_owners = owners_by_lid(ports);
  ImageWriter image;
  image.section<NodeRecord>(SectionId::Nodes, nodes);
  image.section<HcaRecord>(SectionId::Hcas, hcas_);
  image.section<PortRecord>(SectionId::Ports, ports);
  image.section<Gid>(SectionId::Gids, gids);
  image.section<PortIndex>(SectionId::GidOwners, gid_owners);
  image.section<std::uint32_t>(SectionId::GidOrder, gid_order);
  image.section<PKey>(SectionId::PKeys, pkeys.pool());
  image.section<PortIndex>(SectionId::LidOwners, lid_owners);
  image.section<char>(SectionId::Names, names_);
  image.section<std::uint8_t>(SectionId::Forwarding, forwarding);
  image.section<std::uint8_t>(SectionId::Multicast, multicast);
  image.section<FaultRecord>(SectionId::Faults, faults_);
  image.section<SlotLoanRecord>(SectionId::SlotLoans, slot_loans_);
  image.section<ManagementLevelsRecord>(SectionId::ManagementLevels, management_levels_);
  return image.finish(generation, subnet_prefix_);
}

}  // namespace weft::fabric
