// SubnetAdministration: multicast groups (IBTA vol 1 §15.2.5.17).

#include <algorithm>

#include "subnet/sa/administration.h"
#include "subnet/sa/path_query.h"
#include "subnet/sa/rates.h"
#include "wire/ipoib/mgid.h"
#include "wire/mad/mc_member_record.h"

namespace weft::subnet {
namespace {

using Record = wire::McMemberRecord;
using wire::kComponent;
using wire::SaStatus;

constexpr std::uint64_t kSelectors =
    kComponent<Record, "MtuSelector"> | kComponent<Record, "Mtu"> |
    kComponent<Record, "RateSelector"> | kComponent<Record, "Rate"> |
    kComponent<Record, "PacketLifeTimeSelector"> | kComponent<Record, "PacketLifeTime">;
/// Components that differ between members.
constexpr std::uint64_t kOfMember = kComponent<Record, "PortGID"> |
                                    kComponent<Record, "JoinState"> |
                                    kComponent<Record, "ProxyJoin">;
constexpr std::uint64_t kToJoin =
    kComponent<Record, "MGID"> | kComponent<Record, "PortGID"> | kComponent<Record, "JoinState">;
/// o15-0.1.9: components required to create a group.
constexpr std::uint64_t kToCreate = kToJoin | kComponent<Record, "Q_Key"> |
                                    kComponent<Record, "TClass"> | kComponent<Record, "P_Key"> |
                                    kComponent<Record, "SL"> | kComponent<Record, "FlowLabel">;

[[nodiscard]] Constraint wanted_mtu(const SaQuery& query, const Record& wanted) {
  return constraint_of<Record, "MtuSelector", "Mtu">(query, wanted.mtu_selector, wanted.mtu);
}
[[nodiscard]] Constraint wanted_rate(const SaQuery& query, const Record& wanted) {
  return constraint_of<Record, "RateSelector", "Rate">(query, wanted.rate_selector, wanted.rate);
}

[[nodiscard]] std::uint8_t scope_of(const Gid& mgid) {
  return std::to_integer<std::uint8_t>(mgid.octets()[1]) & 0xFU;
}

/// True if a client may create a group with the MGID (o15-0.1.5): a multicast GID with reserved
/// flags zero that is not reserved for SA.
[[nodiscard]] bool may_be_made(const Gid& mgid) {
  constexpr std::uint8_t kReservedFlags = 0xE0;
  constexpr std::uint8_t kLinkLocal = 2;
  const auto flags = std::to_integer<std::uint8_t>(mgid.octets()[1]);
  const bool has_sa_signature =
      mgid.octets()[2] == std::byte{0xA0} && mgid.octets()[3] == std::byte{0x1B};
  return mgid.is_multicast() && (flags & kReservedFlags) == 0 &&
         !(has_sa_signature && scope_of(mgid) == kLinkLocal);
}

/// Matches the query's components against a group. P_Keys are compared without the membership bit.
[[nodiscard]] bool fits(const SaQuery& query, const Record& wanted, const Record& group) {
  const std::uint64_t mask = query.mask() & ~(kSelectors | kOfMember | kComponent<Record, "P_Key">);
  return ComponentMatcher<Record>{wanted, mask}.matches(group) &&
         (!query.has<Record, "P_Key">() || wanted.pkey.base() == group.pkey.base()) &&
         mtu_satisfies(group.mtu, wanted_mtu(query, wanted)) &&
         rate_satisfies(group.rate, wanted_rate(query, wanted));
}

[[nodiscard]] std::uint8_t mtu_of(const SubnetPort& port) {
  const auto neighbor = static_cast<std::uint8_t>(port.info.neighbor_mtu);
  return is_mtu(neighbor) ? neighbor : static_cast<std::uint8_t>(port.info.mtu_cap);
}

[[nodiscard]] Record record_of(const SaGroup& group, const GroupMember& member) {
  Record record = group.properties;
  record.port_gid = member.port_gid;
  record.join_state = member.join_state;
  record.proxy_join = member.is_proxy;
  return record;
}

/// o15-0.2.1: a membership may be changed by the port itself; a proxy membership by any port in the
/// group's partition.
[[nodiscard]] bool may_change(const SaQuery& query, const SaGroup& group, PortId port,
                              const GroupMember& member) {
  const PartitionKind kind = query.directory.kind_of(query.subnet(), query.requester);
  return query.is_trusted || query.requester == port ||
         (member.is_proxy && query.directory.has_key(kind, group.properties.pkey));
}

/// The port of a membership. Refuses GIDs that no port has.
[[nodiscard]] std::optional<PortId> port_of(const SaQuery& query, const Record& wanted,
                                            SaAnswer& answer) {
  const auto port = query.directory.find_gid(query.subnet(), wanted.port_gid);
  if (!port) {
    answer.refuse(SaStatus::RequestInvalidGid);
  }
  return port;
}

}  // namespace

Gid ipoib_broadcast_mgid(PKey pkey) { return wire::ipoib_broadcast_group(pkey); }

void SubnetAdministration::get_member_records(const SaQuery& query, SaAnswer& answer) {
  const auto wanted = query.record<Record>();
  if (!values_are_valid<Record>(query, wanted)) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  const PartitionKind kind = directory_.kind_of(query.subnet(), query.requester);
  std::optional<Guid> named;
  if (query.has<Record, "PortGID">()) {
    const auto port = directory_.find_gid(query.subnet(), wanted.port_gid);
    named = port ? guid_of(*port) : wanted.port_gid.interface_id();
  }
  const auto add_member = [&](const SaGroup& group, const GroupMember& member) {
    if ((!query.has<Record, "JoinState">() || member.join_state == wanted.join_state) &&
        (!query.has<Record, "ProxyJoin">() || member.is_proxy == wanted.proxy_join)) {
      answer.add(record_of(group, member));
    }
  };
  const auto add_group = [&](const SaGroup& group) {
    if ((!query.is_trusted && !directory_.has_key(kind, group.properties.pkey)) ||
        !fits(query, wanted, group.properties)) {
      return;
    }
    const auto member = named ? group.members.find(*named) : group.members.end();
    if (named && member == group.members.end()) {
      return;
    }
    if (!query.is_trusted) {
      answer.add(group.properties);  // §15.4.1.2: without the members
    } else if (named) {
      add_member(group, member->second);
    } else {
      for (const auto& [guid, each] : group.members) {
        add_member(group, each);
      }
    }
  };
  if (query.has<Record, "MGID">()) {
    if (const SaGroup* const group = groups_.find(wanted.mgid)) {
      add_group(*group);
    }
    return;
  }
  for (const auto& [mgid, group] : groups_.groups()) {
    answer.charge();
    add_group(group);
  }
}

SaStatusCode SubnetAdministration::make_group(const SaQuery& query,
                                              const wire::McMemberRecord& wanted, PortId port,
                                              wire::McMemberRecord& made) {
  if (!is_full(wanted.join_state)) {
    return code(SaStatus::RequestInvalid);  // o15-0.1.9
  }
  if ((query.mask() & kToCreate) != kToCreate) {
    return code(SaStatus::RequestInsufficientComponents);
  }
  if (!wanted.mgid.is_zero() && !may_be_made(wanted.mgid)) {
    return code(SaStatus::RequestInvalid);
  }
  const SubnetPort& joining = query.subnet().port(port);
  const auto mtu = choose_mtu(mtu_of(joining), wanted_mtu(query, wanted));
  const auto rate = choose_rate(rate_of(joining.info), wanted_rate(query, wanted));
  const auto life_time =
      choose_life_time(options_.group_life_time,
                       constraint_of<Record, "PacketLifeTimeSelector", "PacketLifeTime">(
                           query, wanted.packet_life_time_selector, wanted.packet_life_time));
  if (!mtu || !rate || !life_time) {
    return code(SaStatus::RequestInvalid);
  }
  // A client may have attached to an MLID before joining; it is granted if it is unused.
  const bool names_mlid = query.has<Record, "MLID">() && wanted.mlid != Lid{};
  const auto mlid = names_mlid ? std::optional{wanted.mlid} : groups_.free_mlid();
  if (names_mlid && !groups_.may_use(wanted.mlid, wanted.pkey)) {
    return code(SaStatus::RequestInvalid);
  }
  if (!mlid || !groups_.has_room()) {
    return code(SaStatus::NoResources);
  }
  constexpr std::uint8_t kLinkLocal = 2;
  const std::uint8_t scope = query.has<Record, "Scope">() ? wanted.scope : kLinkLocal;
  made = wanted;
  made.mgid =
      wanted.mgid.is_zero() ? groups_.make_mgid(query.subnet().subnet_prefix, scope) : wanted.mgid;
  made.mlid = *mlid;
  made.mtu_selector = made.rate_selector = made.packet_life_time_selector = wire::Selector::Exactly;
  made.mtu = *mtu;
  made.rate = *rate;
  made.packet_life_time = *life_time;
  made.scope = scope_of(made.mgid);
  made.hop_limit = query.has<Record, "HopLimit">() ? wanted.hop_limit : std::uint8_t{};
  made.port_gid = {};
  made.join_state = {};
  made.proxy_join = false;
  return 0;
}

void SubnetAdministration::join_group(const SaQuery& query, SaAnswer& answer) {
  const auto wanted = query.record<Record>();
  if ((query.mask() & kToJoin) != kToJoin) {
    return answer.refuse(SaStatus::RequestInsufficientComponents);
  }
  if (!values_are_valid<Record>(query, wanted) || wanted.join_state.empty()) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  const auto port = port_of(query, wanted, answer);
  if (!port) {
    return;
  }
  if (!query.can_see(*port)) {  // a proxy must share a partition with the port
    return answer.refuse(SaStatus::RequestInvalid);
  }
  const Guid guid = guid_of(*port);
  const SaGroup* group = groups_.find(wanted.mgid);
  const bool is_new = group == nullptr;
  Record properties = is_new ? Record{} : group->properties;
  if (is_new) {
    if (const SaStatusCode status = make_group(query, wanted, *port, properties)) {
      return answer.refuse(status);
    }
  } else if (!fits(query, wanted, properties)) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  const SubnetPort& joining = query.subnet().port(*port);
  const bool is_member = !is_new && group->members.contains(guid);
  // SA joins all ports to the broadcast group; existing members are not checked again.
  const bool is_too_weak = !is_member && (mtu_of(joining) < properties.mtu ||
                                          rate_hundreds_of_mbps(rate_of(joining.info)) <
                                              rate_hundreds_of_mbps(properties.rate));
  if (is_too_weak ||
      !directory_.has_key(directory_.kind_of(query.subnet(), *port), properties.pkey)) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  if (is_member && !may_change(query, *group, *port, group->members.at(guid))) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  const Guid requesting_port = guid_of(query.requester);
  if (!is_member && !groups_.has_room_for(requesting_port)) {
    return answer.refuse(SaStatus::NoResources);
  }
  if (is_new) {
    groups_.create(properties, false);
  }
  groups_.join(properties.mgid, guid,
               {.port_gid = wanted.port_gid,
                .join_state = wanted.join_state,
                .is_proxy = *port != query.requester,
                .requesting_port = requesting_port});
  group = groups_.find(properties.mgid);
  answer.add(record_of(*group, group->members.at(guid)));
  if (is_new) {
    report_gid(wire::Trap::MulticastGroupCreated, properties.mgid, query.now);
  }
}

/// o15-0.1.14.
void SubnetAdministration::leave_group(const SaQuery& query, SaAnswer& answer) {
  const auto wanted = query.record<Record>();
  if ((query.mask() & kToJoin) != kToJoin) {
    return answer.refuse(SaStatus::RequestInsufficientComponents);
  }
  const auto port = port_of(query, wanted, answer);
  if (!port) {
    return;
  }
  const Guid guid = guid_of(*port);
  const SaGroup* const group = groups_.find(wanted.mgid);
  const auto member =
      group == nullptr ? decltype(group->members.end()){} : group->members.find(guid);
  if (group == nullptr || member == group->members.end() || wanted.join_state.empty() ||
      !member->second.join_state.has_all(wanted.join_state) ||
      !may_change(query, *group, *port, member->second)) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  Record record = record_of(*group, member->second);
  // remaining join states
  record.join_state = member->second.join_state.without(wanted.join_state);
  answer.add(record);
  if (groups_.leave(wanted.mgid, guid, wanted.join_state)) {
    report_gid(wire::Trap::MulticastGroupDeleted, wanted.mgid, query.now);
  }
}

void SubnetAdministration::make_broadcast_group() {
  const Gid mgid = ipoib_broadcast_mgid(kDefaultPKey);
  if (!options_.makes_broadcast_group || groups_.find(mgid) != nullptr ||
      !groups_.may_use(kFirstMulticastLid, kDefaultPKey)) {
    return;
  }
  groups_.create({.mgid = mgid,
                  .qkey = options_.broadcast_qkey,
                  .mlid = kFirstMulticastLid,
                  .mtu_selector = wire::Selector::Exactly,
                  .mtu = static_cast<std::uint8_t>(options_.broadcast_mtu),
                  .pkey = kDefaultPKey,
                  .rate_selector = wire::Selector::Exactly,
                  .rate = options_.broadcast_rate,
                  .packet_life_time_selector = wire::Selector::Exactly,
                  .packet_life_time = options_.group_life_time,
                  .scope = scope_of(mgid)},
                 true);
}

/// Joins all HCA ports of the default partition, so that programs can use the group's MLID without
/// a join of their own.
void SubnetAdministration::join_broadcast_group() {
  const Subnet& subnet = control_.subnet();
  const Gid mgid = ipoib_broadcast_mgid(kDefaultPKey);
  if (groups_.find(mgid) == nullptr) {
    return;
  }
  for (const PortId id : directory_.end_ports()) {
    if (!subnet.node(id.node).is_switch() &&
        directory_.has_key(directory_.kind_of(subnet, id), kDefaultPKey) &&
        !groups_.find(mgid)->members.contains(guid_of(id))) {
      groups_.join(mgid, guid_of(id),
                   {.port_gid = subnet.gid_of(id), .join_state = wire::JoinState::FullMember});
    }
  }
}

/// Sends the members of all trees that may have changed to the SM. Returns the number of ports
/// examined.
std::size_t SubnetAdministration::write_trees(Instant now) {
  std::size_t looks = 0;
  for (const Lid mlid : groups_.take_changed_mlids()) {
    std::vector<MulticastMember> members;
    std::vector<SaGroups::TreeMember> present;
    for (const SaGroups::TreeMember& each : groups_.tree_members(mlid)) {
      if (const auto port = control_.subnet().find_port(each.port)) {
        members.push_back(
            {.port = *port, .role = each.receives ? MulticastRole::Full : MulticastRole::SendOnly});
        present.push_back(each);
      }
    }
    looks += members.size();
    const auto reported = trees_.find(mlid);
    if (reported == trees_.end() ? present.empty() : reported->second == present) {
      continue;
    }
    if (!control_.set_multicast_members(mlid, members, now)) {
      ++counters_.tree_failures;
    } else if (members.empty()) {
      trees_.erase(mlid);
    } else {
      trees_[mlid] = std::move(present);
    }
  }
  return looks;
}

}  // namespace weft::subnet
