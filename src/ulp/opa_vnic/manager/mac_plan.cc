#include "ulp/opa_vnic/manager/mac_plan.h"

#include "ulp/opa_vnic/mac_table.h"

namespace weft::opa_vnic {
namespace {

constexpr auto kWholeAddress = wire::MacAddress::from_number(0xFFFF'FFFF'FFFF);

}  // namespace

MacOwners plan_owners(const SwitchConfig& config, std::span<const MemberMacs> members) {
  MacOwners owners;
  for (std::size_t i = 0; i < members.size(); ++i) {
    owners.emplace(config.members[i].mac, i);
    for (const wire::MacAddress& mac : config.members[i].more_macs) {
      owners.emplace(mac, i);
    }
  }
  for (std::size_t i = 0; i < members.size() && config.mac_source == MacSource::Reported; ++i) {
    for (const wire::MacAddress& mac : members[i].reported) {
      if (!mac.is_zero() && !mac.is_multicast()) {
        owners.emplace(mac, i);
      }
    }
  }
  return owners;
}

std::vector<wire::MacTableEntry> plan_table(const SwitchConfig& config,
                                            std::span<const MemberMacs> members,
                                            const MacOwners& owners, std::size_t member) {
  std::vector<wire::MacTableEntry> table;
  std::size_t sources = 0;
  for (const auto& [mac, owner] : owners) {
    if (table.size() == wire::kMaxMacTableEntries) {
      break;
    }
    if (owner != member && members[owner].lid != 0) {
      table.push_back(
          {.mac = mac, .mask = kWholeAddress, .dlid = members[owner].lid, .side_data = 0});
    } else if (owner == member && config.filters_sources && sources < kMaxSourceMacEntries) {
      ++sources;
      table.push_back({.mac = mac,
                       .mask = kWholeAddress,
                       .dlid = 0,
                       .side_data = wire::MacTableEntry::kSourceMac});
    }
  }
  return table;
}

std::uint32_t digest_of(std::span<const wire::MacTableEntry> table) {
  std::uint32_t digest = 0x811C'9DC5;  // FNV-1a
  for (const wire::MacTableEntry& entry : table) {
    for (const std::byte octet : wire::pack(entry)) {
      digest = (digest ^ std::to_integer<std::uint32_t>(octet)) * 0x0100'0193;
    }
  }
  return digest == 0 ? 1 : digest;
}

}  // namespace weft::opa_vnic
