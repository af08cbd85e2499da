// Attributes in blocks, which the AttributeModifier selects (IBTA vol 1 §14.2.5.5 to §14.2.5.12).

#include <algorithm>

#include "agents/fabric_agents.h"
#include "wire/mad/forwarding_tables.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;

namespace {

constexpr std::size_t kPKeysPerBlock = 32;
constexpr std::size_t kGuidsPerBlock = 8;
constexpr std::uint32_t kFirstMlid = 0xC000;

template <wire::WireType T>
[[nodiscard]] std::span<std::byte, wire::kSizeOf<T>> front_of(
    std::span<std::byte, wire::kSmpDataBytes> data) {
  return data.first<wire::kSizeOf<T>>();
}

std::uint16_t refuse_block(std::span<std::byte, wire::kSmpDataBytes> data) {
  std::ranges::fill(data, std::byte{});
  return wire::kMadStatusInvalidField;
}

/// Default mapping (policy): each SL to the data lane of the same number, modulo their number.
[[nodiscard]] wire::SlToVlMappingTable default_sl_to_vl() {
  wire::SlToVlMappingTable table;
  for (std::uint8_t sl = 0; sl < table.vls.size(); ++sl) {
    table.vls[sl] = VirtualLane{sl};
  }
  table.vls[15] = VirtualLane{7};  // VL15 is reserved for subnet management
  return table;
}

constexpr VirtualLane kManagementLane{15};

/// The service levels that are mapped to a lane, bit n for level n.
[[nodiscard]] std::uint16_t levels_on(VirtualLane lane, const wire::SlToVlMappingTable& table) {
  std::uint16_t levels = 0;
  for (std::size_t sl = 0; sl < table.vls.size(); ++sl) {
    levels |= static_cast<std::uint16_t>(table.vls[sl] == lane ? 1U << sl : 0U);
  }
  return levels;
}

/// Default arbitration (policy, the same as ibsim's): all data lanes in turn, starting with VL0.
[[nodiscard]] std::array<wire::VlArbitrationTable, 4> default_arbitration() {
  constexpr std::uint8_t kWeight = 4;
  std::array<wire::VlArbitrationTable, 4> tables{};
  for (std::uint8_t vl = 0; vl < kVlArbitrationCap; ++vl) {
    const std::uint8_t low = vl == 0 ? std::uint8_t{0} : kWeight;
    const std::uint8_t high = vl == 0 ? kWeight : std::uint8_t{0};
    tables[0].entries[vl] = {.vl = VirtualLane{vl}, .weight = low};
    tables[2].entries[vl] = {.vl = VirtualLane{vl}, .weight = high};
  }
  return tables;
}

}  // namespace

// --- P_KeyTable: block in bits 15 to 0, a switch's port in bits 31 to 16 (§14.2.5.7). Of a switch
// only port 0 has a table, since PartitionEnforcementCap is 0.

std::uint16_t FabricAgents::get_pkey_table(Request& request) {
  const std::uint32_t block = request.modifier & 0xFFFF;
  const bool is_of_switch = tables_.port(request.own).is_switch_port();
  if (block >= kPartitionCap / kPKeysPerBlock || (is_of_switch && request.modifier >> 16 != 0)) {
    return refuse_block(request.data);
  }
  const auto pkeys = tables_.pkeys(request.own);
  wire::PKeyTable table;
  for (std::size_t i = 0; i < table.pkeys.size(); ++i) {
    const std::size_t at = block * kPKeysPerBlock + i;
    table.pkeys[i] = at < pkeys.size() ? pkeys[at] : PKey{};
  }
  wire::pack(table, request.data);
  return 0;
}

std::uint16_t FabricAgents::set_pkey_table(Request& request) {
  const auto wanted = wire::unpack<wire::PKeyTable>(request.data);
  const std::uint32_t block = request.modifier & 0xFFFF;
  if (const std::uint16_t status = get_pkey_table(request); status != 0) {
    return status;
  }
  const auto before = tables_.pkeys(request.own);
  std::vector<PKey> pkeys(before.begin(), before.end());
  pkeys.resize(std::max(pkeys.size(), (block + 1) * kPKeysPerBlock));
  std::ranges::copy(wanted.pkeys,
                    pkeys.begin() + static_cast<std::ptrdiff_t>(block * kPKeysPerBlock));
  while (pkeys.size() > 1 && !pkeys.back().is_valid()) {
    pkeys.pop_back();
  }
  if (!std::ranges::equal(pkeys, before)) {
    tables_.set_pkeys(request.own, pkeys);
    tables_changed_ = true;
  }
  return get_pkey_table(request);
}

