#include "programs/net/port_stack.h"

#include <algorithm>
#include <array>
#include <utility>

#include "os/clock.h"

namespace weft::programs::net {
namespace {

// Policy.
constexpr int kMadsOfTurn = 16;
constexpr Duration kLeavesWithin = Duration::milliseconds(500);

}  // namespace

PortStack::PortStack(Options options, std::unique_ptr<UdPort> ud, SaPort sa,
                     const sa::LocalPort& port)
    : options_(std::move(options)),
      ud_(std::move(ud)),
      sa_(std::move(sa)),
      port_guid_(port.gids.empty() ? Guid{} : port.gids.front().interface_id()),
      stack_({.qpn = ud_->qpn(),
              .mtu = options_.mtu,
              .mode = options_.mode,
              .partial_checksums = ConnectedPort::knows_captures()},
             port, os::now()),
      pkey_(stack_.pkey()) {}

Result<std::unique_ptr<PortStack>> PortStack::open(const Options& options) {
  auto ud = UdPort::open(options.port_of_host, options.partition);
  if (!ud) {
    return std::unexpected(std::move(ud.error()));
  }
  auto sa = SaPort::open((*ud)->device(), (*ud)->port());
  if (!sa) {
    return std::unexpected(std::move(sa.error()));
  }
  const auto port = (*ud)->attributes();
  if (!port) {
    return std::unexpected(port.error());
  }
  std::unique_ptr<PortStack> made{
      new PortStack{options, *std::move(ud), *std::move(sa), *port}
  };
  if (options.mode != ipoib::ConnectedMode::None) {
    if (auto opened = made->open_connected(); !opened) {
      return std::unexpected(std::move(opened.error()));
    }
  }
  return made;
}

Result<void> PortStack::open_connected() {
  ipoib::ConnectionTable& table = stack_.connections();
  auto opened = ConnectedPort::open(
      {.device = ud_->device(),
       .ud_qpn = ud_->qpn(),
       .mode = options_.mode,
       .partial_checksums = ConnectedPort::knows_captures()},
      {.established = [&](ipoib::ConnectionId id,
                          ByteSpan data) { table.established(id, data, os::now()); },
       .refused = [&](ipoib::ConnectionId id) { table.refused(id, os::now()); },
       .lost = [&](ipoib::ConnectionId id) { stack_.connection_lost(id, os::now()); },
       .accept = [&](ipoib::ConnectionId id, ByteSpan data) { return table.accept(id, data); },
       .closed = [&](ipoib::ConnectionId id) { table.closed(id); },
       .receive = [&](ipoib::ConnectionId id,
                      ByteSpan payload) { stack_.handle_connected(id, payload); }});
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  connected_ = *std::move(opened);
  stack_.send_connected_by([this](ipoib::ConnectionId id, ByteSpan header, ByteSpan packet) {
    return connected_->send_at_once(id, header, packet);
  });
  return {};
}

std::vector<int> PortStack::descriptors() const {
  std::vector<int> all{sa_.fd(), ud_->completions_fd(), ud_->events_fd()};
  if (connected_) {
    all.insert(all.end(), {connected_->events_fd(), connected_->completions_fd()});
  }
  return all;
}

bool PortStack::set_ready(int fd) {
  const std::array<bool*, 5> flags{&ready_.mads, &ready_.completions, &ready_.events,
                                   &ready_.connections, &ready_.connected_completions};
  const auto all = descriptors();
  const auto found = std::ranges::find(all, fd);
  if (found == all.end()) {
    return false;
  }
  *flags.at(static_cast<std::size_t>(found - all.begin())) = true;
  return true;
}

Result<bool> PortStack::receive(Instant now) {
  if (auto taken = take_events(now); !taken) {
    return std::unexpected(std::move(taken.error()));
  }
  const auto more_mads = take_mads(now);
  if (!more_mads) {
    return more_mads;
  }
  bool more = ud_->handle_completions(
      std::exchange(ready_.completions, false),
      [&](const mad::ReceivedDatagram& datagram) { stack_.handle_datagram(datagram, now); });
  if (connected_) {
    if (std::exchange(ready_.connections, false)) {
      connected_->take_events();
    }
    more |= connected_->handle_completions(std::exchange(ready_.connected_completions, false));
  }
  return *more_mads || more;
}

Result<void> PortStack::take_events(Instant now) {
  if (!std::exchange(ready_.events, false)) {
    return {};
  }
  bool has_changed = false;
  for (UdPort::Event event = ud_->take_event(); event != UdPort::Event::None;
       event = ud_->take_event()) {
    if (event == UdPort::Event::Gone) {
      return fail(ErrorCode::NoSuchDevice, "the fabric or the device is gone");
    }
    if (event == UdPort::Event::Reregister) {
      ++reregistrations_;
    }
    has_changed = true;
  }
  if (!has_changed) {
    return {};
  }
  auto port = ud_->attributes();
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  if (options_.partition && (port->pkeys.empty() || port->pkeys.front() != pkey_)) {
    return fail(ErrorCode::NoSuchDevice, "{}: the port has left the partition", options_.name);
  }
  port->reregistrations = reregistrations_;
  stack_.set_port(*port, now);
  return {};
}

Result<bool> PortStack::take_mads(Instant now) {
  if (!std::exchange(ready_.mads, false)) {
    return false;
  }
  for (int turn = 0; turn < kMadsOfTurn; ++turn) {
    const auto received = sa_.receive();
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received) {
      return false;
    }
    stack_.handle_mad((*received)->address, (*received)->bytes, now);
  }
  ready_.mads = true;
  return true;
}

MutableByteSpan PortStack::lend(MutableByteSpan otherwise) {
  return connected_ ? connected_->lend(otherwise) : otherwise;
}

void PortStack::give_back() {
  if (connected_) {
    connected_->give_back();
  }
}

bool PortStack::transmit_partial(ByteSpan packet, ipoib::PartialChecksum checksum, Instant now) {
  return connected_ && connected_->may_send_partial_checksums() &&
         stack_.transmit_partial(packet, checksum, now);
}

bool PortStack::has_room() const {
  return ud_->has_room() && (!connected_ || connected_->has_room());
}

bool PortStack::send_all(Instant now) {
  while (const auto mad = stack_.poll_mad(now)) {
    sa_.send(*mad);
  }
  while (connected_ && connected_->has_room()) {
    auto action = stack_.connections().poll_action();
    if (!action) {
      break;
    }
    connected_->perform(std::move(*action), stack_.pkey());
  }
  while (ud_->has_room()) {
    const auto datagram = stack_.poll_datagram();
    if (!datagram) {
      return !has_room();
    }
    ud_->send(*datagram);
  }
  return true;
}

Result<void> PortStack::follow_link() {
  if (const auto qkey = stack_.qkey()) {
    if (auto set = ud_->set_qkey(*qkey); !set) {
      return set;
    }
  }
  return ud_->set_attachments(stack_.attachments());
}

Result<void> PortStack::stop() {
  stack_.stop(os::now());
  const Instant end = os::now() + kLeavesWithin;
  for (int turn = 0; turn < kMadsOfTurn && os::now() < end; ++turn) {
    stack_.handle_timeout(os::now());
    static_cast<void>(send_all(os::now()));
  }
  return ud_->set_attachments({});
}

}  // namespace weft::programs::net
