#include "ulp/ipoib/interface.h"

#include <algorithm>
#include <utility>

#include "ulp/ipoib/fragments.h"
#include "ulp/ipoib/listening.h"
#include "ulp/ipoib/planted_bug.h"
#include "ulp/ipoib/too_big.h"
#include "verbs/mtu.h"
#include "wire/ethernet.h"
#include "wire/ipoib/arp.h"
#include "wire/ipoib/encapsulation.h"

namespace weft::ipoib {
namespace {

/// RFC 4391 §7: what IPv6 needs; a link with less does not come up.
constexpr std::uint32_t kLeastMtu = 1280;

auto encapsulation_of(ByteSpan packet) {
  const bool is_v6 = (packet[0] & std::byte{0xF0}) == std::byte{0x60};
  return wire::pack(
      wire::IpoibEncapsulation{.type = is_v6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4});
}

Packet encapsulate(ByteSpan packet) {
  const auto header = encapsulation_of(packet);
  Packet payload;
  payload.reserve(header.size() + packet.size());
  payload.assign(header.begin(), header.end());
  payload.insert(payload.end(), packet.begin(), packet.end());
  return payload;
}

}  // namespace

Interface::Interface(Link& link, const InterfaceOptions& options)
    : link_(link),
      options_(options),
      groups_(options.groups),
      paths_(options.paths),
      connections_(options.mode, options.qpn, options.connections) {}

std::uint32_t Interface::datagram_mtu() const {
  const auto group = link_.group();
  const auto mtu = group ? verbs::mtu_of(group->mtu) : std::nullopt;
  return mtu ? verbs::bytes(*mtu) - kHeaderBytes : 0;
}

std::uint32_t Interface::mtu() const {
  const bool is_connected = options_.mode != ConnectedMode::None;
  std::uint32_t mtu = is_connected ? options_.connections.mtu : datagram_mtu();
  for (const std::uint32_t limit : {options_.mtu, options_.parent_mtu}) {
    mtu = limit == 0 ? mtu : std::min(mtu, limit);
  }
  return mtu;
}

void Interface::transmit(ByteSpan packet, Instant now) {
  const auto ends = ends_of(packet);
  if (!ends) {
    ++counters_.tx_errors;
    return;
  }
  follow_listening(packet, now);
  if (!is_up_) {
    ++counters_.tx_link_down;
    return;
  }
  const bool is_broadcast = link_.is_broadcast(ends->destination);
  if (!is_broadcast && !ends->destination.is_multicast()) {
    const auto neighbor = link_.next_hop(ends->destination);
    if (!neighbor) {
      ++counters_.tx_no_route;
      return;
    }
    return transmit_to_neighbor(*neighbor, packet, now);
  }
  transmit_to_group(is_broadcast ? IpAddress::v4(0xFFFF'FFFF) : ends->destination, packet, now);
}

/// What goes at once over a connection, whole: whatever waits, is cut or is a datagram has a
/// complete checksum.
bool Interface::transmit_partial(ByteSpan packet, PartialChecksum checksum, Instant now) {
  const auto ends = ends_of(packet);
  if (!ends || !is_up_ || !send_connected_ || !checksum.fits(packet.size()) ||
      packet.size() > mtu() || link_.is_broadcast(ends->destination) ||
      ends->destination.is_multicast()) {
    return false;
  }
  const auto neighbor = link_.next_hop(ends->destination);
  const auto hardware = neighbor ? link_.find(*neighbor, now) : std::nullopt;
  if (!hardware || !connections_.sends_partial_checksums(*hardware)) {
    return false;
  }
  const auto header = wire::pack(ConnectedEncapsulation{
      .type = ends->source.is_v6() ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4,
      .checksum_start = checksum.start,
      .checksum_at = checksum.at});
  const auto ready = connections_.send_at_once(*hardware, header.size() + packet.size(), now);
  if (!ready || !send_connected_(*ready, header, packet)) {
    return false;
  }
  ++counters_.tx_partial_checksums;
  count_sent(packet, false);
  return true;
}

/// Multicast is always by datagrams (RFC 4755 §2.1).
void Interface::transmit_to_group(const IpAddress& group, ByteSpan packet, Instant now) {
  if (packet.size() > datagram_mtu()) {
    return send_cut(packet, datagram_mtu(),
                    [&](ByteSpan fragment) { transmit_to_group(group, fragment, now); });
  }
  count_sent(packet, true);
  groups_.send(group, encapsulate(packet), now);
}

void Interface::transmit_to_neighbor(const IpAddress& neighbor, ByteSpan packet, Instant now) {
  if (packet.size() > mtu()) {
    return send_cut(packet, mtu(),
                    [&](ByteSpan fragment) { transmit_to_neighbor(neighbor, fragment, now); });
  }
  if (const auto hardware = link_.find(neighbor, now)) {
    return send_to(*hardware, packet, now);
  }
  wait_for(neighbor, packet, now);
}

void Interface::send_to(const wire::IpoibHardwareAddress& hardware, ByteSpan packet, Instant now) {
  using Outcome = ConnectionTable::Outcome;
  const auto send = [&](ByteSpan fragment) { send_to(hardware, fragment, now); };
  const Outcome outcome = send_connected(hardware, packet, now);
  if (outcome == Outcome::TooBig) {
    return send_cut(packet, *connections_.mtu_to(hardware), send);
  }
  if (outcome == Outcome::Datagram) {
    if (packet.size() > datagram_mtu()) {
      return send_cut(packet, datagram_mtu(), send);
    }
    paths_.send(hardware, encapsulate(packet), now);
  }
  count_sent(packet, false);
}

ConnectionTable::Outcome Interface::send_connected(const wire::IpoibHardwareAddress& hardware,
                                                   ByteSpan packet, Instant now) {
  using Outcome = ConnectionTable::Outcome;
  if (options_.mode == ConnectedMode::None) {
    return Outcome::Datagram;
  }
  if (send_connected_) {
    const auto header = encapsulation_of(packet);
    const auto ready = connections_.send_at_once(hardware, header.size() + packet.size(), now);
    if (ready && send_connected_(*ready, header, packet)) {
      return Outcome::Taken;
    }
  }
  return connections_.send(hardware, encapsulate(packet), now);
}

template <class Send>
void Interface::send_cut(ByteSpan packet, std::uint32_t limit, Send send) {
  const auto fragments = fragments_of(packet, limit);
  if (fragments.empty()) {
    return refuse_too_big(packet, limit);
  }
  ++counters_.tx_fragmented;
  for (const Packet& fragment : fragments) {
    send(fragment);
  }
}

void Interface::refuse_too_big(ByteSpan packet, std::uint32_t limit) {
  ++counters_.tx_too_big;
  if (auto answer = make_too_big(packet, limit)) {
    deliveries_.push_back(std::move(*answer));
  }
}

void Interface::wait_for(const IpAddress& neighbor, ByteSpan packet, Instant now) {
  const bool is_known = waiting_.contains(neighbor);
  if ((!is_known && waiting_.size() >= options_.neighbors_waited_for) ||
      (!is_known && !link_.solicit(neighbor, now + options_.resolution, now))) {
    ++counters_.tx_unresolved;
    return;
  }
  Waiting& waiting = waiting_[neighbor];
  waiting.until = is_known ? waiting.until : now + options_.resolution;
  if (waiting.packets.size() >= options_.packets_of_neighbor) {
    ++counters_.tx_unresolved;
    return;
  }
  waiting.packets.emplace_back(packet.begin(), packet.end());
}

void Interface::flush_resolved(Instant now) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const auto current = one++;
    const auto hardware = link_.find(current->first, now);
    if (!hardware) {
      continue;
    }
    const auto packets = std::move(current->second.packets);
    waiting_.erase(current);
    for (const Packet& packet : packets) {
      send_to(*hardware, packet, now);
    }
  }
}

void Interface::follow_listening(ByteSpan packet, Instant now) {
  for (const Listening& one : listenings_of(packet)) {
    groups_.set_listening(one.group, one.is_member, now);
  }
}

void Interface::handle_payload(const ReceivedPayload& received, Instant /*now*/) {
  const auto group = link_.group();
  if (!group || received.qkey != group->qkey || !received.pkey.matches(group->pkey)) {
    ++counters_.rx_wrong_key;
    return;
  }
  const bool is_wanted = !received.mgid || *received.mgid == group->mgid ||
                         groups_.is_listening(*received.mgid) ||
                         planted(PlantedBug::AnyGroupDelivered);
  if (!is_wanted) {
    ++counters_.rx_unwanted;
    return;
  }
  deliver(received.payload, received.mgid.has_value());
}

void Interface::handle_connected(ConnectionId id, ByteSpan payload) {
  const auto header = wire::parse<ConnectedEncapsulation>(payload);
  const bool is_told = header && connections_.receives_partial_checksums(id);
  deliver(payload, false,
          is_told ? PartialChecksum{.start = header->checksum_start, .at = header->checksum_at}
                  : PartialChecksum{});
}

void Interface::deliver(ByteSpan payload, bool is_multicast, PartialChecksum checksum) {
  const auto header = wire::parse<wire::IpoibEncapsulation>(payload);
  if (header && header->type == wire::kEtherTypeArp) {
    return;  // neighbour discovery's, which has it already
  }
  const ByteSpan packet = header ? payload.subspan(kHeaderBytes) : ByteSpan{};
  const auto ends = ends_of(packet);
  const bool is_v6 = header && header->type == wire::kEtherTypeIpv6;
  const bool is_v4 = header && header->type == wire::kEtherTypeIpv4;
  if (!ends || (is_v6 ? !ends->source.is_v6() : !is_v4 || !ends->source.is_v4()) ||
      (!checksum.is_complete() && !checksum.fits(packet.size()))) {
    ++counters_.rx_malformed;
    return;
  }
  ++counters_.rx_packets;
  counters_.rx_bytes += packet.size();
  counters_.rx_multicast += is_multicast ? 1U : 0U;
  counters_.rx_partial_checksums += checksum.is_complete() ? 0U : 1U;
  if (deliver_) {
    deliver_(packet, checksum);
  } else {
    deliveries_.emplace_back(packet.begin(), packet.end());
  }
}

void Interface::count_sent(ByteSpan packet, bool is_multicast) {
  ++counters_.tx_packets;
  counters_.tx_bytes += packet.size();
  counters_.tx_multicast += is_multicast ? 1U : 0U;
}

void Interface::link_changed(Instant now) {
  const auto group = link_.group();
  const bool is_up = group && datagram_mtu() >= kLeastMtu;
  const bool was_up = std::exchange(is_up_, is_up);
  if (is_up && !was_up) {
    groups_.link_up(*group, now);
  } else if (!is_up && was_up) {
    groups_.link_down();
    paths_.clear();
    connections_.end_all();
    for (const auto& [neighbor, waiting] : std::exchange(waiting_, {})) {
      counters_.tx_link_down += waiting.packets.size();
    }
  }
  flush_resolved(now);
}

void Interface::handle_timeout(Instant now) {
  flush_resolved(now);
  std::erase_if(waiting_, [&](const auto& one) {
    const bool is_over = one.second.until <= now;
    counters_.tx_unresolved += is_over ? one.second.packets.size() : 0;
    return is_over;
  });
  groups_.handle_timeout(now);
  paths_.handle_timeout(now);
  connections_.handle_timeout(now);
}

Instant Interface::deadline() const {
  Instant first = std::min({groups_.deadline(), paths_.deadline(), connections_.deadline()});
  for (const auto& [neighbor, waiting] : waiting_) {
    first = std::min(first, waiting.until);
  }
  return first;
}

std::optional<Packet> Interface::poll_delivery() {
  if (deliveries_.empty()) {
    return std::nullopt;
  }
  Packet packet = std::move(deliveries_.front());
  deliveries_.pop_front();
  return packet;
}

std::vector<std::byte> dhcp_client_identifier(Guid port_guid, std::uint32_t iaid) {
  constexpr std::uint8_t kNodeSpecific = 255;  // RFC 4361 §6.1
  constexpr std::uint16_t kLinkLayer = 3;      // DUID-LL, RFC 8415 §11.4
  std::vector<std::byte> identifier{std::byte{kNodeSpecific}};
  const auto append = [&](std::uint64_t number, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;) {
      identifier.push_back(static_cast<std::byte>(number >> (8 * i)));
    }
  };
  append(iaid, 4);
  append(kLinkLayer, 2);
  append(wire::kArpHardwareInfiniBand, 2);
  append(port_guid.value(), 8);
  return identifier;
}

}  // namespace weft::ipoib
