// Multicast memberships of ids.

#include <algorithm>
#include <utility>

#include "cm/rdma/rdma_cm.h"
#include "wire/ipoib/mgid.h"
#include "wire/mad/component_mask.h"

namespace weft::cm {
namespace {

/// Distinguishes RDMA-CM's groups for UDP from IPoIB's: signature 0x4001 instead of 0x401B or
/// 0x601B (annex A11).
constexpr std::byte kOwnSignature{0x01};
constexpr std::size_t kSignatureOctet = 3;

/// An IPv6 address of the form ff1x:a01b:: stands for an MGID assigned by SA.
[[nodiscard]] bool is_assigned(const Gid& gid) {
  const auto& octets = gid.octets();
  return octets[0] == std::byte{0xFF} && (octets[1] & std::byte{0xF0}) == std::byte{0x10} &&
         octets[2] == std::byte{0xA0} && octets[3] == std::byte{0x1B};
}

}  // namespace

/// MGID of an IP multicast address (RFC 4391 §4), with RDMA-CM's signature for UDP.
Result<Gid> RdmaCm::group_of(const Id& of, const SocketAddress& address) {
  if (const auto* const ib = std::get_if<IbEndpoint>(&address)) {
    return ib->gid;
  }
  const auto* const ip = std::get_if<IpEndpoint>(&address);
  if (ip == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a group is an IPv4, IPv6 or AF_IB address");
  }
  if (ip->address.is_unspecified()) {
    return Gid{};  // assigned by SA
  }
  if (ip->address.is_v6() && is_assigned(Gid{ip->address.v6_octets()})) {
    return Gid{ip->address.v6_octets()};
  }
  auto octets = wire::ipoib_group(ip->address, of.pkey).octets();
  if (of.space == PortSpace::Udp) {
    octets[kSignatureOctet] = kOwnSignature;
  }
  return Gid{octets};
}

Result<GroupId> RdmaCm::join(RdmaCmId id, const SocketAddress& address, bool is_send_only,
                             std::uint64_t context, Instant now) {
  auto in = in_state(id,
                     {RdmaCmState::AddressBound, RdmaCmState::AddressResolved,
                      RdmaCmState::RouteResolved, RdmaCmState::Connect},
                     "joining a group");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  const auto port = of.port ? ports_.find(*of.port) : ports_.end();
  if (port == ports_.end()) {
    return fail(ErrorCode::InvalidArgument, "bind the id to an address of a port first");
  }
  if (of.groups >= limits_.groups_of_id) {
    return fail(ErrorCode::OutOfMemory, "an id is in at most {} groups", limits_.groups_of_id);
  }
  const auto mgid = group_of(of, address);
  if (!mgid) {
    return std::unexpected(mgid.error());
  }
  wire::McMemberRecord wanted;
  wanted.mgid = *mgid;
  wanted.qkey = of.qkey;
  wanted.pkey = of.pkey;
  wanted.join_state =
      is_send_only ? wire::JoinState::SendOnlyFullMember : wire::JoinState::FullMember;
  using Record = wire::McMemberRecord;
  constexpr std::uint64_t kMask =
      wire::kComponent<Record, "Q_Key"> | wire::kComponent<Record, "P_Key"> |
      wire::kComponent<Record, "SL"> | wire::kComponent<Record, "FlowLabel"> |
      wire::kComponent<Record, "TClass">;
  const GroupId number{++last_group_};
  const auto membership = port->second.sa.join(
      wanted, kMask,
      [this, number](sa::MembershipId, const sa::Answer<wire::McMemberRecord>& record, Instant) {
        membership_changed(number, record);
      },
      now);
  if (!membership) {
    return std::unexpected(membership.error());
  }
  groups_.emplace(number, Group{.id = id,
                                .context = context,
                                .port = *of.port,
                                .membership = *membership,
                                .is_joined = false});
  ++of.groups;
  return number;
}

/// Reports the result of the join, or the loss of the membership.
void RdmaCm::membership_changed(GroupId number, const sa::Answer<wire::McMemberRecord>& record) {
  const auto found = groups_.find(number);
  Id* const of = found == groups_.end() ? nullptr : find(found->second.id);
  if (of == nullptr || (record && std::exchange(found->second.is_joined, true))) {
    return;
  }
  const auto port = ports_.find(found->second.port);
  RdmaCmEvent event{
      .type = record ? RdmaCmEventType::MulticastJoin : RdmaCmEventType::MulticastError,
      .context = found->second.context,
      .group = number};
  if (record) {
    event.parameters.qpn = kMulticastQpn;
    event.parameters.qkey = record->qkey;
    event.address = {
        .dlid = record->mlid,
        .sl = record->sl,
        .source_path_bits = 0,
        .static_rate = record->rate,
        .port = port == ports_.end() ? PortNumber{}
              : port->second.number,
        .is_global = true,
        .grh = {.dgid = record->mgid,
                                                  .flow_label = record->flow_label,
                                                  .sgid_index = 0,
                                                  .hop_limit = record->hop_limit,
                                                  .traffic_class = record->tclass}
    };
  } else {
    event.failure = record.error().failure == sa::QueryFailure::TimedOut
                        ? RdmaCmFailure::TimedOut
                        : RdmaCmFailure::InvalidArgument;
  }
  static_cast<void>(report_event(found->second.id, *of, std::move(event)));
}

Result<void> RdmaCm::leave(GroupId group, Instant now) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return fail(ErrorCode::NotFound, "there is no group membership {}", group.value());
  }
  if (const auto port = ports_.find(found->second.port); port != ports_.end()) {
    port->second.sa.leave(found->second.membership, now);
  }
  if (Id* const of = find(found->second.id)) {
    --of->groups;
  }
  groups_.erase(found);
  return {};
}

std::optional<RdmaCmId> RdmaCm::id_of(GroupId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::nullopt : std::optional{found->second.id};
}

}  // namespace weft::cm
