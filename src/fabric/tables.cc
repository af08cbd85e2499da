#include "fabric/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/assert.h"
#include "base/process_slot.h"
#include "fabric/tables_image.h"
#include "verbs/mtu.h"

namespace weft::fabric {
namespace {

/// A sequence of records in foreign memory: implicit-lifetime types in storage that the caller
/// guarantees to be aligned. The only place where bytes become records.
template <class T>
std::span<const T> records_at(ByteSpan bytes, std::uint64_t offset, std::uint64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count == 0) {
    return {};
  }
  const void* first = bytes.data() + offset;
  return {static_cast<const T*>(first), count};
}

/// True if `count` elements from `first` lie within `size`, without overflow.
bool is_within(std::uint64_t first, std::uint64_t count, std::uint64_t size) {
  return first <= size && count <= size - first;
}

bool is_aligned(const std::byte* address) {
  return std::bit_cast<std::uintptr_t>(address) % alignof(ImageHeader) == 0;
}

std::unexpected<Error> malformed(std::string_view what) {
  return fail(ErrorCode::Io, "fabric tables are malformed: {}", what);
}

}  // namespace

/// Validates an image from the outside in: header, sections, then each record.
class TablesValidator {
 public:
  explicit TablesValidator(ByteSpan bytes) : bytes_(bytes) {}

  Result<TablesView> run() {
    if (bytes_.size() < sizeof(ImageHeader) || !is_aligned(bytes_.data())) {
      return malformed("shorter than their head, or not aligned");
    }
    copy_bytes(std::as_writable_bytes(std::span{&header_, 1}), bytes_.first(sizeof(ImageHeader)));
    if (header_.magic != kImageMagic || header_.version != kImageVersion) {
      return malformed("they are none, or of another version of Weft");
    }
    if (header_.image_bytes > bytes_.size()) {
      return malformed("cut short");
    }
    bytes_ = bytes_.first(header_.image_bytes);
    view_.generation_ = header_.generation;
    view_.subnet_prefix_ = header_.subnet_prefix;
    if (!take_sections()) {
      return malformed("a section lies outside");
    }
    if (!check_records()) {
      return malformed("a record names what does not exist");
    }
    return view_;
  }

 private:
  template <class T>
  bool take(SectionId id, std::span<const T>& target) {
    const Section& section = header_.sections[static_cast<std::size_t>(id)];
    if (section.offset % 8 != 0 || section.offset > bytes_.size() ||
        section.count > (bytes_.size() - section.offset) / sizeof(T) || section.count >= kNoIndex) {
      return false;
    }
    target = records_at<T>(bytes_, section.offset, section.count);
    return true;
  }

  bool take_sections() {
    return take(SectionId::Nodes, view_.nodes_) && take(SectionId::Hcas, view_.hcas_) &&
           take(SectionId::Ports, view_.ports_) && take(SectionId::Gids, view_.gids_) &&
           take(SectionId::GidOwners, view_.gid_owners_) &&
           take(SectionId::GidOrder, view_.gid_order_) && take(SectionId::PKeys, view_.pkeys_) &&
           take(SectionId::LidOwners, view_.lid_owners_) && take(SectionId::Names, view_.names_) &&
           take(SectionId::Forwarding, view_.forwarding_) &&
           take(SectionId::Multicast, view_.multicast_) && take(SectionId::Faults, view_.faults_) &&
           take(SectionId::SlotLoans, view_.slot_loans_) &&
           take(SectionId::ManagementLevels, view_.management_levels_);
  }

