#include "programs/vnic/datagram_port.h"

#include <algorithm>
#include <utility>

#include "os/clock.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"

namespace weft::programs::vnic {
namespace {

// Policy.
constexpr int kMadsOfTurn = 16;
constexpr std::size_t kMostPeers = 4'096;
constexpr std::size_t kMostManagers = 64;

/// An InfiniBand link's, whose number has four bits; Omni-Path's has five.
constexpr ServiceLevel kLastServiceLevel{15};

void learn(std::map<Lid, Qpn>& peers, Lid lid, Qpn qp, std::size_t most) {
  if (const auto known = peers.find(lid); known != peers.end()) {
    known->second = qp;
  } else if (peers.size() < most) {
    peers.emplace(lid, qp);
  }
}

/// A QP of management's partition, in which every port is (IBTA vol 1 §10.9.1.1) unless somebody
/// has set its table so that it is not; then of the first.
[[nodiscard]] Result<std::unique_ptr<net::UdPort>> open_management() {
  auto opened = net::UdPort::open(0, kDefaultPKey);
  return !opened && opened.error().code == ErrorCode::NotFound ? net::UdPort::open()
                                                               : std::move(opened);
}

}  // namespace

Result<std::unique_ptr<OpaPort>> DatagramPort::open(Use use, Handlers handlers) {
  auto mads = open_management();
  if (!mads) {
    return std::unexpected(std::move(mads.error()));
  }
  std::unique_ptr<net::UdPort> packets;
  if (use == Use::Agent) {
    auto opened = net::UdPort::open();
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    packets = *std::move(opened);
  }
  for (net::UdPort* const one : {mads->get(), packets.get()}) {
    if (one != nullptr) {
      if (auto set = one->set_qkey(kTunnelQKey); !set) {
        return std::unexpected(std::move(set.error()));
      }
    }
  }
  auto sa_mads = SaPort::open((*mads)->device(), (*mads)->port());
  if (!sa_mads) {
    return std::unexpected(std::move(sa_mads.error()));
  }
  std::unique_ptr<DatagramPort> port{
      new DatagramPort{std::move(handlers), *std::move(mads), std::move(packets),
                       *std::move(sa_mads)}
  };
  if (auto followed = port->follow_port(os::now()); !followed) {
    return std::unexpected(std::move(followed.error()));
  }
  if (port->port().is_active() && port->max_packet_bytes() < wire::kOpaMadBytes) {
    return fail(ErrorCode::NotSupported,
                "the link's MTU is {}, and MADs of virtual NICs have {} octets: give the links an "
                "MTU of 2048 or more",
                port->max_packet_bytes(), wire::kOpaMadBytes);
  }
  return port;
}

DatagramPort::DatagramPort(Handlers handlers, std::unique_ptr<net::UdPort> mads,
                           std::unique_ptr<net::UdPort> packets, SaPort sa_mads)
    : handlers_(std::move(handlers)),
      mads_(std::move(mads)),
      packets_(std::move(packets)),
      sa_mads_(std::move(sa_mads)),
      sa_(gsi_) {
  // SA knows members by port only (IBTA vol 1 §15.2.5.17), and another program of the host may be
  // in the same groups. The fabric's daemon counts attached QPs, and leaves after the last.
  sa_.set_other_owner([](const Gid&) { return Flags{wire::JoinState::FullMember}; });
}

void DatagramPort::add_to(PollSet& waits) const {
  waits.add(sa_mads_.fd());
  for (const net::UdPort* const one : {mads_.get(), packets_.get()}) {
    if (one != nullptr) {
      waits.add(one->completions_fd());
      waits.add(one->events_fd());
    }
  }
}

Result<bool> DatagramPort::work(const PollSet& waits, Instant now) {
  if (auto taken = take_events(waits, now); !taken) {
    return std::unexpected(std::move(taken.error()));
  }
  auto more = take_sa_mads(waits, now);
  if (!more) {
    return more;
  }
  *more |= mads_->handle_completions(
      waits.is_ready(mads_->completions_fd()),
      [this](const mad::ReceivedDatagram& datagram) { receive_mad(datagram); });
  if (packets_) {
    *more |= packets_->handle_completions(
        waits.is_ready(packets_->completions_fd()),
        [this](const mad::ReceivedDatagram& datagram) { receive_packet(datagram); });
  }
  handle_timeouts(now);
  while (const auto mad = gsi_.poll_transmit(now)) {
    sa_mads_.send(*mad);
  }
  if (auto attached = attach(); !attached) {
    return std::unexpected(std::move(attached.error()));
  }
  return more;
}

Result<void> DatagramPort::take_events(const PollSet& waits, Instant now) {
  bool has_changed = false;
  for (net::UdPort* const one : {mads_.get(), packets_.get()}) {
    if (one == nullptr || !waits.is_ready(one->events_fd())) {
      continue;
    }
    for (PortEvent event = one->take_event(); event != PortEvent::None; event = one->take_event()) {
      if (event == PortEvent::Gone) {
        return fail(ErrorCode::NoSuchDevice, "the fabric or the device is gone");
      }
      if (event == PortEvent::Reregister && one == mads_.get()) {
        ++reregistrations_;
      }
      has_changed = true;
    }
  }
  return has_changed ? follow_port(now) : Result<void>{};
}

Result<void> DatagramPort::follow_port(Instant now) {
  auto port = mads_->attributes();
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  if (packets_) {
    if (auto again = packets_->attributes(); !again) {
      return std::unexpected(std::move(again.error()));
    }
  }
  const auto first = mads_->first_pkey();
  if (first && (port->pkeys.empty() || port->pkeys.front() != *first)) {
    port->pkeys.insert(port->pkeys.begin(), *first);
  }
  port->reregistrations = reregistrations_;
  if (*port == sa_.port()) {
    return {};
  }
  sa_.set_port(*port, now);
  if (wants_announcement_) {
    renew_at_ = now;
  }
  next_look_ = now;
  handlers_.changed();
  return {};
}

Result<bool> DatagramPort::take_sa_mads(const PollSet& waits, Instant now) {
  if (!waits.is_ready(sa_mads_.fd())) {
    return false;
  }
  for (int turn = 0; turn < kMadsOfTurn; ++turn) {
    const auto received = sa_mads_.receive();
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received) {
      return false;
    }
    gsi_.handle_mad((*received)->address, (*received)->bytes, now);
  }
  return false;  // what is left is found again by waiting
}