// --- GUIDInfo (§14.2.5.5): the first GUID is the port's own and read-only.

std::uint16_t FabricAgents::get_guid_info(Request& request) {
  const bool is_of_switch = tables_.port(request.own).is_switch_port();
  const std::size_t blocks = is_of_switch ? 1 : agent(request.own).guid_cap / kGuidsPerBlock;
  if (request.modifier >= blocks) {
    return refuse_block(request.data);
  }
  const auto gids = tables_.gids(request.own);
  wire::GuidInfo info;
  for (std::size_t i = 0; i < info.guids.size(); ++i) {
    const std::size_t at = request.modifier * kGuidsPerBlock + i;
    info.guids[i] = at < gids.size() ? gids[at].interface_id() : Guid{};
  }
  wire::pack(info, request.data);
  return 0;
}

std::uint16_t FabricAgents::set_guid_info(Request& request) {
  const auto wanted = wire::unpack<wire::GuidInfo>(request.data);
  if (const std::uint16_t status = get_guid_info(request); status != 0) {
    return status;
  }
  if (tables_.port(request.own).is_switch_port()) {
    return wire::kMadStatusMethodAttributeUnsupported;  // GUIDCap is 1
  }
  const auto before = tables_.gids(request.own);
  const std::uint64_t prefix = agent(request.own).gid_prefix;
  std::vector<Gid> gids(before.begin(), before.end());
  gids.resize(std::max(gids.size(), (request.modifier + 1) * kGuidsPerBlock), Gid{prefix, Guid{}});
  for (std::size_t i = 0; i < wanted.guids.size(); ++i) {
    const std::size_t at = request.modifier * kGuidsPerBlock + i;
    if (at != 0) {
      gids[at] = Gid{prefix, wanted.guids[i]};
    }
  }
  while (gids.size() > 1 && gids.back().interface_id() == Guid{}) {
    gids.pop_back();
  }
  if (!std::ranges::equal(gids, before)) {
    tables_.set_gids(request.own, gids);
    tables_changed_ = true;
  }
  return get_guid_info(request);
}

// --- SLtoVLMappingTable: for a switch, input port in bits 15 to 8 and output port in bits 7 to 0
// (§14.2.5.8).

QosTables& FabricAgents::qos_of(PortIndex port) {
  std::unique_ptr<QosTables>& qos = agent(port).qos;
  if (!qos) {
    const PortRecord& record = tables_.port(port);
    const std::size_t inputs = record.is_switch_port() ? tables_.node(record.node).port_count : 1;
    qos = std::make_unique<QosTables>();
    qos->sl_to_vl.assign(inputs, default_sl_to_vl());
    qos->arbitration = default_arbitration();
  }
  return *qos;
}

std::uint16_t FabricAgents::get_sl_to_vl(Request& request) {
  const bool is_of_switch = tables_.port(request.own).is_switch_port();
  const std::uint32_t input = is_of_switch ? request.modifier >> 8 & 0xFF : 0;
  const auto output = port_named(request, request.modifier & 0xFF);
  const bool is_wildcard =
      is_of_switch && request.modifier >> 16 != 0;  // optimized programming is not supported
  if (!output || is_wildcard ||
      (is_of_switch && input >= tables_.node(tables_.port(request.own).node).port_count)) {
    return refuse_block(request.data);
  }
  const QosTables* const qos = agent(*output).qos.get();
  std::ranges::fill(request.data, std::byte{});
  wire::pack(qos == nullptr ? default_sl_to_vl() : qos->sl_to_vl[input],
             front_of<wire::SlToVlMappingTable>(request.data));
  return 0;
}

std::uint16_t FabricAgents::set_sl_to_vl(Request& request) {
  const auto wanted =
      wire::unpack<wire::SlToVlMappingTable>(front_of<wire::SlToVlMappingTable>(request.data));
  if (const std::uint16_t status = get_sl_to_vl(request); status != 0) {
    return status;
  }
  const bool is_of_switch = tables_.port(request.own).is_switch_port();
  const std::uint32_t input = is_of_switch ? request.modifier >> 8 & 0xFF : 0;
  const auto output = port_named(request, request.modifier & 0xFF);
  if (wanted !=
      wire::unpack<wire::SlToVlMappingTable>(front_of<wire::SlToVlMappingTable>(request.data))) {
    qos_of(*output).sl_to_vl[input] = wanted;
    if (!is_of_switch) {
      tables_.set_management_levels(*output, levels_on(kManagementLane, wanted));
      tables_changed_ = true;
    }
  }
  return get_sl_to_vl(request);
}