  bool check_records() {
    return std::ranges::all_of(view_.nodes_, [&](const auto& node) { return is_active(node); }) &&
           std::ranges::all_of(view_.hcas_, [&](const auto& hca) { return is_active(hca); }) &&
           std::ranges::all_of(view_.ports_, [&](const auto& port) { return is_active(port); }) &&
           std::ranges::all_of(view_.lid_owners_,
                               [&](auto port) { return is_port_or_none(port); }) &&
           view_.faults_.size() <= kMaxFaultRecords &&
           std::ranges::all_of(view_.faults_,
                               [&](const auto& fault) { return is_active(fault); }) &&
           view_.gid_owners_.size() == view_.gids_.size() &&
           view_.gid_order_.size() == view_.gids_.size() &&
           std::ranges::all_of(view_.gid_owners_, [&](auto port) { return is_port(port); }) &&
           std::ranges::all_of(view_.gid_order_,
                               [&](auto at) { return at < view_.gids_.size(); }) &&
           std::ranges::all_of(view_.slot_loans_,
                               [&](const auto& loan) { return is_active(loan); }) &&
           are_ports_numbered();
  }

  [[nodiscard]] bool is_port(PortIndex port) const { return port.value() < view_.ports_.size(); }
  [[nodiscard]] bool is_port_or_none(PortIndex port) const {
    return port == kNoPort || is_port(port);
  }

  [[nodiscard]] bool is_active(const NodeRecord& node) const {
    const bool is_switch = node.kind == NodeKind::Switch;
    const bool is_host = node.kind == NodeKind::Host;
    return is_within(node.first_port.value(), node.port_count, view_.ports_.size()) &&
           is_within(node.first_hca.value(), node.hca_count, view_.hcas_.size()) &&
           is_within(node.name_offset, node.name_bytes, view_.names_.size()) &&
           is_within(node.forwarding_offset, node.forwarding_count, view_.forwarding_.size()) &&
           is_within(node.multicast_offset, std::uint64_t{node.multicast_count} * node.mask_bytes(),
                     view_.multicast_.size()) &&
           ((is_switch && node.hca_count == 0 && node.port_count >= 1 &&
             node.port_count <= kMaxPortsPerSwitch + 1) ||
            (is_host && node.hca_count >= 1 && node.port_count >= 1 &&
             node.port_count <= kMaxHcasPerHost * kMaxPortsPerHca && node.forwarding_count == 0 &&
             node.multicast_count == 0));
  }

  [[nodiscard]] bool is_active(const HcaRecord& hca) const {
    return hca.node.value() < view_.nodes_.size() && hca.port_count >= 1 &&
           hca.port_count <= kMaxPortsPerHca &&
           is_within(hca.first_port.value(), hca.port_count, view_.ports_.size()) &&
           is_within(hca.name_offset, hca.name_bytes, view_.names_.size());
  }

  [[nodiscard]] bool is_active(const PortRecord& port) const {
    const auto state = static_cast<std::uint8_t>(port.state);
    const auto is_mtu = [](verbs::Mtu mtu) {
      return mtu >= verbs::Mtu::Mtu256 && mtu <= verbs::Mtu::Mtu4096;
    };
    return port.node.value() < view_.nodes_.size() && state >= 1 && state <= 4 &&
           is_mtu(port.max_mtu) && is_mtu(port.active_mtu) && port.lmc <= kMaxLmc &&
           port.delay_ns >= 0 && port.delay_ns <= Duration::seconds(1).nanoseconds() &&
           port.link_type >= LinkType::InfiniBand && port.link_type <= LinkType::OmniPath &&
           is_within(port.first_gid, port.gid_count, view_.gids_.size()) &&
           is_within(port.first_pkey, port.pkey_count, view_.pkeys_.size()) &&
           (port.hca == kNoHca || port.hca.value() < view_.hcas_.size()) &&
           (port.peer == kNoPort || is_port(port.peer));
  }

  [[nodiscard]] bool is_active(const FaultRecord& fault) const {
    return fault.kind >= FaultKind::Drop && fault.kind < FaultKind::Down && fault.every >= 1 &&
           fault.parts_per_million <= FaultDescription::kAlways && fault.slot < kMaxFaultRules &&
           fault.hold_ns >= 0 && fault.hold() <= FaultDescription::kLongestHold &&
           is_port_or_none(fault.egress);
  }

