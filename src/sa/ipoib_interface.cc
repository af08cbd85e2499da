#include "sa/ipoib_interface.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "verbs/mtu.h"
#include "wire/ipoib/mgid.h"
#include "wire/mad/component_mask.h"

namespace weft::sa {
namespace {

using wire::kComponent;
using wire::McMemberRecord;

/// Properties of a broadcast group created here (RFC 4391 §4.1): the default Q_Key of common subnet
/// managers, and the lowest rate, 2.5 Gb/s, so that no port is too slow to join.
constexpr QKey kUsualQKey{0x0B1B};
constexpr std::uint8_t kLowestRate = 2;
constexpr std::uint64_t kToMake =
    kComponent<McMemberRecord, "Q_Key"> | kComponent<McMemberRecord, "TClass"> |
    kComponent<McMemberRecord, "SL"> | kComponent<McMemberRecord, "FlowLabel"> |
    kComponent<McMemberRecord, "MtuSelector"> | kComponent<McMemberRecord, "Mtu"> |
    kComponent<McMemberRecord, "RateSelector"> | kComponent<McMemberRecord, "Rate">;

}  // namespace

IpoibInterface::IpoibInterface(const InterfaceKey& key, Qpn qpn, SaClient& sa,
                               std::vector<InterfaceAddress> addresses,
                               const InterfaceLimits& limits, std::function<void()> on_due,
                               Instant now)
    : key_(key),
      qpn_(qpn),
      sa_(sa),
      addresses_(std::move(addresses)),
      limits_(limits),
      on_due_(std::move(on_due)),
      broadcast_(wire::ipoib_broadcast_group(key.pkey)),
      was_active_(sa.port().is_active()),
      neighbors_(limits.neighbors) {
  join(Form::Join, now);
}

/// The membership's handler refers to this object, so the group must be left.
IpoibInterface::~IpoibInterface() { stop(Instant{}); }

void IpoibInterface::stop(Instant now) {
  if (membership_) {
    sa_.leave(*std::exchange(membership_, std::nullopt), now);
  }
  group_.reset();
  join_at_ = Instant::never();
}

void IpoibInterface::join(Form form, Instant now) {
  join_at_ = Instant::never();
  McMemberRecord wanted{.mgid = broadcast_, .pkey = key_.pkey};
  wanted.join_state = wire::JoinState::FullMember;
  std::uint64_t mask = kComponent<McMemberRecord, "P_Key">;
  if (form == Form::Make) {
    wanted.qkey = kUsualQKey;
    wanted.mtu_selector = wire::Selector::Exactly;
    wanted.mtu = static_cast<std::uint8_t>(std::min(verbs::Mtu::Mtu2048, sa_.port().active_mtu));
    wanted.rate_selector = wire::Selector::Exactly;
    wanted.rate = kLowestRate;
    mask |= kToMake;
  }
  const auto joined = sa_.join(
      wanted, mask,
      [this, form](MembershipId, const Answer<McMemberRecord>& group, Instant at) {
        take_group(form, group, at);
      },
      now);
  if (joined) {
    membership_ = *joined;
  } else {
    join_at_ = now + limits_.join_retry;
  }
}

void IpoibInterface::take_group(Form form, const Answer<McMemberRecord>& group, Instant now) {
  if (group) {
    group_ = *group;
    on_due_();
    return;
  }
  membership_.reset();
  group_.reset();
  if (form == Form::Join) {
    return join(Form::Make, now);  // the group does not exist yet: create it
  }
  join_at_ = now + limits_.join_retry;
}

void IpoibInterface::set_addresses(std::vector<InterfaceAddress> addresses, Instant now) {
  const bool has_new = std::ranges::any_of(
      addresses, [this](const InterfaceAddress& one) { return !has(one.address); });
  addresses_ = std::move(addresses);
  if (has_new) {
    announce(now);
  }
}

wire::IpoibHardwareAddress IpoibInterface::hardware() const {
  const LocalPort& port = sa_.port();
  return {.flags = flags_, .qpn = qpn_, .gid = port.gids.empty() ? Gid{} : port.gids.front()};
}

void IpoibInterface::port_changed(Instant /*now*/) {
  const bool is_active = sa_.port().is_active();
  if (std::exchange(was_active_, is_active) && !is_active) {
    neighbors_.forget();
  }
  on_due_();
}

void IpoibInterface::announce(Instant now) {
  announcements_left_ = limits_.announcements;
  announce_at_ = now;
  on_due_();
}

std::optional<Gid> IpoibInterface::find(const IpAddress& address, Instant now) const {
  const auto known = neighbors_.find(address, now);
  return known ? std::optional{known->gid} : std::nullopt;
}

bool IpoibInterface::solicit(const IpAddress& address, Instant until, Instant now) {
  on_due_();
  return neighbors_.solicit(address, until, now);
}

/// Address of the broadcast group.
mad::MadAddress IpoibInterface::group_address() const {
  return {
      .lid = group_->mlid,
      .sl = group_->sl,
      .qp = kMulticastQpn,
      .qkey = group_->qkey,
      .pkey = key_.pkey,
      .path_bits = 0,
      .global = mad::GlobalRoute{.dgid = broadcast_,
                                 .flow_label = group_->flow_label,
                                 .hop_limit = group_->hop_limit,
                                 .traffic_class = group_->tclass}
  };
}

/// Address for an answer: the reversed path of the request; paths of the group's members are
/// reversible.
mad::MadAddress IpoibInterface::answer_address(const mad::MadAddress& source) const {
  mad::MadAddress to = source;
  to.qkey = group_->qkey;
  to.pkey = key_.pkey;
  return to;
}

void IpoibInterface::send(const mad::MadAddress& to, std::vector<std::byte> payload) {
  if (out_.size() >= limits_.queued_datagrams) {
    ++counters_.dropped;
    return;
  }
  out_.push_back({.source_qp = qpn_, .to = to, .payload = std::move(payload)});
  on_due_();
}

/// The interface address that shares the longest prefix with a neighbour's address.
std::optional<IpAddress> IpoibInterface::source_for(const IpAddress& address) const {
  std::optional<IpAddress> best;
  for (const InterfaceAddress& own : addresses_) {
    if (own.address.family() == address.family() &&
        (!best || common_prefix(own.address, address) > common_prefix(*best, address))) {
      best = own.address;
    }
  }
  return best;
}

/// Solicitations are sent to the broadcast group, which all IPv4 and IPv6 interfaces join (RFC 4391
/// §4), so that no interface needs a solicited-node group per address.
void IpoibInterface::send_solicitation(const IpAddress& address) {
  const auto source = source_for(address);
  if (!source) {
    return;
  }
  ++counters_.solicitations;
  if (address.is_v4()) {
    return send(group_address(),
                to_payload(wire::ArpMessage{.operation = wire::ArpOperation::Request,
                                            .sender_hardware = hardware(),
                                            .sender = *source,
                                            .target_hardware = {},
                                            .target = address}));
  }
  send(group_address(),
       to_payload(wire::NeighborMessage{.type = wire::NeighborMessageType::Solicitation,
                                        .source = *source,
                                        .destination = wire::solicited_node_group(address),
                                        .target = address,
                                        .flags = {},
                                        .hardware = hardware()}));
}

/// An ARP announcement (RFC 5227 §3), or an unsolicited neighbour advertisement (RFC 4861 §7.2.6).
void IpoibInterface::send_announcement(const IpAddress& address) {
  ++counters_.announcements;
  if (address.is_v4()) {
    return send(group_address(),
                to_payload(wire::ArpMessage{.operation = wire::ArpOperation::Request,
                                            .sender_hardware = hardware(),
                                            .sender = address,
                                            .target_hardware = {},
                                            .target = address}));
  }
  send(group_address(), to_payload(wire::NeighborMessage{
                            .type = wire::NeighborMessageType::Advertisement,
                            .source = address,
                            .destination = wire::all_nodes_group(),
                            .target = address,
                            .flags = Flags<wire::NeighborFlag>{wire::NeighborFlag::Override},
                            .hardware = hardware()}));
}

bool IpoibInterface::handle_datagram(const mad::ReceivedDatagram& datagram, Instant now) {
  const bool is_to_group =
      datagram.destination_qp == kMulticastQpn && datagram.destination_gid == broadcast_;
  if (!is_up() || (!is_to_group && datagram.destination_qp != qpn_) ||
      key_.pkey.base() != datagram.source.pkey.base() || datagram.source.qkey != group_->qkey) {
    ++counters_.misaddressed;
    return false;
  }
  const auto message = wire::parse_ipoib(datagram.payload);
  if (!message) {
    ++counters_.malformed;
    return true;
  }
  if (const auto* const arp = std::get_if<wire::ArpMessage>(&*message)) {
    handle(*arp, datagram.source, now);
  } else if (const auto* const neighbor = std::get_if<wire::NeighborMessage>(&*message)) {
    handle(*neighbor, datagram.source, now);
  } else {
    ++counters_.other;
  }
  return true;
}

void IpoibInterface::handle(const wire::ArpMessage& arp, const mad::MadAddress& source,
                            Instant now) {
  if (arp.operation == wire::ArpOperation::Reply) {
    return take_answer(arp.sender, arp.sender_hardware, source, now);
  }
  if (arp.sender == arp.target) {
    return take_announcement(arp.sender, arp.sender_hardware, source, now);
  }
  if (!has(arp.target) || has(arp.sender)) {
    return;
  }
  ++counters_.answers;
  send(answer_address(source), to_payload(wire::ArpMessage{.operation = wire::ArpOperation::Reply,
                                                           .sender_hardware = hardware(),
                                                           .sender = arp.target,
                                                           .target_hardware = arp.sender_hardware,
                                                           .target = arp.sender}));
}

void IpoibInterface::handle(const wire::NeighborMessage& message, const mad::MadAddress& source,
                            Instant now) {
  if (message.type == wire::NeighborMessageType::Advertisement) {
    if (message.hardware && !message.flags.has(wire::NeighborFlag::Solicited) &&
        message.destination == wire::all_nodes_group()) {
      take_announcement(message.target, *message.hardware, source, now);
    }
    if (message.hardware) {
      take_answer(message.target, *message.hardware, source, now);
    }
    return;
  }
  if (!has(message.target) || has(message.source)) {
    return;
  }
  // Duplicate address detection has no source address to answer to (RFC 4861 §7.2.4).
  const bool is_probe = message.source.is_unspecified();
  ++counters_.answers;
  Flags<wire::NeighborFlag> flags{wire::NeighborFlag::Override};
  if (!is_probe) {
    flags |= wire::NeighborFlag::Solicited;
  }
  send(is_probe ? group_address() : answer_address(source),
       to_payload(
           wire::NeighborMessage{.type = wire::NeighborMessageType::Advertisement,
                                 .source = message.target,
                                 .destination = is_probe ? wire::all_nodes_group() : message.source,
                                 .target = message.target,
                                 .flags = flags,
                                 .hardware = hardware()}));
}

/// Processes an answer. If the packet has a GRH, its source must be the advertised GID.
void IpoibInterface::take_answer(const IpAddress& address,
                                 const wire::IpoibHardwareAddress& hardware,
                                 const mad::MadAddress& source, Instant now) {
  const bool is_of_sender = !source.global || source.global->dgid == hardware.gid;
  if (!is_of_sender || !neighbors_.take_answer(address, hardware, now)) {
    ++counters_.untrusted_answers;
    return;
  }
  ++counters_.resolved;
  found_.push_back({.address = address, .gid = hardware.gid});
  on_due_();
}

/// Who announces its address may have moved: the path that is known leads to where it was. The
/// address itself is believed of the port alone that has it (NeighborTable), since it may have come
/// with another QP; what any other liar causes is a query of SA.
void IpoibInterface::take_announcement(const IpAddress& address,
                                       const wire::IpoibHardwareAddress& hardware,
                                       const mad::MadAddress& source, Instant now) {
  if (source.global && source.global->dgid == hardware.gid) {
    ++counters_.moves;
    static_cast<void>(neighbors_.take_announcement(address, hardware, now));
    on_due_();
    sa_.clear_paths_to(hardware.gid);
    if (on_moved_) {
      on_moved_(hardware.gid, now);
    }
  }
}

void IpoibInterface::handle_timeout(Instant now) {
  if (join_at_ <= now) {
    join(Form::Join, now);
  }
  neighbors_.handle_timeout(now);
  if (is_up()) {
    for (const IpAddress& address : neighbors_.take_solicitations(now)) {
      send_solicitation(address);
    }
    if (announce_at_ <= now) {
      announce_at_ =
          --announcements_left_ == 0 ? Instant::never() : now + limits_.announce_interval;
      for (const InterfaceAddress& own : addresses_) {
        send_announcement(own.address);
      }
    }
  }
}

std::optional<mad::Datagram> IpoibInterface::poll_transmit() {
  if (out_.empty()) {
    return std::nullopt;
  }
  mad::Datagram datagram = std::move(out_.front());
  out_.pop_front();
  return datagram;
}

Instant IpoibInterface::deadline() const {
  if (!out_.empty() || !found_.empty()) {
    return Instant{};
  }
  return is_up() ? std::min({join_at_, announce_at_, neighbors_.deadline()}) : join_at_;
}

}  // namespace weft::sa