// --- VLArbitrationTable: block 1 to 4 in bits 31 to 16, a switch's port in bits 15 to 0
// (§14.2.5.9). With capacities of 8 entries, the second half of each table does not exist.

std::uint16_t FabricAgents::get_vl_arbitration(Request& request) {
  const std::uint32_t block = request.modifier >> 16;
  const bool is_of_switch = tables_.port(request.own).is_switch_port();
  const auto port = port_named(request, is_of_switch ? request.modifier & 0xFFFF : 0);
  const bool has_block = block == 1 || block == 3;
  if (!has_block || !port || (is_of_switch && (request.modifier & 0xFFFF) == 0)) {
    return refuse_block(request.data);
  }
  const QosTables* const qos = agent(*port).qos.get();
  wire::pack(qos == nullptr ? default_arbitration()[block - 1] : qos->arbitration[block - 1],
             request.data);
  return 0;
}

std::uint16_t FabricAgents::set_vl_arbitration(Request& request) {
  auto wanted = wire::unpack<wire::VlArbitrationTable>(request.data);
  if (const std::uint16_t status = get_vl_arbitration(request); status != 0) {
    return status;
  }
  const bool is_of_switch = tables_.port(request.own).is_switch_port();
  const auto port = port_named(request, is_of_switch ? request.modifier & 0xFFFF : 0);
  std::fill(wanted.entries.begin() + kVlArbitrationCap, wanted.entries.end(),
            wire::VlArbitrationEntry{});
  if (wanted != wire::unpack<wire::VlArbitrationTable>(request.data)) {
    qos_of(*port).arbitration[(request.modifier >> 16) - 1] = wanted;
  }
  return get_vl_arbitration(request);
}

// --- Forwarding tables of a switch (§14.2.5.10, §14.2.5.12).

std::uint16_t FabricAgents::get_linear_forwarding(Request& request) {
  if (request.modifier >= kLinearFdbCap / fabric::kForwardingBlock) {
    return refuse_block(request.data);
  }
  tables_.get_forwarding_block(tables_.port(request.own).node, request.modifier, request.data);
  return 0;
}

std::uint16_t FabricAgents::set_linear_forwarding(Request& request) {
  if (request.modifier >= kLinearFdbCap / fabric::kForwardingBlock) {
    return refuse_block(request.data);
  }
  tables_changed_ |=
      tables_.set_forwarding_block(tables_.port(request.own).node, request.modifier, request.data);
  return get_linear_forwarding(request);
}

std::uint16_t FabricAgents::get_multicast_forwarding(Request& request) {
  const std::uint32_t block = request.modifier & 0x1FF;
  const std::uint32_t position = request.modifier >> 28;
  if (block >= kMulticastFdbCap / wire::kMulticastBlockLids ||
      (request.modifier & 0x0FFF'FE00) != 0) {
    return refuse_block(request.data);
  }
  const fabric::NodeIndex node = tables_.port(request.own).node;
  wire::MulticastForwardingTable table;
  for (std::uint32_t i = 0; i < table.port_masks.size(); ++i) {
    const Lid mlid{kFirstMlid + block * static_cast<std::uint32_t>(wire::kMulticastBlockLids) + i};
    table.port_masks[i] = tables_.multicast_mask(node, mlid, position);
  }
  wire::pack(table, request.data);
  return 0;
}

std::uint16_t FabricAgents::set_multicast_forwarding(Request& request) {
  const auto wanted = wire::unpack<wire::MulticastForwardingTable>(request.data);
  if (const std::uint16_t status = get_multicast_forwarding(request); status != 0) {
    return status;
  }
  const std::uint32_t block = request.modifier & 0x1FF;
  const fabric::NodeIndex node = tables_.port(request.own).node;
  for (std::uint32_t i = 0; i < wanted.port_masks.size(); ++i) {
    const Lid mlid{kFirstMlid + block * static_cast<std::uint32_t>(wire::kMulticastBlockLids) + i};
    tables_changed_ |=
        tables_.set_multicast_mask(node, mlid, request.modifier >> 28, wanted.port_masks[i]);
  }
  return get_multicast_forwarding(request);
}

}  // namespace weft::agents
