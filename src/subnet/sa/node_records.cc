#include "subnet/sa/node_records.h"

#include <algorithm>

#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

/// Extracts the LID of a query and clears its mask bit, since each LID of a port matches the port.
template <wire::WireType T, wire::Name kFieldName>
[[nodiscard]] std::optional<Lid> take_lid(const SaQuery& query, Lid lid, std::uint64_t& mask) {
  const bool is_named = query.has<T, kFieldName>();
  mask &= ~wire::kComponent<T, kFieldName>;
  return is_named ? std::optional{lid} : std::nullopt;
}

template <wire::WireType T>
void add_if(const ComponentMatcher<T>& matcher, const T& record, SaAnswer& answer) {
  const auto bytes = wire::pack(record);
  if (matcher.matches(bytes)) {
    answer.add(bytes);
  }
}

}  // namespace

void answer_node_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::NodeRecord;
  const auto wanted = query.record<Record>();
  std::uint64_t mask = query.mask();
  const auto lid = take_lid<Record, "LID">(query, wanted.lid, mask);
  const ComponentMatcher<Record> matcher{wanted, mask};
  query.for_each_end_port(lid, answer, [&](PortId id) {
    const SubnetNode& node = query.subnet().node(id.node);
    const SubnetPort& port = query.subnet().port(id);
    Record record{
        .lid = port.info.lid, .node_info = node.info, .node_description = node.description};
    record.node_info.port_guid = port.guid;
    record.node_info.local_port = id.number;
    add_if(matcher, record, answer);
  });
}

void answer_port_info_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::PortInfoRecord;
  // §15.2.5.3: with these AttributeModifier bits, a port must have at least the given capabilities.
  constexpr std::uint32_t kCapabilitiesAtLeast = 1U << 31;
  constexpr std::uint32_t kCapabilities2AtLeast = 1U << 30;
  constexpr auto kCapabilities = wire::kComponent<Record, "CapabilityMask">;
  const auto wanted = query.record<Record>();
  std::uint64_t mask = query.mask() & ~wire::kComponent<Record, "Options">;
  const auto lid = take_lid<Record, "LID">(query, wanted.lid, mask);
  const std::uint32_t modifier = query.header.header.attribute_modifier;
  const bool at_least =
      (modifier & kCapabilitiesAtLeast) != 0 && query.has<Record, "CapabilityMask">();
  const bool at_least2 =
      (modifier & kCapabilities2AtLeast) != 0 && query.has<Record, "CapabilityMask2">();
  mask &= ~(at_least ? kCapabilities : 0);
  mask &= ~(at_least2 ? wire::kComponent<Record, "CapabilityMask2"> : 0);
  const ComponentMatcher<Record> matcher{wanted, mask};
  const wire::PortInfo& least = wanted.port_info;
  const auto add = [&](const SubnetPort& port, Lid base) {
    Record record{.lid = base, .port = port.number, .options = 0, .port_info = port.info};
    if (!query.is_trusted) {
      record.port_info.mkey = 0;  // §15.4.1.2
    }
    if ((!at_least || port.info.capability_mask.has_all(least.capability_mask)) &&
        (!at_least2 || port.info.capability_mask2.has_all(least.capability_mask2))) {
      add_if(matcher, record, answer);
    }
  };
  query.for_each_end_port(lid, answer, [&](PortId id) {
    const SubnetNode& node = query.subnet().node(id.node);
    const Lid base = query.subnet().port(id).info.lid;
    if (!node.is_switch()) {
      return add(query.subnet().port(id), base);
    }
    for (const SubnetPort& port : node.ports) {
      add(port, base);
    }
  });
}

