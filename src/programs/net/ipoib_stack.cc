#include "programs/net/ipoib_stack.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "wire/ethernet.h"
#include "wire/ipoib/mgid.h"

namespace weft::programs::net {
namespace {

/// Policy: what one call does before its caller sends; more is due at once.
constexpr int kMostTurns = 8;

constexpr std::size_t kMostWanted = 1024;  // policy: as many as the neighbour table has room for

constexpr IpAddress kAllHosts = IpAddress::v4(0xE000'0001);

/// ARP, and neighbour solicitations and advertisements (RFC 4861 §4.3, §4.4): these are for the
/// neighbour table, and the host's IP stack, which sees an interface without link addresses, must
/// not answer them. Whatever is cut off is told apart by who gets it.
[[nodiscard]] bool is_discovery(ByteSpan payload) {
  constexpr std::size_t kNextHeaderAt = wire::kSizeOf<wire::IpoibEncapsulation> + 6;
  constexpr std::size_t kIcmpTypeAt = wire::kSizeOf<wire::IpoibEncapsulation> + 40;
  constexpr std::byte kIcmpv6{58};
  constexpr std::byte kSolicitation{135};
  constexpr std::byte kAdvertisement{136};
  const auto header = wire::parse<wire::IpoibEncapsulation>(payload);
  if (!header) {
    return false;
  }
  return header->type == wire::kEtherTypeArp ||
         (header->type == wire::kEtherTypeIpv6 && payload.size() > kIcmpTypeAt &&
          payload[kNextHeaderAt] == kIcmpv6 &&
          (payload[kIcmpTypeAt] == kSolicitation || payload[kIcmpTypeAt] == kAdvertisement));
}

[[nodiscard]] PKey partition_of(const sa::LocalPort& port) {
  return port.pkeys.empty() ? kDefaultPKey : port.pkeys.front();
}

}  // namespace

std::optional<wire::McMemberRecord> IpoibStack::NeighborLink::group() const {
  return neighbors_.is_up() ? neighbors_.group() : std::nullopt;
}

std::optional<wire::IpoibHardwareAddress> IpoibStack::NeighborLink::find(const IpAddress& address,
                                                                         Instant now) const {
  return neighbors_.neighbors().find(address, now);
}

bool IpoibStack::NeighborLink::solicit(const IpAddress& address, Instant until, Instant now) {
  return neighbors_.solicit(address, until, now);
}

std::optional<IpAddress> IpoibStack::NeighborLink::next_hop(const IpAddress& destination) const {
  const bool is_on_link = std::ranges::any_of(
      neighbors_.addresses(), [&](const InterfaceAddress& own) { return own.covers(destination); });
  return is_on_link ? std::optional{destination} : std::nullopt;
}

bool IpoibStack::NeighborLink::is_broadcast(const IpAddress& destination) const {
  return destination.is_limited_broadcast() ||
         std::ranges::any_of(neighbors_.addresses(), [&](const InterfaceAddress& own) {
           const std::uint32_t host_bits =
               own.prefix_bits >= 31 ? 0 : 0xFFFF'FFFFU >> own.prefix_bits;
           return host_bits != 0 && own.address.is_v4() && own.covers(destination) &&
                  (destination.v4_number() & host_bits) == host_bits;
         });
}

IpoibStack::IpoibStack(const IpoibStackOptions& options, const sa::LocalPort& port, Instant now)
    : gsi_(mad::InterfaceKind::Gsi),
      sa_(gsi_),
      neighbors_(
          {.port = sa::PortKey{1}, .pkey = partition_of(port)}, options.qpn, sa_, options.addresses,
          {}, [] {}, now),
      link_(neighbors_),
      interface_(link_, {.mode = options.mode,
                         .qpn = options.qpn,
                         .mtu = options.mtu,
                         .parent_mtu = options.parent_mtu,
                         .connections = {.partial_checksums = options.partial_checksums}}),
      qpn_(options.qpn) {
  // SA knows members by port only (IBTA vol 1 §15.2.5.17), and other programs of the host may be in
  // the same groups. The fabric's daemon counts attached QPs, and leaves after the last.
  neighbors_.set_flags(ipoib::flags_of(options.mode));
  neighbors_.set_move_handler([this](const Gid& gid, Instant at) { drop_path(gid, at); });
  sa_.set_other_owner([](const Gid&) { return Flags{wire::JoinState::FullMember}; });
  set_port(port, now);
  // No host reports these (RFC 3376 §6, RFC 3810 §6), and every host listens to them.
  static_cast<void>(interface_.groups().set_listening(kAllHosts, true, now));
  static_cast<void>(interface_.groups().set_listening(wire::all_nodes_group(), true, now));
}

void IpoibStack::set_port(const sa::LocalPort& port, Instant now) {
  if (port == sa_.port()) {
    return;
  }
  const Lid was_at = sa_.port().lid;
  sa_.set_port(port, now);
  neighbors_.port_changed(now);
  if (port.lid != was_at && was_at != Lid{}) {
    neighbors_.announce(now);
  }
  interface_.link_changed(now);
  interface_.paths().invalidate_all(now);  // groups are joined anew by the client of SA
}

void IpoibStack::handle_mad(const mad::MadAddress& source, ByteSpan mad, Instant now) {
  gsi_.handle_mad(source, mad, now);
}

void IpoibStack::handle_datagram(const mad::ReceivedDatagram& datagram, Instant now) {
  if (is_discovery(datagram.payload)) {
    static_cast<void>(neighbors_.handle_datagram(datagram, now));
    return;
  }
  const bool is_multicast = datagram.destination_qp == kMulticastQpn;
  interface_.handle_payload(
      {.payload = datagram.payload,
       .pkey = datagram.source.pkey,
       .qkey = datagram.source.qkey,
       .mgid = is_multicast ? std::optional{datagram.destination_gid} : std::nullopt},
      now);
}

void IpoibStack::connection_lost(ipoib::ConnectionId id, Instant now) {
  const auto peer = interface_.connections().peer_of(id);
  interface_.connections().lost(id, now);
  if (peer) {
    drop_path(*peer, now);
  }
}

void IpoibStack::transmit(ByteSpan packet, Instant now) { interface_.transmit(packet, now); }

void IpoibStack::handle_timeout(Instant now) {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    gsi_.handle_timeout(now);
    sa_.handle_timeout(now);
    announce_when_up(now);
    neighbors_.handle_timeout(now);
    static_cast<void>(neighbors_.take_found());  // the next two look for all who wait
    answer_who_asked(now);
    interface_.link_changed(now);
    interface_.handle_timeout(now);
    run_groups(now);
    run_paths(now);
    if (std::min(sa_.deadline(), interface_.deadline()) > now) {
      return;
    }
  }
}

/// So that who knows the address of a QP that was here before asks no sooner than it must (RFC 5227
/// §2.3, RFC 4861 §7.2.6): a QPN is part of it.
void IpoibStack::announce_when_up(Instant now) {
  const bool is_up = neighbors_.is_up();
  if (is_up && !was_up_) {
    neighbors_.announce(now);
  }
  was_up_ = is_up;
}

/// Of the one table: what it knows is not asked again, and what is asked for RDMA-CM's sake is
/// known to the host's own packets.
void IpoibStack::find_neighbor(const IpAddress& address, Instant until, Instant now) {
  if (wanted_.size() >= kMostWanted ||
      (!neighbors_.find(address, now) && !neighbors_.solicit(address, until, now))) {
    return;  // as if nobody had answered
  }
  Instant& last = wanted_[address];
  last = std::max(last, until);
}

void IpoibStack::answer_who_asked(Instant now) {
  for (auto one = wanted_.begin(); one != wanted_.end();) {
    const auto gid = neighbors_.find(one->first, now);
    if (gid) {
      found_.push_back({.address = one->first, .gid = *gid});
    }
    one = gid || one->second <= now ? wanted_.erase(one) : std::next(one);
  }
}

std::optional<sa::IpInterface::Found> IpoibStack::poll_neighbor() {
  if (found_.empty()) {
    return std::nullopt;
  }
  const sa::IpInterface::Found found = found_.front();
  found_.pop_front();
  return found;
}

void IpoibStack::stop(Instant now) {
  for (const auto& [mgid, membership] : std::exchange(memberships_, {})) {
    sa_.leave(membership.id, now);
  }
  neighbors_.stop(now);
}

void IpoibStack::run_groups(Instant now) {
  using Kind = ipoib::GroupAction::Kind;
  while (auto action = interface_.groups().poll_action()) {
    switch (action->kind) {
      case Kind::Join:
        join(action->join, now);
        break;
      case Kind::Leave:
        leave(action->mgid, now);
        break;
      case Kind::Send:
        out_.push_back({.source_qp = qpn_,
                        .to = group_address(action->group),
                        .payload = std::move(action->packet)});
        break;
    }
  }
}

void IpoibStack::join(const ipoib::GroupJoin& wanted, Instant now) {
  const Gid mgid = wanted.record.mgid;
  const auto known = memberships_.find(mgid);
  if (known != memberships_.end() && known->second.join_state == wanted.record.join_state) {
    if (known->second.record) {
      interface_.groups().joined(*known->second.record, now);
    }
    return;  // or its answer is still to come
  }
  const auto joined = sa_.join(
      wanted.record, wanted.mask,
      [this, mgid](sa::MembershipId id, const sa::Answer<wire::McMemberRecord>& answer,
                   Instant at) { take_membership(mgid, id, answer, at); },
      now);
  if (!joined) {
    interface_.groups().refused(mgid, now);
    return;
  }
  leave(mgid, now);  // as another kind of member
  memberships_[mgid] = {.id = *joined, .join_state = wanted.record.join_state, .record = {}};
}

void IpoibStack::take_membership(const Gid& mgid, sa::MembershipId id,
                                 const sa::Answer<wire::McMemberRecord>& answer, Instant now) {
  const auto found = memberships_.find(mgid);
  if (found == memberships_.end() || found->second.id != id) {
    return;
  }
  if (!answer) {
    memberships_.erase(found);
    interface_.groups().refused(mgid, now);
    return;
  }
  found->second.record = *answer;
  interface_.groups().joined(*answer, now);
}

void IpoibStack::leave(const Gid& mgid, Instant now) {
  const auto found = memberships_.find(mgid);
  if (found != memberships_.end()) {
    const sa::MembershipId id = found->second.id;
    memberships_.erase(found);
    sa_.leave(id, now);
  }
}

void IpoibStack::run_paths(Instant now) {
  while (const auto query = interface_.paths().poll_query()) {
    ask_path(*query, now);
  }
  while (auto send = interface_.paths().poll_send()) {
    out_.push_back(
        {.source_qp = qpn_, .to = neighbor_address(*send), .payload = std::move(send->packet)});
  }
}

void IpoibStack::ask_path(const ipoib::PathTable::Query& query, Instant now) {
  const auto& gids = sa_.port().gids;
  const auto asked = sa_.resolve_path(
      {.sgid = gids.empty() ? Gid{} : gids.front(),
       .dgid = query.dgid,
       .pkey = partition_of(sa_.port())},
      {},
      [this, id = query.id](sa::QueryId, const sa::Answer<wire::PathRecord>& path, Instant at) {
        if (path) {
          interface_.paths().answered(id, *path, at);
        } else {
          interface_.paths().failed(id, at);
        }
      },
      now);
  if (!asked) {
    interface_.paths().failed(query.id, now);
  }
}

/// What goes that way does not arrive, so packets wait until SA has answered anew.
void IpoibStack::drop_path(const Gid& dgid, Instant now) {
  sa_.clear_paths_to(dgid);
  interface_.paths().broken(dgid, now);
}

/// With a GRH, as all multicast packets have (IBTA vol 1 §10.5.1), and the Q_Key that the QP has.
mad::MadAddress IpoibStack::group_address(const wire::McMemberRecord& group) const {
  return {
      .lid = group.mlid,
      .sl = group.sl,
      .qp = kMulticastQpn,
      .qkey = kQKeyOfQp,
      .pkey = group.pkey,
      .path_bits = 0,
      .global = mad::GlobalRoute{.dgid = group.mgid,
                                 .flow_label = group.flow_label,
                                 .hop_limit = group.hop_limit,
                                 .traffic_class = group.tclass}
  };
}

mad::MadAddress IpoibStack::neighbor_address(const ipoib::PathTable::Send& send) const {
  const wire::PathRecord& path = send.path;
  mad::MadAddress to{
      .lid = path.dlid,
      .sl = path.sl,
      .qp = send.neighbor.qpn,
      .qkey = kQKeyOfQp,
      .pkey = partition_of(sa_.port()),
      .path_bits = static_cast<std::uint8_t>((path.slid.value() - sa_.port().lid.value()) &
                                             ((1U << sa_.port().lmc) - 1)),
      .global = std::nullopt};
  if (path.hop_limit > 1) {  // leaves the subnet (IBTA vol 1 §8.3.6)
    to.global = mad::GlobalRoute{.dgid = send.neighbor.gid,
                                 .flow_label = path.flow_label,
                                 .hop_limit = path.hop_limit,
                                 .traffic_class = path.tclass};
  }
  return to;
}

Instant IpoibStack::deadline() const {
  return std::min({gsi_.deadline(), sa_.deadline(), neighbors_.deadline(), interface_.deadline()});
}

std::optional<mad::MadPacket> IpoibStack::poll_mad(Instant now) { return gsi_.poll_transmit(now); }

std::optional<mad::Datagram> IpoibStack::poll_datagram() {
  if (auto datagram = neighbors_.poll_transmit()) {
    datagram->to.qkey = kQKeyOfQp;  // which has the group's, as all packets of the link
    return datagram;
  }
  if (out_.empty()) {
    return std::nullopt;
  }
  mad::Datagram datagram = std::move(out_.front());
  out_.pop_front();
  return datagram;
}

std::optional<ipoib::Packet> IpoibStack::poll_delivery() { return interface_.poll_delivery(); }

std::map<Gid, Lid> IpoibStack::attachments() const {
  std::map<Gid, Lid> groups;
  if (const auto& broadcast = neighbors_.group()) {
    groups.emplace(broadcast->mgid, broadcast->mlid);
  }
  for (const auto& [mgid, membership] : memberships_) {
    if (membership.record && membership.join_state.has(wire::JoinState::FullMember)) {
      groups.emplace(mgid, membership.record->mlid);
    }
  }
  return groups;
}

std::vector<Gid> IpoibStack::sent_to() const {
  std::vector<Gid> groups;
  for (const auto& [mgid, membership] : memberships_) {
    if (membership.record && !membership.join_state.has(wire::JoinState::FullMember)) {
      groups.push_back(mgid);
    }
  }
  return groups;
}

PKey IpoibStack::pkey() const { return partition_of(sa_.port()); }

std::optional<QKey> IpoibStack::qkey() const {
  const auto& broadcast = neighbors_.group();
  return broadcast ? std::optional{broadcast->qkey} : std::nullopt;
}

}  // namespace weft::programs::net
