#include "programs/net/service.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "os/clock.h"
#include "programs/net/addresses.h"
#include "programs/net/host_interface.h"

namespace weft::programs::net {
namespace {

// Policy.
constexpr int kPacketsOfTurn = 64;
constexpr int kMadsOfTurn = 16;
constexpr Duration kComesUpWithin = Duration::seconds(15);
constexpr Duration kLeavesWithin = Duration::milliseconds(500);
constexpr Duration kStuckPause = Duration::milliseconds(1);

[[nodiscard]] std::optional<std::uint32_t> mtu_if_up(const std::string& interface) {
  const auto mtu = mtu_of(interface);
  return mtu ? std::optional{*mtu} : std::nullopt;
}

/// An interface of IPv6 has one, whatever others it is given (RFC 4291 §2.8).
[[nodiscard]] ServiceOptions with_link_local(ServiceOptions options, const sa::LocalPort& port) {
  if (!port.gids.empty() && has_ipv6(options.name)) {
    options.addresses.push_back(link_local_address(port.gids.front().interface_id()));
  }
  return options;
}

}  // namespace

Service::Service(ServiceOptions options, Parts parts)
    : options_(std::move(options)),
      ud_(std::move(parts.ud)),
      sa_(std::move(parts.sa)),
      tun_(std::move(parts.tun)),
      port_(parts.port),
      stack_({.qpn = ud_->qpn(),
              .addresses = options_.addresses,
              .mtu = options_.mtu,
              .mode = options_.mode},
             port_, os::now()),
      control_(std::move(parts.control)),
      interfaces_(std::move(parts.interfaces)),
      buffer_(Tun::kLongestPacket),
      // A full queue drops, as any interface's.
      coalescer_([this](const offload::Offload& offload, ByteSpan packet) {
        tun_.write(offload, packet);
      }),
      pkey_(stack_.pkey()) {}

Result<std::unique_ptr<Service>> Service::start(const ServiceOptions& options) {
  // Before libibverbs makes threads, which inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto tun = Tun::make(options.name);
  if (!tun) {
    return std::unexpected(std::move(tun.error()));
  }
  auto ud = UdPort::open(options.partition);
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
  auto control = Control::listen(options.service);
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  auto interfaces = watch_interfaces();
  if (!interfaces) {
    return std::unexpected(std::move(interfaces.error()));
  }
  std::unique_ptr<Service> service{
      new Service{with_link_local(options, *port), Parts{.tun = *std::move(tun),
                                                         .ud = *std::move(ud),
                                                         .sa = *std::move(sa),
                                                         .port = *port,
                                                         .control = *std::move(control),
                                                         .interfaces = *std::move(interfaces)}}
  };
  service->signals_ = os::UniqueFd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (options.mode != ipoib::ConnectedMode::None) {
    if (auto opened = service->open_connected(); !opened) {
      return std::unexpected(std::move(opened.error()));
    }
  }
  if (auto watched = service->watch(); !watched) {
    return std::unexpected(std::move(watched.error()));
  }
  return service;
}

Result<void> Service::open_connected() {
  ipoib::ConnectionTable& table = stack_.connections();
  auto opened = ConnectedPort::open(
      {.device = ud_->device(), .ud_qpn = ud_->qpn(), .mode = options_.mode},
      {.established = [&](ipoib::ConnectionId id,
                          ByteSpan data) { table.established(id, data, os::now()); },
       .refused = [&](ipoib::ConnectionId id) { table.refused(id, os::now()); },
       .lost = [&](ipoib::ConnectionId id) { stack_.connection_lost(id, os::now()); },
       .accept = [&](ipoib::ConnectionId id, ByteSpan data) { return table.accept(id, data); },
       .closed = [&](ipoib::ConnectionId id) { table.closed(id); },
       .receive = [&](ByteSpan payload) { stack_.handle_connected(payload); }});
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  connected_ = *std::move(opened);
  return {};
}

Result<void> Service::watch() {
  poll_ = os::UniqueFd{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<int> all{signals_.get(),        tun_.fd(),        sa_.fd(),
                       ud_->completions_fd(), ud_->events_fd(), interfaces_.fd()};
  if (connected_) {
    all.insert(all.end(), {connected_->events_fd(), connected_->completions_fd()});
  }
  for (const int fd : all) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return fail(ErrorCode::Io, "epoll: {}", std::strerror(errno));
    }
  }
  return watch_control();
}

/// The listener, and whoever has connected since; a descriptor that is closed is no longer watched.
Result<void> Service::watch_control() {
  for (const int fd : control_.descriptors()) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) {
      return fail(ErrorCode::Io, "epoll: {}", std::strerror(errno));
    }
  }
  return {};
}

