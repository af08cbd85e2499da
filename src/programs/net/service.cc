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
#include "programs/net/active_backup.h"
#include "programs/net/addresses.h"
#include "programs/net/host_interface.h"

namespace weft::programs::net {
namespace {

// Policy.
constexpr int kPacketsOfTurn = 64;
constexpr Duration kComesUpWithin = Duration::seconds(15);
constexpr Duration kStuckPause = Duration::milliseconds(1);
constexpr Duration kTentativePause = Duration::milliseconds(5);

[[nodiscard]] std::optional<std::uint32_t> mtu_if_up(const std::string& interface) {
  const auto mtu = mtu_of(interface);
  return mtu ? std::optional{*mtu} : std::nullopt;
}

/// An interface of IPv6 has one, whatever others it is given (RFC 4291 §2.8).
[[nodiscard]] ServiceOptions with_link_local(ServiceOptions options, Guid port_guid) {
  if (port_guid != Guid{} && has_ipv6(options.name)) {
    options.addresses.push_back(link_local_address(port_guid));
  }
  return options;
}

}  // namespace

Service::Service(ServiceOptions options, Parts parts)
    : options_(std::move(options)),
      tun_(std::move(parts.tun)),
      ports_(std::move(parts.ports)),
      control_(std::move(parts.control)),
      interfaces_(std::move(parts.interfaces)),
      buffer_(Tun::kLongestPacket),
      // A full queue drops, as any interface's.
      coalescer_([this](const offload::Offload& offload, ByteSpan packet) {
        tun_.write(offload, packet);
      }) {
  for (const auto& port : ports_) {
    port->stack().deliver_to(
        [this, &port = *port](ByteSpan packet, ipoib::PartialChecksum checksum) {
          deliver(port, packet, checksum);
        });
  }
  stack().set_addresses(options_.addresses, os::now());
}

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
  std::vector<std::unique_ptr<PortStack>> ports;
  for (const std::uint32_t port : options.ports) {
    auto opened = PortStack::open({.name = options.name,
                                   .port_of_host = port,
                                   .partition = options.partition,
                                   .mtu = options.mtu,
                                   .mode = options.mode});
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    ports.push_back(*std::move(opened));
  }
  auto control = Control::listen(options.service);
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  auto interfaces = watch_interfaces();
  if (!interfaces) {
    return std::unexpected(std::move(interfaces.error()));
  }
  auto all = with_link_local(options, ports.front()->port_guid());
  std::unique_ptr<Service> service{
      new Service{std::move(all), Parts{.tun = *std::move(tun),
                                        .ports = std::move(ports),
                                        .control = *std::move(control),
                                        .interfaces = *std::move(interfaces)}}
  };
  service->signals_ = os::UniqueFd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (auto watched = service->watch(); !watched) {
    return std::unexpected(std::move(watched.error()));
  }
  return service;
}