  [[nodiscard]] bool is_active(const SlotLoanRecord& loan) const {
    return loan.lender.value() < view_.nodes_.size() && is_port(loan.borrower) &&
           loan.first_slot % kSlotsPerLoan == 0 && loan.first_slot < kSlotCount;
  }

  /// Checks that ports, HCAs and nodes agree on their owners, and that cables have two ends. This
  /// allows everyone to follow indices without checks.
  [[nodiscard]] bool are_ports_numbered() const {
    std::uint64_t expected_port = 0;
    for (std::size_t i = 0; i < view_.nodes_.size(); ++i) {
      const NodeRecord& node = view_.nodes_[i];
      const NodeIndex index{static_cast<std::uint32_t>(i)};
      if (node.first_port.value() != expected_port || !are_numbered(node, index)) {
        return false;
      }
      expected_port += node.port_count;
    }
    for (std::size_t i = 0; i < view_.ports_.size(); ++i) {
      const PortIndex peer = view_.ports_[i].peer;
      if (peer != kNoPort && (peer.value() == i || view_.ports_[peer.value()].peer.value() != i)) {
        return false;
      }
    }
    return expected_port == view_.ports_.size();
  }

  [[nodiscard]] bool are_numbered(const NodeRecord& node, NodeIndex index) const {
    if (node.kind == NodeKind::Switch) {
      for (std::uint32_t number = 0; number < node.port_count; ++number) {
        const PortRecord& port = view_.ports_[node.first_port.value() + number];
        if (port.node != index || port.number.value() != number || port.hca != kNoHca) {
          return false;
        }
      }
      return true;
    }
    std::uint64_t expected_port = node.first_port.value();
    for (std::uint32_t i = 0; i < node.hca_count; ++i) {
      const HcaIndex hca_index{node.first_hca.value() + i};
      const HcaRecord& hca = view_.hcas_[hca_index.value()];
      if (hca.node != index || hca.first_port.value() != expected_port) {
        return false;
      }
      for (std::uint32_t number = 1; number <= hca.port_count; ++number) {
        const PortRecord& port = view_.ports_[expected_port++];
        if (port.node != index || port.number.value() != number || port.hca != hca_index) {
          return false;
        }
      }
    }
    return expected_port == std::uint64_t{node.first_port.value()} + node.port_count;
  }

  ByteSpan bytes_;
  ImageHeader header_;
  TablesView view_;
};

Result<TablesView> TablesView::open(ByteSpan bytes) { return TablesValidator{bytes}.run(); }

const NodeRecord& TablesView::node(NodeIndex index) const {
  WEFT_DEBUG_ASSERT(index.value() < nodes_.size(), "the index is of this image");
  return nodes_[index.value()];
}

const HcaRecord& TablesView::hca(HcaIndex index) const {
  WEFT_DEBUG_ASSERT(index.value() < hcas_.size(), "the index is of this image");
  return hcas_[index.value()];
}

const PortRecord& TablesView::port(PortIndex index) const {
  WEFT_DEBUG_ASSERT(index.value() < ports_.size(), "the index is of this image");
  return ports_[index.value()];
}

std::string_view TablesView::name(const NodeRecord& node) const {
  return {names_.data() + node.name_offset, node.name_bytes};
}

std::string_view TablesView::name(const HcaRecord& hca) const {
  return {names_.data() + hca.name_offset, hca.name_bytes};
}

std::span<const Gid> TablesView::gids(const PortRecord& port) const {
  return gids_.subspan(port.first_gid, port.gid_count);
}

std::span<const PKey> TablesView::pkeys(const PortRecord& port) const {
  return pkeys_.subspan(port.first_pkey, port.pkey_count);
}

std::span<const HcaRecord> TablesView::hcas_of(const NodeRecord& node) const {
  return hcas_.subspan(node.first_hca.value(), node.hca_count);
}