Result<void> Service::run(const std::function<void(const Up&)>& on_up) {
  on_up_ = on_up;
  const Instant up_until = os::now() + kComesUpWithin;
  while (true) {
    const Instant now = os::now();
    const auto has_more = work(now);
    if (!has_more) {
      return std::unexpected(has_more.error());
    }
    if (!is_made_ && up_until <= now) {
      return fail(ErrorCode::TimedOut,
                  "{} does not come up: the port is not active, or no subnet manager answers "
                  "(weft status)",
                  options_.name);
    }
    Instant until = *has_more ? now : stack_.deadline();
    if (is_stuck_) {
      until = std::max(until, now + kStuckPause);
    }
    until = is_made_ ? until : std::min(until, up_until);
    const auto goes_on = wait(until);
    if (!goes_on) {
      return std::unexpected(goes_on.error());
    }
    if (!*goes_on) {
      break;
    }
  }
  // In order: groups are left, so that SA need not find out.
  stack_.stop(os::now());
  const Instant end = os::now() + kLeavesWithin;
  for (int turn = 0; turn < kMadsOfTurn && os::now() < end; ++turn) {
    stack_.handle_timeout(os::now());
    static_cast<void>(send_all(os::now()));
  }
  return ud_->set_attachments({});
}

/// True: there is more to do at once.
Result<bool> Service::work(Instant now) {
  if (auto taken = take_events(now); !taken) {
    return std::unexpected(std::move(taken.error()));
  }
  follow_host(now);
  const auto more_mads = take_mads(now);
  if (!more_mads) {
    return more_mads;
  }
  bool more_received = ud_->handle_completions(
      std::exchange(ready_.completions, false),
      [&](const mad::ReceivedDatagram& datagram) { stack_.handle_datagram(datagram, now); });
  if (connected_) {
    if (std::exchange(ready_.connections, false)) {
      connected_->take_events();
    }
    more_received |=
        connected_->handle_completions(std::exchange(ready_.connected_completions, false));
  }
  const bool more_packets = take_packets(now);
  answer_kernel(now);
  stack_.handle_timeout(now);
  const bool is_stuck = send_all(now);
  if (is_stuck != std::exchange(is_stuck_, is_stuck)) {
    watch_tun(!is_stuck);
  }
  if (auto followed = follow_link(); !followed) {
    return std::unexpected(std::move(followed.error()));
  }
  if (std::exchange(ready_.questions, false)) {
    control_.handle([this](std::string_view line) { return answer(line); });
    if (auto watched = watch_control(); !watched) {
      return std::unexpected(std::move(watched.error()));
    }
  }
  return !is_stuck && (*more_mads || more_received || more_packets);
}