Result<void> Service::watch() {
  poll_ = os::UniqueFd{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<int> all{signals_.get(), tun_.fd(), interfaces_.fd()};
  for (const auto& port : ports_) {
    const auto of_port = port->descriptors();
    all.insert(all.end(), of_port.begin(), of_port.end());
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
    if (!is_told_ && up_until <= now) {
      return fail(ErrorCode::TimedOut, "{} does not come up: {}", options_.name,
                  is_made_ ? "the kernel lets nobody use its IPv6 addresses yet (ip -6 address)"
                           : "the port is not active, or no subnet manager answers (weft status)");
    }
    Instant until = *has_more ? now : deadline();
    if (is_stuck_) {
      until = std::max(until, now + kStuckPause);
    }
    if (!is_told_) {
      until = std::min(until, is_made_ ? now + kTentativePause : up_until);
    }
    const auto goes_on = wait(until);
    if (!goes_on) {
      return std::unexpected(goes_on.error());
    }
    if (!*goes_on) {
      break;
    }
  }
  for (const auto& port : ports_) {  // in order: groups are left, so that SA need not find out
    if (auto stopped = port->stop(); !stopped) {
      return stopped;
    }
  }
  return {};
}

Instant Service::deadline() const {
  Instant first = Instant::never();
  for (const auto& port : ports_) {
    first = std::min(first, port->stack().deadline());
  }
  return first;
}

/// True: there is more to do at once.
Result<bool> Service::work(Instant now) {
  follow_host(now);
  bool has_more = false;
  for (const auto& port : ports_) {
    const auto more = port->receive(now);
    if (!more) {
      return more;
    }
    has_more = has_more || *more;
  }
  const bool more_packets = take_packets(now);
  answer_kernel(now);
  run_stacks(now);
  follow_ports(now);
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
  return !is_stuck && (has_more || more_packets);
}

void Service::run_stacks(Instant now) {
  for (const auto& port : ports_) {
    port->stack().handle_timeout(now);
  }
}

/// False: there is none, or no room for one.
bool Service::take_packet(Instant now) {
  if (!active().has_room()) {
    return false;
  }
  const auto packet = tun_.read(active().lend(buffer_));
  if (packet && !transmit_partial(*packet, now)) {
    static_cast<void>(segmenter_.split(packet->offload, packet->packet, 0,
                                       [&](ByteSpan one) { stack().transmit(one, now); }));
  }
  active().give_back();
  return packet.has_value();
}

/// While a QP takes no more, packets wait in the TUN, whose queue is the host's.
bool Service::take_packets(Instant now) {
  for (int turn = 0; turn < kPacketsOfTurn; ++turn) {
    if (!take_packet(now)) {
      return false;
    }
    if (turn % 8 == 7) {  // so that what is sent does not wait for the whole turn
      run_stacks(now);
      if (send_all(now)) {
        return false;
      }
    }
  }
  return true;
}

/// Of a packet that the host wants sent whole, for whoever takes it as it is.
bool Service::transmit_partial(const Tun::Sent& sent, Instant now) {
  constexpr std::uint16_t kMost = 0xFF;  // of PartialChecksum
  const offload::Offload& left = sent.offload;
  return left.needs_checksum && left.segments == offload::Segments::One &&
         left.checksum_start <= kMost && left.checksum_at <= kMost &&
         active().transmit_partial(sent.packet,
                                   {.start = static_cast<std::uint8_t>(left.checksum_start),
                                    .at = static_cast<std::uint8_t>(left.checksum_at)},
                                   now);
}

/// True: the active port takes no more now, and its next completion goes on.
bool Service::send_all(Instant now) {
  take_output();
  bool is_stuck = false;
  for (const auto& port : ports_) {
    const bool is_full = port->send_all(now);
    is_stuck = is_stuck || (is_full && port.get() == &active());
  }
  return is_stuck;
}

/// What comes by a port that is not active is not for the host, which has it by the other: groups
/// are joined on both.
void Service::deliver(const PortStack& port, ByteSpan packet, ipoib::PartialChecksum checksum) {
  if (!is_made_ || &port != &active()) {
    return;
  }
  if (checksum.is_complete()) {
    coalescer_.add(packet);
    return;
  }
  coalescer_.pass(
      {.needs_checksum = true, .checksum_start = checksum.start, .checksum_at = checksum.at},
      packet);
}

void Service::take_output() {
  for (const auto& port : ports_) {
    while (const auto packet = port->stack().poll_delivery()) {
      deliver(*port, *packet);
    }
    while (const auto found = port->stack().poll_neighbor()) {
      if (kernel_) {
        static_cast<void>(kernel_->answer(found->address, found->gid));  // else it has ended
      }
    }
  }
  coalescer_.flush();
}

/// Another port takes the place of one that is down, with the addresses, which it announces, and
/// the groups that the host listens to (Documentation/networking/bonding of Linux, active-backup
/// with fail_over_mac=active: the link address is the active port's).
void Service::follow_ports(Instant now) {
  std::array<bool, kMostPorts> is_up{};
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    is_up.at(port) = ports_[port]->stack().is_up();
  }
  const std::size_t chosen = choose_active(active_, std::span{is_up}.first(ports_.size()));
  if (chosen == active_) {
    return;
  }
  if (kernel_) {
    static_cast<void>(tell_addresses({}));  // so that they are the other port's at once
    kernel_.reset();
  }
  IpoibStack& before = stack();
  active_ = chosen;
  before.set_addresses({}, now);
  stack().listen_as(before, now);
  stack().set_addresses(options_.addresses, now);
  if (is_made_) {
    fmt::print(stderr, "weft-net: {}: port {} carries it from now on\n", options_.name,
               active().port_of_host() + 1);
    tell_kernel();
  }
}

Result<void> Service::follow_link() {
  for (const auto& port : ports_) {
    if (auto followed = port->follow_link(); !followed) {
      return followed;
    }
  }
  hold_groups();
  const bool is_up = stack().is_up();
  if (is_up && !std::exchange(is_made_, true)) {
    mtu_ = stack().mtu();
    if (auto made = tun_.bring_up(mtu_, options_.addresses); !made) {
      return made;
    }
    made_ = {.mtu = mtu_, .addresses = options_.addresses};
    tell_kernel();
  }
  if (is_made_ && !is_told_ && !has_tentative_address(options_.name)) {
    is_told_ = true;
    on_up_(made_);
  }
  if (is_up != was_up_ && is_made_) {
    tun_.set_carrier(is_up);
  }
  was_up_ = is_up;
  return is_up ? follow_mtu() : Result<void>{};
}

/// The group's MTU is another, or the parent's.
Result<void> Service::follow_mtu() {
  if (stack().mtu() == mtu_) {
    return {};
  }
  mtu_ = stack().mtu();
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
    stack().set_parent_mtu(*mtu);
  }
  if (!is_made_) {
    return;
  }
  auto addresses = prefixed_addresses_of(options_.name);
  if (!std::ranges::is_permutation(addresses, options_.addresses)) {
    options_.addresses = addresses;
    stack().set_addresses(std::move(addresses), now);
    tell_kernel();
  }
}

/// Without it the interface is one all the same, so that it goes on when it is refused.
void Service::tell_kernel() {
  const auto told = tell_addresses(options_.addresses);
  if (!told) {
    fmt::print(stderr, "weft-net: RDMA-CM does not have the addresses of {}: {}\n", options_.name,
               told.error().reason);
    kernel_.reset();
  }
}

Result<void> Service::tell_addresses(std::span<const InterfaceAddress> addresses) {
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
  return kernel_->set({.port_of_host = active().port_of_host(), .pkey = stack().pkey()}, addresses);
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
      stack().find_neighbor((*question)->neighbor, now + (*question)->within, now);
    } else {
      return;
    }
  }
}

/// Killed, this process leaves none of them itself.
void Service::hold_groups() {
  auto groups = stack().sent_to();
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
    const bool is_of_port =
        std::ranges::any_of(ports_, [fd](const auto& port) { return port->set_ready(fd); });
    const bool is_of_kernel = kernel_ && fd == kernel_->fd();
    ready_.kernel = ready_.kernel || is_of_kernel;
    ready_.interfaces = ready_.interfaces || fd == interfaces_.fd();
    // The rest is the control socket's.
    const bool is_known = is_of_port || is_of_kernel || fd == interfaces_.fd() || fd == tun_.fd();
    ready_.questions = ready_.questions || !is_known;
  }
  return true;
}

}  // namespace weft::programs::net
