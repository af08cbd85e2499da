// SubnetAdministration: alias GUIDs (IBTA vol 1 §15.2.5.18).

#include <algorithm>

#include "subnet/sa/administration.h"
#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

using Record = wire::GuidInfoRecord;
using wire::SaStatus;

/// Generates an alias GUID: the port's GUID with the index and the local-administration bit
/// (EUI-64), modified until it is unique.
[[nodiscard]] Guid make_guid(const SaDirectory& directory, const Subnet& subnet, Guid port,
                             std::size_t index) {
  constexpr std::uint64_t kLocal = std::uint64_t{0x02} << 56;
  for (std::uint64_t turn = 0;; ++turn) {
    const Guid made{(port.value() | kLocal) ^ (std::uint64_t{index} + (turn << 8)) << 40};
    if (!directory.find_gid(subnet, Gid{subnet.subnet_prefix, made})) {
      return made;
    }
  }
}

}  // namespace

/// Set assigns the given GUIDs of a block (0: SA assigns one), Delete removes them. A GUID that
/// another port has is declined, which the response indicates by 0.
void SubnetAdministration::change_guids(const SaQuery& query, SaAnswer& answer) {
  const Subnet& subnet = query.subnet();
  const auto wanted = query.record<Record>();
  if (!query.has<Record, "LID">() || !query.has<Record, "BlockNum">()) {
    return answer.refuse(SaStatus::RequestInsufficientComponents);
  }
  const auto port = subnet.find_lid(wanted.lid);
  if (!port || !query.can_see(*port)) {
    return answer.refuse(SaStatus::NoRecords);
  }
  if (!query.is_trusted && *port != query.requester) {
    return answer.refuse(SaStatus::RequestDenied);
  }
  constexpr std::size_t kBlock = wire::GuidInfo{}.guids.size();
  const std::uint64_t first_bit = wire::kComponent<Record, "GUID">;
  const std::size_t first = wanted.block * kBlock;
  const std::size_t capacity = subnet.port(*port).info.guid_cap;
  std::vector<Guid> guids = control_.guids_of(*port);
  guids.resize(std::max(guids.size(), capacity));
  Record result{.lid = subnet.port(*port).info.lid, .block = wanted.block};
  std::vector<std::pair<wire::Trap, Guid>> changes;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::size_t index = first + i;
    if ((query.mask() & first_bit << i) == 0) {
      result.guid_info.guids[i] = index < guids.size() ? guids[index] : Guid{};
      continue;
    }
    if (index == 0 || index >= capacity) {  // entry 0 is the port's own GUID and read-only
      return answer.refuse(SaStatus::RequestInvalid);
    }
    Guid guid;
    if (query.method() == wire::MadMethod::Set) {
      guid = wanted.guid_info.guids[i] == Guid{}
                 ? make_guid(directory_, subnet, guid_of(*port), index)
                 : wanted.guid_info.guids[i];
      const bool is_repeated = guid != guids[index] && std::ranges::count(guids, guid) != 0;
      // One that the holder is to lose, and has still as long as that is not written, moves.
      const auto holder = directory_.find_gid(subnet, Gid{subnet.subnet_prefix, guid});
      const bool is_held =
          holder && *holder != *port &&
          (guid_of(*holder) == guid || std::ranges::count(control_.guids_of(*holder), guid) != 0);
      if (is_repeated || is_held) {
        continue;
      }
    }
    if (guids[index] != guid && guids[index] != Guid{}) {
      changes.emplace_back(wire::Trap::GidOutOfService, guids[index]);
    }
    if (guids[index] != guid && guid != Guid{}) {
      changes.emplace_back(wire::Trap::GidInService, guid);
    }
    guids[index] = guid;
    result.guid_info.guids[i] = guid;
  }
  if (!changes.empty() && !control_.set_guids(*port, std::move(guids), query.now)) {
    return answer.refuse(SaStatus::NoResources);
  }
  answer.add(result);
  for (const auto& [trap, guid] : changes) {
    report_gid(trap, Gid{subnet.subnet_prefix, guid}, query.now);
  }
}

}  // namespace weft::subnet