std::span<const PortRecord> TablesView::ports_of(const NodeRecord& node) const {
  return ports_.subspan(node.first_port.value(), node.port_count);
}

std::span<const PortRecord> TablesView::ports_of(const HcaRecord& hca) const {
  return ports_.subspan(hca.first_port.value(), hca.port_count);
}

std::optional<NodeIndex> TablesView::find_node(std::string_view wanted) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].is_removed() && name(nodes_[i]) == wanted) {
      return NodeIndex{static_cast<std::uint32_t>(i)};
    }
  }
  return std::nullopt;
}

std::optional<PortIndex> TablesView::find_port(NodeIndex index, PortNumber number,
                                               std::uint32_t hca_position) const {
  const NodeRecord& record = node(index);
  if (record.kind == NodeKind::Switch) {
    if (hca_position != 0 || number.value() >= record.port_count) {
      return std::nullopt;
    }
    return PortIndex{record.first_port.value() + number.value()};
  }
  if (hca_position >= record.hca_count) {
    return std::nullopt;
  }
  const HcaRecord& owner = hcas_[record.first_hca.value() + hca_position];
  if (number.value() == 0 || number.value() > owner.port_count) {
    return std::nullopt;
  }
  return PortIndex{owner.first_port.value() + number.value() - 1};
}

PortIndex TablesView::owner_of(Lid lid) const {
  return lid.value() < lid_owners_.size() ? lid_owners_[lid.value()] : kNoPort;
}

PortIndex TablesView::owner_of(const Gid& gid) const {
  const auto end =
      std::ranges::upper_bound(gid_order_, gid, {}, [&](std::uint32_t at) { return gids_[at]; });
  if (end == gid_order_.begin()) {
    return kNoPort;
  }
  const std::uint32_t last = *std::prev(end);
  return gids_[last] == gid ? gid_owners_[last] : kNoPort;
}

PortIndex TablesView::borrower_of(NodeIndex lender, std::uint32_t slot) const {
  const std::pair wanted{lender, slot - slot % kSlotsPerLoan};
  const auto loan = std::ranges::lower_bound(slot_loans_, wanted, {}, &loan_key);
  return loan != slot_loans_.end() && loan_key(*loan) == wanted ? loan->borrower : kNoPort;
}

bool TablesView::is_management_level(PortIndex port, ServiceLevel sl) const {
  const auto found =
      std::ranges::lower_bound(management_levels_, port, {}, &ManagementLevelsRecord::port);
  return found != management_levels_.end() && found->port == port &&
         (found->levels >> sl.value() & 1) != 0;
}

/// A position below the table's first one has wrapped, and lies behind its end.
PortNumber TablesView::entry(const NodeRecord& node, std::uint32_t position) const {
  if (position >= node.forwarding_count) {
    return kNoRoute;
  }
  return PortNumber{forwarding_[node.forwarding_offset + position]};
}

PortNumber TablesView::forward(const NodeRecord& node, Lid dlid) const {
  return entry(node, dlid.value());
}

PortNumber TablesView::forward(NodeIndex switch_node, ExtendedLid dlid) const {
  const NodeRecord& record = node(switch_node);
  return entry(record, dlid.value() - record.forwarding_first);
}

bool TablesView::is_in_mask(const NodeRecord& node, std::uint32_t position, PortNumber port) const {
  if (position >= node.multicast_count || port.value() >= node.port_count) {
    return false;
  }
  const std::uint64_t at =
      node.multicast_offset + std::uint64_t{position} * node.mask_bytes() + port.value() / 8U;
  return (multicast_[at] >> port.value() % 8 & 1) != 0;
}

bool TablesView::forwards_multicast(const NodeRecord& node, Lid mlid, PortNumber port) const {
  return mlid.is_multicast() && is_in_mask(node, mlid.value() - kFirstMlid, port);
}

bool TablesView::forwards_multicast(NodeIndex switch_node, ExtendedLid mlid,
                                    PortNumber port) const {
  return mlid.is_multicast() &&
         is_in_mask(node(switch_node), mlid.value() - ExtendedLid::kFirstGroup, port);
}

