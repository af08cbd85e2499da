#pragma once

// A small SA for the simulation: memberships by port and group, alias GUIDs by port and index. Its
// groups persist without members, as permanent ones do.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "sriov/group_record.h"
#include "sriov/testing/mads.h"
#include "wire/mad/sa_table_records.h"

namespace weft::sriov::testing {

class ModelSa {
 public:
  wire::SaMad answer(const wire::SaMad& request, Lid from) {
    wire::SaMad mad = request;
    const wire::MadMethod method = request.sa.header.method;
    mad.sa.header.method =
        method == wire::MadMethod::Delete ? wire::MadMethod::DeleteResp : wire::MadMethod::GetResp;
    switch (static_cast<wire::SaAttribute>(request.sa.header.attribute_id)) {
      case wire::SaAttribute::McMemberRecord:
        answer_membership(mad, method == wire::MadMethod::Delete, from);
        break;
      case wire::SaAttribute::GuidInfoRecord:
        take_guids(request, method == wire::MadMethod::Delete, from);
        break;
      default:
        break;  // the record that was asked for is the answer
    }
    return mad;
  }
  /// It restarts without its database.
  void forget() {
    members.clear();
    guids.clear();
  }

  std::map<std::pair<Lid, Gid>, Flags<wire::JoinState>> members;
  std::map<std::pair<Lid, std::uint16_t>, Guid> guids;

 private:
  void answer_membership(wire::SaMad& mad, bool is_leave, Lid from) {
    wire::McMemberRecord record = sriov::record_of(mad);
    const auto key = std::pair{from, record.mgid};
    Flags<wire::JoinState>& states = members[key];
    if (is_leave) {
      mad.sa.header.status = states.has_all(record.join_state)
                                 ? std::uint16_t{0}
                                 : static_cast<std::uint16_t>(wire::SaStatus::RequestInvalid);
      states = states.without(record.join_state);
    } else {
      states |= record.join_state;
    }
    record.join_state = states;
    record.mlid = Lid{0xC001};
    if (states.empty()) {
      members.erase(key);
    }
    set_record(mad, record);
  }

  void take_guids(const wire::SaMad& mad, bool is_delete, Lid from) {
    constexpr auto kFirst = wire::kComponent<wire::GuidInfoRecord, "GUID">;
    const auto record = testing::record_of<wire::GuidInfoRecord>(mad);
    for (std::uint16_t i = 0; i < 8; ++i) {
      if ((mad.sa.component_mask & kFirst << i) == 0) {
        continue;
      }
      const auto key = std::pair{from, static_cast<std::uint16_t>(record.block * 8 + i)};
      if (is_delete) {
        guids.erase(key);
      } else {
        guids[key] = record.guid_info.guids[i];
      }
    }
  }
};

}  // namespace weft::sriov::testing