Result<void> Service::take_events(Instant now) {
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

Result<bool> Service::take_mads(Instant now) {
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

bool Service::has_room() const {
  return ud_->has_room() && (!connected_ || connected_->has_room());
}

/// While a QP takes no more, packets wait in the TUN, whose queue is the host's.
bool Service::take_packets(Instant now) {
  for (int turn = 0; turn < kPacketsOfTurn; ++turn) {
    const auto packet = has_room() ? tun_.read(buffer_) : std::nullopt;
    if (!packet) {
      return false;
    }
    static_cast<void>(segmenter_.split(packet->offload, packet->packet, 0,
                                       [&](ByteSpan one) { stack_.transmit(one, now); }));
    if (turn % 8 == 7) {  // so that what is sent does not wait for the whole turn
      stack_.handle_timeout(now);
      if (send_all(now)) {
        return false;
      }
    }
  }
  return true;
}

/// True: the QP takes no more now, and its next completion goes on.
bool Service::send_all(Instant now) {
  while (const auto mad = stack_.poll_mad(now)) {
    sa_.send(*mad);
  }
  while (const auto packet = stack_.poll_delivery()) {
    if (is_made_) {
      coalescer_.add(*packet);
    }
  }
  while (const auto found = stack_.poll_neighbor()) {
    if (kernel_) {
      static_cast<void>(kernel_->answer(found->address, found->gid));  // else it has ended
    }
  }
  coalescer_.flush();
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

Result<void> Service::follow_link() {
  if (const auto qkey = stack_.qkey()) {
    if (auto set = ud_->set_qkey(*qkey); !set) {
      return set;
    }
  }
  if (auto set = ud_->set_attachments(stack_.attachments()); !set) {
    return set;
  }
  hold_groups();
  const bool is_up = stack_.is_up();
  if (is_up && !std::exchange(is_made_, true)) {
    mtu_ = stack_.mtu();
    if (auto made = tun_.bring_up(mtu_, options_.addresses); !made) {
      return made;
    }
    tell_kernel();
    on_up_({.mtu = mtu_, .addresses = options_.addresses});
  }
  if (is_up != was_up_ && is_made_) {
    tun_.set_carrier(is_up);
  }
  was_up_ = is_up;
  return is_up ? follow_mtu() : Result<void>{};
}

/// The group's MTU is another, or the parent's.
Result<void> Service::follow_mtu() {
  if (stack_.mtu() == mtu_) {
    return {};
  }
  mtu_ = stack_.mtu();
  return tun_.set_mtu(mtu_);
}

/// Addresses that somebody has given to the interface or taken from it, and the parent's MTU, which
/// the kernel's own notices say have changed; what they are now is asked anew.
void Service::follow_host(Instant now) {
  if (!std::exchange(ready_.interfaces, false)) {
    return;
  }
  bool has_more = true;
  while (has_more) {
    has_more = interfaces_.receive().value_or(std::nullopt).has_value();
  }
  // A parent that is down, or gone, leaves its child as it is.
  if (const auto mtu = options_.parent.empty() ? std::nullopt : mtu_if_up(options_.parent)) {
    stack_.set_parent_mtu(*mtu);
  }
  if (!is_made_) {
    return;
  }
  auto addresses = prefixed_addresses_of(options_.name);
  if (!std::ranges::is_permutation(addresses, options_.addresses)) {
    options_.addresses = addresses;
    stack_.set_addresses(std::move(addresses), now);
    tell_kernel();
  }
}

/// Without it the interface is one all the same, so that it goes on when it is refused.
void Service::tell_kernel() {
  const auto told = [this]() -> Result<void> {
    if (!kernel_) {
      auto opened = KernelAddresses::open();
      if (!opened) {
        return std::unexpected(std::move(opened.error()));
      }
      kernel_ = *std::move(opened);
      held_.clear();
      epoll_event event{.events = EPOLLIN, .data = {.fd = kernel_->fd()}};
      epoll_ctl(poll_.get(), EPOLL_CTL_ADD, kernel_->fd(), &event);
    }
    ready_.kernel = true;  // a question may have come before the answer
    return kernel_->set(stack_.pkey(), options_.addresses);
  }();
  if (!told) {
    fmt::print(stderr, "weft-net: RDMA-CM does not have the addresses of {}: {}\n", options_.name,
               told.error().reason);
    kernel_.reset();
  }
}

/// RDMA-CM asks for neighbours, whose table is the stack's.
void Service::answer_kernel(Instant now) {
  if (!std::exchange(ready_.kernel, false)) {
    return;
  }
  while (kernel_) {
    const auto question = kernel_->take_question();
    if (!question) {
      kernel_.reset();  // the daemon's own event says that it is gone
    } else if (*question) {
      stack_.find_neighbor((*question)->neighbor, now + (*question)->within, now);
    } else {
      return;
    }
  }
}

/// Killed, this process leaves none of them itself.
void Service::hold_groups() {
  auto groups = stack_.sent_to();
  if (kernel_ && groups != held_ && kernel_->hold_groups(groups)) {
    held_ = std::move(groups);
  }
}

/// A TUN that nobody reads would wake for nothing.
void Service::watch_tun(bool is_watched) {
  epoll_event event{.events = is_watched ? EPOLLIN : 0U, .data = {.fd = tun_.fd()}};
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, tun_.fd(), &event);
}

/// False: a signal says to end.
Result<bool> Service::wait(Instant until) {
  int timeout_ms = -1;
  if (until != Instant::never()) {
    const std::int64_t ns = (until - os::now()).nanoseconds();
    constexpr std::int64_t kMostMs = 3'600'000;
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>((ns + 999'999) / 1'000'000, 0, kMostMs));
  }
  std::array<epoll_event, 8> events{};
  const int count =
      epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  if (count < 0 && errno != EINTR) {
    return fail(ErrorCode::Io, "epoll: {}", std::strerror(errno));
  }
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == signals_.get()) {
      return false;
    }
    ready_.mads = ready_.mads || fd == sa_.fd();
    ready_.interfaces = ready_.interfaces || fd == interfaces_.fd();
    const bool is_of_kernel = kernel_ && fd == kernel_->fd();
    ready_.kernel = ready_.kernel || is_of_kernel;
    ready_.events = ready_.events || fd == ud_->events_fd();
    ready_.completions = ready_.completions || fd == ud_->completions_fd();
    if (connected_) {
      ready_.connections = ready_.connections || fd == connected_->events_fd();
      ready_.connected_completions =
          ready_.connected_completions || fd == connected_->completions_fd();
    }
    // The rest is the control socket's.
    const std::array own{tun_.fd(), sa_.fd(), ud_->events_fd(), ud_->completions_fd(),
                         interfaces_.fd()};
    const bool is_of_connections =
        connected_ && (fd == connected_->events_fd() || fd == connected_->completions_fd());
    ready_.questions = ready_.questions || (std::ranges::find(own, fd) == own.end() &&
                                            !is_of_connections && !is_of_kernel);
  }
  return true;
}

}  // namespace weft::programs::net