void answer_switch_info_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::SwitchInfoRecord;
  const auto wanted = query.record<Record>();
  std::uint64_t mask = query.mask();
  const auto lid = take_lid<Record, "LID">(query, wanted.lid, mask);
  const ComponentMatcher<Record> matcher{wanted, mask};
  query.for_each_end_port(lid, answer, [&](PortId id) {
    const SubnetNode& node = query.subnet().node(id.node);
    if (node.switch_info) {
      add_if(matcher,
             Record{.lid = query.subnet().port(id).info.lid, .switch_info = *node.switch_info},
             answer);
    }
  });
}

void answer_guid_info_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::GuidInfoRecord;
  const auto wanted = query.record<Record>();
  std::uint64_t mask = query.mask();
  const auto lid = take_lid<Record, "LID">(query, wanted.lid, mask);
  const ComponentMatcher<Record> matcher{wanted, mask};
  query.for_each_end_port(lid, answer, [&](PortId id) {
    const SubnetPort& port = query.subnet().port(id);
    const std::size_t guids = std::max<std::size_t>({port.info.guid_cap, port.guids.size(), 1});
    for (std::size_t first = 0; first < guids; first += wire::GuidInfo{}.guids.size()) {
      Record record{.lid = port.info.lid,
                    .block = static_cast<std::uint8_t>(first / wire::GuidInfo{}.guids.size())};
      for (std::size_t i = 0; i < record.guid_info.guids.size(); ++i) {
        if (first + i < port.guids.size()) {
          record.guid_info.guids[i] = port.guids[first + i];
        }
      }
      if (first == 0) {
        record.guid_info.guids[0] = port.guid;
      }
      add_if(matcher, record, answer);
    }
  });
}

void answer_sm_info_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::SmInfoRecord;
  const auto wanted = query.record<Record>();
  std::uint64_t mask = query.mask();
  const auto lid = take_lid<Record, "LID">(query, wanted.lid, mask);
  const ComponentMatcher<Record> matcher{wanted, mask};
  const auto add = [&](PortId id, wire::SmInfo info) {
    if (!query.subnet().contains(id.node) || !query.can_see(id) ||
        (lid && !query.subnet().port(id).owns(*lid))) {
      return;
    }
    info.sm_key = 0;  // §15.2.5.10: never disclosed
    add_if(matcher, Record{.lid = query.subnet().port(id).info.lid, .sm_info = info}, answer);
  };
  add(query.control.sm_port(), query.control.sm_info());
  for (const SubnetControl::OtherManager& other : query.control.other_managers()) {
    add(other.port, other.info);
  }
}

void answer_link_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::LinkRecord;
  const auto wanted = query.record<Record>();
  const Subnet& subnet = query.subnet();
  std::uint64_t mask = query.mask();
  const auto from = take_lid<Record, "FromLID">(query, wanted.from_lid, mask);
  const auto to = take_lid<Record, "ToLID">(query, wanted.to_lid, mask);
  const ComponentMatcher<Record> matcher{wanted, mask};
  /// The port that has the LID of the node at one end of a link.
  const auto end_port = [&](PortId id) {
    return subnet.node(id.node).is_switch() ? PortId{id.node, PortNumber{}} : id;
  };
  const auto add = [&](PortId near) {
    const PortId far = subnet.port(near).peer;
    if (!subnet.contains(far.node) || !query.can_see(end_port(far))) {
      return;
    }
    const SubnetPort& far_end = subnet.port(end_port(far));
    if (far_end.info.lid != Lid{} && (!to || far_end.owns(*to))) {
      add_if(matcher,
             Record{.from_lid = subnet.port(end_port(near)).info.lid,
                    .from_port = near.number,
                    .to_port = far.number,
                    .to_lid = far_end.info.lid},
             answer);
    }
  };
  query.for_each_end_port(from, answer, [&](PortId id) {
    if (!subnet.node(id.node).is_switch()) {
      return add(id);
    }
    for (std::size_t i = 1; i < subnet.node(id.node).ports.size(); ++i) {
      add({id.node, PortNumber{static_cast<std::uint8_t>(i)}});
    }
  });
}

}  // namespace weft::subnet
