#include "sriov/group_record.h"

#include <algorithm>
#include <span>

#include "wire/selector.h"

namespace weft::sriov {
namespace {

using wire::kComponent;
using wire::McMemberRecord;

/// What SA needs to create a group (IBTA vol 1 §15.2.5.17.2), and what Linux adds.
constexpr std::uint64_t kCreateMask =
    kMembershipMask | kComponent<McMemberRecord, "Q_Key"> | kComponent<McMemberRecord, "P_Key"> |
    kComponent<McMemberRecord, "MtuSelector"> | kComponent<McMemberRecord, "Mtu"> |
    kComponent<McMemberRecord, "TClass"> | kComponent<McMemberRecord, "RateSelector"> |
    kComponent<McMemberRecord, "Rate"> | kComponent<McMemberRecord, "SL"> |
    kComponent<McMemberRecord, "FlowLabel"> | kComponent<McMemberRecord, "HopLimit">;

/// Compared apart, or not a property of the group.
constexpr std::uint64_t kNotCompared =
    kMembershipMask | kComponent<McMemberRecord, "ProxyJoin"> |
    kComponent<McMemberRecord, "MtuSelector"> | kComponent<McMemberRecord, "Mtu"> |
    kComponent<McMemberRecord, "RateSelector"> | kComponent<McMemberRecord, "Rate"> |
    kComponent<McMemberRecord, "PacketLifeTimeSelector"> |
    kComponent<McMemberRecord, "PacketLifeTime">;

[[nodiscard]] bool fulfils(std::uint8_t value, wire::Selector selector, std::uint8_t wanted) {
  switch (selector) {
    case wire::Selector::GreaterThan:
      return value > wanted;
    case wire::Selector::LessThan:
      return value < wanted;
    case wire::Selector::Exactly:
      return value == wanted;
    case wire::Selector::Best:
      return true;
  }
  return true;
}

}  // namespace

bool is_member_record(const wire::MadHeader& header) {
  return header.mgmt_class == wire::ManagementClass::SubnAdm &&
         header.attribute_id == static_cast<std::uint16_t>(wire::SaAttribute::McMemberRecord);
}

McMemberRecord record_of(const wire::SaMad& mad) {
  return wire::unpack<McMemberRecord>(std::span{mad.data}.first<wire::kSizeOf<McMemberRecord>>());
}

void set_record(wire::SaMad& mad, const McMemberRecord& record) {
  wire::pack(record, std::span{mad.data}.first<wire::kSizeOf<McMemberRecord>>());
}

McMemberRecord joined(McMemberRecord record, const Gid& port_gid, Flags<wire::JoinState> states) {
  record.port_gid = port_gid;
  record.join_state = states;
  return record;
}

wire::SaMad make_request(const McMemberRecord& record, bool is_join, const Gid& port_gid,
                         Flags<wire::JoinState> states) {
  wire::SaMad mad;
  mad.sa.header.method = is_join ? wire::MadMethod::Set : wire::MadMethod::Delete;
  mad.sa.header.attribute_id = static_cast<std::uint16_t>(wire::SaAttribute::McMemberRecord);
  mad.sa.component_mask = is_join ? kCreateMask : kMembershipMask;
  McMemberRecord sent = joined(record, port_gid, states);
  sent.mtu_selector = sent.rate_selector = wire::Selector::Exactly;
  sent.packet_life_time_selector = wire::Selector::Exactly;
  set_record(mad, sent);
  return mad;
}

bool fits(const McMemberRecord& group, const McMemberRecord& wanted, std::uint64_t mask) {
  const auto asks = [&](std::uint64_t selector, std::uint64_t value) {
    return (mask & selector) != 0 && (mask & value) != 0;
  };
  if (asks(kComponent<McMemberRecord, "MtuSelector">, kComponent<McMemberRecord, "Mtu">) &&
      !fulfils(group.mtu, wanted.mtu_selector, wanted.mtu)) {
    return false;
  }
  if (asks(kComponent<McMemberRecord, "RateSelector">, kComponent<McMemberRecord, "Rate">) &&
      !fulfils(group.rate, wanted.rate_selector, wanted.rate)) {
    return false;
  }
  if (asks(kComponent<McMemberRecord, "PacketLifeTimeSelector">,
           kComponent<McMemberRecord, "PacketLifeTime">) &&
      !fulfils(group.packet_life_time, wanted.packet_life_time_selector, wanted.packet_life_time)) {
    return false;
  }
  return wire::components_match(wanted, group, mask & ~kNotCompared);
}

}  // namespace weft::sriov