void DatagramPort::receive_mad(const mad::ReceivedDatagram& datagram) {
  if (datagram.destination_qp == kMulticastQpn) {
    return;  // frames that were flooded: a manager is in its switches' groups, and forwards nothing
  }
  if (datagram.payload.size() != wire::kOpaMadBytes) {
    ++counters_.rx_truncated;
    return;
  }
  ++counters_.mads_received;
  learn(managers_, datagram.source.lid, datagram.source.qp, kMostManagers);
  handlers_.mad({.lid = datagram.source.lid,
                 .qp = datagram.source.qp,
                 .sl = datagram.source.sl,
                 .pkey = datagram.source.pkey},
                datagram.payload);
}

/// A switch of Omni-Path would not let through what does not come from its port, or is for another.
void DatagramPort::receive_packet(const mad::ReceivedDatagram& datagram) {
  if (datagram.payload.size() < wire::kSizeOf<wire::Opa16bHeader>) {
    ++counters_.rx_truncated;
    return;
  }
  const auto header =
      wire::unpack<wire::Opa16bHeader>(datagram.payload.first<wire::kSizeOf<wire::Opa16bHeader>>());
  const bool is_multicast = datagram.destination_qp == kMulticastQpn;
  const std::optional<Lid> here =
      is_multicast ? lid_of_group(datagram.destination_gid) : std::optional{port().lid};
  if (header.slid != datagram.source.lid || header.dlid != here) {
    ++counters_.rx_misrouted;
    return;
  }
  ++counters_.packets_received;
  learn(peers_, datagram.source.lid, datagram.source.qp, kMostPeers);
  handlers_.packet(datagram.payload);
}

OpaPortCounters DatagramPort::counters() const {
  OpaPortCounters all = counters_;
  for (const net::UdPort* const one : {mads_.get(), packets_.get()}) {
    all.tx_refused += one == nullptr ? 0 : one->counters().refused + one->counters().failed;
  }
  return all;
}

void DatagramPort::send_mad(const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) {
  if (to.sl > kLastServiceLevel) {
    ++counters_.mads_unroutable;
    return;
  }
  ++counters_.mads_sent;
  mads_->send({
      .source_qp = mads_->qpn(),
      .to = {.lid = to.lid, .sl = to.sl, .qp = to.qp, .qkey = kTunnelQKey, .pkey = to.pkey},
      .payload = std::move(mad)
  });
}

void DatagramPort::send_mad_to_agent(Lid to, std::vector<std::byte> mad) {
  const auto found = announced_.find(to);
  if (found == announced_.end()) {
    ++counters_.mads_unroutable;
    return;
  }
  send_mad({.lid = to, .qp = found->second.mad_qp, .pkey = port().management_pkey()},
           std::move(mad));
}

void DatagramPort::send_mad_to_manager(opa_vnic::VemaPeer to, std::vector<std::byte> mad) {
  const auto found = managers_.find(to.lid);
  if (found == managers_.end()) {
    ++counters_.mads_unroutable;
    return;
  }
  to.qp = found->second;
  send_mad(to, std::move(mad));
}

void DatagramPort::send_packet(std::vector<std::byte> packet, Instant now) {
  const auto header =
      wire::unpack<wire::Opa16bHeader>(ByteSpan{packet}.first<wire::kSizeOf<wire::Opa16bHeader>>());
  if (packet.size() > max_packet_bytes()) {
    ++counters_.tx_too_long;
    return;
  }
  if (!header.dlid.is_unicast()) {
    return send_to_group(std::move(packet), header.dlid);
  }
  const auto found = peers_.find(header.dlid);
  if (found == peers_.end()) {
    ++counters_.tx_no_peer;
    return look_up(now);
  }
  ++counters_.packets_sent;
  packets_->send({
      .source_qp = packets_->qpn(),
      .to = {.lid = header.dlid, .qp = found->second, .qkey = kTunnelQKey},
      .payload = std::move(packet)
  });
}

void DatagramPort::send_to_group(std::vector<std::byte> packet, Lid mlid) {
  const auto found = std::ranges::find_if(groups_, [&](const auto& group) {
    return group.second.record && group.second.record->mlid == mlid;
  });
  if (found == groups_.end()) {
    ++counters_.tx_no_group;
    return;
  }
  const wire::McMemberRecord& group = *found->second.record;
  if (packet.size() > verbs::bytes(verbs::mtu_of(group.mtu).value_or(verbs::Mtu::Mtu2048))) {
    ++counters_.tx_too_long;
    return;
  }
  ++counters_.packets_sent;
  packets_->send({
      .source_qp = packets_->qpn(),
      .to = {.lid = mlid,
             .sl = group.sl,
             .qp = kMulticastQpn,
             .qkey = group.qkey,
             .pkey = group.pkey,
             .path_bits = 0,
             .global = mad::GlobalRoute{.dgid = group.mgid,
                                        .flow_label = group.flow_label,
                                        .hop_limit = group.hop_limit,
                                        .traffic_class = group.tclass}},
      .payload = std::move(packet)
  });
}

}  // namespace weft::programs::vnic