verbs::PortAttributes attributes_of(const PortRecord& port, std::span<const Gid> gids,
                                    std::span<const PKey> pkeys) {
  return {
      .state = port.is_omni_path() ? PortState::Down : port.state,
      .lid = port.is_omni_path() ? Lid{}
          : port.lid,
      .lmc = port.lmc,
      .sm_lid = port.sm_lid,
      .sm_sl = port.sm_sl,
      .max_mtu = port.max_mtu,
      .active_mtu = port.active_mtu,
      .active_width = port.active_width,
      .active_speed = port.active_speed,
      .gids = {gids.begin(), gids.end()},
      .pkeys = {pkeys.begin(), pkeys.end()}
  };
}

std::string port_name(const TablesView& view, PortIndex index) {
  if (index == kNoPort) {
    return "no port";
  }
  const PortRecord& port = view.port(index);
  const NodeRecord& node = view.node(port.node);
  if (port.is_switch_port() || port.hca == node.first_hca) {
    return fmt::format("{}:{}", view.name(node), port.number.value());
  }
  return fmt::format("{}/{}:{}", view.name(node), view.name(view.hca(port.hca)),
                     port.number.value());
}

/// In decimal as ever for InfiniBand, and in hex for Omni-Path, as its tools have LIDs.
std::string lid_text(const PortRecord& port) {
  return port.is_omni_path() ? fmt::format("{:#08x}", port.lid.value())
                             : fmt::format("{}", port.lid.value());
}

namespace {

/// Nothing for InfiniBand, which is the usual.
std::string kind_text(const TablesView& view, PortIndex first) {
  const LinkType type = view.port(first).link_type;
  return type == LinkType::InfiniBand ? std::string{} : fmt::format(" {}", name_of(type));
}

void show_port(std::string& text, const TablesView& view, const PortRecord& port) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "    port {} {}", port.number.value(), name_of(port.state));
  if (port.lid != Lid{}) {
    fmt::format_to(out, " LID {}", lid_text(port));
    if (port.lmc != 0) {
      fmt::format_to(out, "..{} LMC {}", port.lid.value() + (1U << port.lmc) - 1, port.lmc);
    }
  }
  if (port.is_tapped()) {
    text += " tapped";
  }
  if (port.is_trusted()) {
    text += " trusted";
  }
  if (port.peer != kNoPort) {
    fmt::format_to(out, " -> {}", port_name(view, port.peer));
    if (port.rate_mbps != 0) {
      fmt::format_to(out, ", {} Gb/s", port.rate_mbps / 1000.0);
    }
    if (port.delay_ns != 0) {
      fmt::format_to(out, ", {} ns", port.delay_ns);
    }
  } else if (!port.is_switch_port() || port.number != PortNumber{}) {
    text += " -> no cable";
  }
  text += '\n';
}

}  // namespace

std::string show(const TablesView& view) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "generation {}, subnet prefix {:#018x}\n", view.generation(),
                 view.subnet_prefix());
  for (const NodeRecord& node : view.nodes()) {
    if (node.kind == NodeKind::Switch) {
      fmt::format_to(out, "switch {} node GUID {:#018x}{}\n", view.name(node), node.guid.value(),
                     kind_text(view, node.first_port));
      for (const PortRecord& port : view.ports_of(node)) {
        show_port(text, view, port);
      }
      continue;
    }
    fmt::format_to(out, "host {}\n", view.name(node));
    for (const HcaRecord& hca : view.hcas_of(node)) {
      fmt::format_to(out, "  {} node GUID {:#018x}{}\n", view.name(hca), hca.guid.value(),
                     kind_text(view, hca.first_port));
      for (const PortRecord& port : view.ports_of(hca)) {
        show_port(text, view, port);
      }
    }
  }
  return text;
}

}  // namespace weft::fabric
