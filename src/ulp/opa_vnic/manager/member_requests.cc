// What the manager asks a member in each state, and what it learns from the answer.

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "ulp/opa_vnic/manager/ethernet_manager.h"
#include "ulp/opa_vnic/planted_bug.h"

namespace weft::opa_vnic {

using wire::MadMethod;
using wire::VemaAttribute;
using wire::VeswPortState;

namespace {

template <wire::WireType T>
[[nodiscard]] T read(const wire::VemaMad& mad) {
  return wire::unpack<T>(std::span{mad.data}.template first<wire::kSizeOf<T>>());
}

template <wire::WireType T>
void write(const T& value, wire::VemaMad& mad) {
  wire::pack(value, std::span{mad.data}.template first<wire::kSizeOf<T>>());
}

struct Request {
  MemberState state;
  MadMethod method;
  VemaAttribute attribute;
};
constexpr auto kRequests = std::to_array<Request>({
    {MemberState::ReadClass,     MadMethod::Get, VemaAttribute::ClassPortInfo  },
    {MemberState::SetClass,      MadMethod::Set, VemaAttribute::ClassPortInfo  },
    {MemberState::ReadInfo,      MadMethod::Get, VemaAttribute::VeswPortInfo   },
    {MemberState::SetDropAll,    MadMethod::Set, VemaAttribute::VeswPortInfo   },
    {MemberState::WriteTable,    MadMethod::Set, VemaAttribute::MacTable       },
    {MemberState::SetForwarding, MadMethod::Set, VemaAttribute::VeswPortInfo   },
    {MemberState::ReadSummary,   MadMethod::Get, VemaAttribute::SummaryCounters},
    {MemberState::ReadErrors,    MadMethod::Get, VemaAttribute::ErrorCounters  },
    {MemberState::ReadUnicast,   MadMethod::Get, VemaAttribute::UnicastMacs    },
    {MemberState::ReadMulticast, MadMethod::Get, VemaAttribute::MulticastMacs  },
    {MemberState::Deleting,      MadMethod::Set, VemaAttribute::DeleteVesw     },
});

/// What a Set changes, of two values.
[[nodiscard]] bool is_configured_as(wire::VeswPortInfo info, const wire::VeswPortInfo& wanted) {
  info.port.eth_link_status = wanted.port.eth_link_status;
  info.port.oper_state = wanted.port.oper_state;
  info.port.max_mac_entries = wanted.port.max_mac_entries;
  info.port.max_source_mac_entries = wanted.port.max_source_mac_entries;
  info.port.mac_table_digest = wanted.port.mac_table_digest;
  info.port.unicast_generation = wanted.port.unicast_generation;
  info.port.multicast_generation = wanted.port.multicast_generation;
  return info == wanted;
}

}  // namespace

wire::VeswPortInfo EthernetManager::wanted(const Member& member, VeswPortState state) const {
  return wanted_info(config_.switches[member.switch_index], member.index, member.lid, state);
}

void EthernetManager::form_request(Member& member) {
  const auto request = std::ranges::find(kRequests, member.state, &Request::state);
  wire::VemaMad& mad = member.request;
  mad = {};
  mad.header = {.base_version = wire::kOpaMadVersion,
                .mgmt_class = wire::kVemaClass,
                .class_version = wire::kOpaMadVersion,
                .method = request->method,
                .attribute_id = static_cast<std::uint16_t>(request->attribute),
                .attribute_modifier = member.config.vport};
  if (member.state == MemberState::SetClass) {
    write(wire::OpaClassPortInfo{.trap_lid = address_.lid,
                                 .trap_qp = kQp1,
                                 .trap_qkey = kGsiQKey,
                                 .trap_pkey = address_.pkey,
                                 .trap_sl = address_.sl},
          mad);
  } else if (member.state == MemberState::SetDropAll) {
    write(wanted(member, VeswPortState::DropAll), mad);
  } else if (member.state == MemberState::SetForwarding) {
    write(wanted(member, VeswPortState::Forwarding), mad);
  } else if (member.state == MemberState::WriteTable) {
    form_table_block(member);
  } else if (request->attribute == VemaAttribute::UnicastMacs ||
             request->attribute == VemaAttribute::MulticastMacs) {
    write(wire::MacListHeader{.start = static_cast<std::uint16_t>(member.page_macs.size())}, mad);
  }
}

void EthernetManager::form_table_block(Member& member) {
  const std::size_t count =
      std::min(member.writing.size() - member.written, wire::kMaxEntriesInMessage);
  const auto first = member.writing.begin() + static_cast<std::ptrdiff_t>(member.written);
  copy_bytes(member.request.data,
             wire::to_data(wire::MacTableBlock{
                 .offset = static_cast<std::uint16_t>(member.written),
                 .digest = member.digest,
                 .entries = {first, first + static_cast<std::ptrdiff_t>(count)}
  }));
  member.written += count;
}

MemberEvent EthernetManager::take_answer(Member& member, const wire::VemaMad& answer) {
  switch (member.state) {
    case MemberState::ReadInfo:
      return take_info(member, answer);
    case MemberState::SetDropAll:
    case MemberState::SetForwarding:
      member.info = read<wire::VeswPortInfo>(answer);
      return MemberEvent::Done;
    case MemberState::WriteTable:
      return member.written < member.writing.size() ? MemberEvent::More : MemberEvent::Done;
    case MemberState::ReadSummary:
      member.summary = read<wire::VeswPortSummaryCounters>(answer);
      return MemberEvent::Done;
    case MemberState::ReadErrors:
      member.errors = read<wire::VeswPortErrorCounters>(answer);
      return MemberEvent::Done;
    case MemberState::ReadUnicast:
    case MemberState::ReadMulticast:
      return take_page(member, answer);
    case MemberState::Absent:
    case MemberState::ReadClass:
    case MemberState::SetClass:
    case MemberState::Running:
    case MemberState::Retry:
    case MemberState::Deleting:
    case MemberState::Gone:
      return MemberEvent::Done;
  }
  return MemberEvent::Done;
}

MemberEvent EthernetManager::take_info(Member& member, const wire::VemaMad& answer) {
  member.info = read<wire::VeswPortInfo>(answer);
  if (planted(PlantedBug::RestartUnnoticed)) {
    return MemberEvent::Done;
  }
  // Without a digest it was loaded anew. One that this manager did not write is accepted, so that
  // a restart of the manager disturbs nobody; the table is written anew all the same, as the
  // manager before may have ended in the middle of it.
  const std::uint32_t digest = member.info.port.mac_table_digest;
  const bool is_known = digest != 0 && (member.digest == 0 || member.digest == digest);
  if (is_known && is_configured_as(member.info, wanted(member, VeswPortState::Forwarding))) {
    return MemberEvent::Done;
  }
  member.old_entries.reset();
  return MemberEvent::Differs;
}

MemberEvent EthernetManager::take_page(Member& member, const wire::VemaMad& answer) {
  const auto page = wire::parse_mac_list(answer.data);
  if (!page) {
    return MemberEvent::Failed;
  }
  const bool is_first = member.page_macs.empty();
  if (is_first) {
    member.page_generation = page->generation;
  } else if (page->generation != member.page_generation) {
    member.page_macs.clear();  // the list is another one now: from its beginning
    return ++member.page_restarts > limits_.page_restarts ? MemberEvent::Failed : MemberEvent::More;
  }
  member.page_macs.insert(member.page_macs.end(), page->macs.begin(), page->macs.end());
  const bool has_more = !page->macs.empty() && member.page_macs.size() < page->total &&
                        member.page_macs.size() < limits_.macs_of_member;
  if (has_more) {
    return MemberEvent::More;
  }
  member.page_macs.resize(std::min(member.page_macs.size(), limits_.macs_of_member));
  std::vector<wire::MacAddress> macs = std::exchange(member.page_macs, {});
  member.page_restarts = 0;
  if (member.state == MemberState::ReadUnicast) {
    member.reported = std::move(macs);
  }
  return MemberEvent::Done;
}

}  // namespace weft::opa_vnic
