#include "programs/resolver/service.h"

#include <fmt/format.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "wire/address_text.h"
#include "wire/local_service/messages.h"

namespace weft::programs::resolver {

using weft::resolver::ResolverCounters;
using weft::resolver::SaQuestion;

namespace {

// Policy.
constexpr std::size_t kDatagramsOfTurn = 256;
constexpr std::uint32_t kRoom = 4U << 20;
constexpr std::size_t kDatagramBytes = 16'384;

struct NamedCounter {
  std::string_view name;
  std::uint64_t value{};
};

[[nodiscard]] std::vector<NamedCounter> named(const ResolverCounters& counters) {
  return {
      {"requests",      counters.requests     },
      {"hits",          counters.hits         },
      {"negative_hits", counters.negative_hits},
      {"addresses",     counters.addresses    },
      {"asked_of_sa",   counters.asked        },
      {"coalesced",     counters.coalesced    },
      {"found",         counters.found        },
      {"no_data",       counters.no_data      },
      {"malformed",     counters.malformed    },
      {"invalidations", counters.invalidations},
      {"gids",          counters.gids         },
  };
}

}  // namespace

Service::Service(const ServiceOptions& options, os::NetlinkSocket netlink, Control control,
                 std::unique_ptr<SaAccess> sa)
    : netlink_(std::move(netlink)),
      control_(std::move(control)),
      sa_(std::move(sa)),
      resolver_(*this, options.resolver),
      changes_seen_(sa_->changes()) {
  netlink_.set_room(kRoom);
  // Without, all ask by netlink: status says so.
  if (auto shown =
          options.shows_paths ? ShownPaths::show() : fail(ErrorCode::NotSupported, "off")) {
    shown_.emplace(*std::move(shown));
    resolver_.show_paths(shown_->publisher());
  }
  resolver_.preload(options.preload);
  hears_gids_ = sa_->watch_gids([this](const Gid& gid, bool is_in_service, Instant) {
    resolver_.invalidate_to(gid);
    control_.push(fmt::format(R"({{"event": "gid", "gid": "{}", "in_service": {}}})",
                              wire::address_text(gid.octets()), is_in_service));
  });
  if (options.kernel_timeout_ms != 0) {
    resolver_.set_kernel_timeout(options.kernel_timeout_ms);
    flush_all();
  }
}

Result<std::unique_ptr<Service>> Service::start(const ServiceOptions& options) {
  // Before libibverbs makes threads, which inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto control = Control::listen(kServiceName);
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  auto sa = SaAccess::open();
  if (!sa) {
    return std::unexpected(std::move(sa.error()));
  }
  // Last: from now on the host's kernel asks.
  constexpr std::array kGroups{wire::local_service::kGroup};
  auto netlink = os::NetlinkSocket::open(os::NetlinkSocket::kRdma, kGroups);
  if (!netlink) {
    return std::unexpected(std::move(netlink.error()));
  }
  std::unique_ptr<Service> service{
      new Service{options, *std::move(netlink), *std::move(control), *std::move(sa)}
  };
  service->signals_ = os::UniqueFd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  return service;
}

/// Messages of one turn for one asker go as one datagram, since sending is what costs most:
/// netlink's readers, the kernel among them, take each message of a datagram (netlink(7)).
void Service::send(std::uint32_t port, std::vector<std::byte> datagram) {
  std::vector<std::byte>& waiting = answers_[port];
  if (waiting.size() + datagram.size() > kDatagramBytes) {
    flush(port);
  }
  waiting.insert(waiting.end(), datagram.begin(), datagram.end());
  waiting.resize(wire::netlink::aligned(waiting.size()));
}

void Service::flush(std::uint32_t port) {
  const auto waiting = std::exchange(answers_[port], {});
  if (!waiting.empty()) {
    // An asker that is gone, or reads nothing, has no answer: it asks SA.
    static_cast<void>(netlink_.send(port, 0, waiting));
  }
}

void Service::flush_all() {
  for (const auto& [port, waiting] : std::exchange(answers_, {})) {
    static_cast<void>(netlink_.send(port, 0, waiting));
  }
}

Gid Service::own_gid() const {
  const auto& gids = sa_->port().gids;
  return gids.empty() ? Gid{} : gids.front();
}

bool Service::ask_sa(SaQuestion question, const sa::PathQuery& wanted) {
  sa::SaClient& client = sa_->client();
  client.clear_paths_to(wanted.dgid);  // the resolver's own table is the cache
  const auto asked = client.resolve_path(
      wanted, {.asks_source = false},
      [this, question, wanted](sa::QueryId, const sa::Answer<wire::PathRecord>& path, Instant now) {
        take_path(question, wanted, path, now);
      },
      os::now());
  return asked.has_value();
}

void Service::take_path(SaQuestion question, const sa::PathQuery& wanted,
                        const sa::Answer<wire::PathRecord>& path, Instant now) {
  if (path) {
    resolver_.handle_path(question, *path, now);
  } else {
    const bool is_none = path.error().failure == sa::QueryFailure::NoPath;
    resolver_.handle_path(question,
                          fail(is_none ? ErrorCode::NetworkUnreachable : ErrorCode::TimedOut, "{}",
                               path.error().reason),
                          now);
  }
  control_.push(fmt::format(R"({{"event": "path", "dgid": "{}", "sgid": "{}", "found": {}}})",
                            wire::address_text(wanted.dgid.octets()),
                            wire::address_text(wanted.sgid.octets()), path.has_value()));
}

std::vector<pollfd> Service::watched() const {
  std::vector<pollfd> all{
      {.fd = signals_.get(), .events = POLLIN, .revents = 0},
      {.fd = netlink_.fd(),  .events = POLLIN, .revents = 0}
  };
  for (const int fd : sa_->descriptors()) {
    all.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  for (const int fd : control_.descriptors()) {
    all.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  return all;
}

Result<void> Service::run() {
  while (true) {
    std::vector<pollfd> waits = watched();
    const Instant deadline = std::min(resolver_.deadline(), sa_->deadline());
    int timeout_ms = has_more_ ? 0 : -1;
    if (!has_more_ && deadline != Instant::never()) {
      constexpr std::int64_t kMostMs = 3'600'000;
      const std::int64_t ns = (deadline - os::now()).nanoseconds();
      timeout_ms =
          static_cast<int>(std::clamp<std::int64_t>((ns + 999'999) / 1'000'000, 0, kMostMs));
    }
    if (poll(waits.data(), waits.size(), timeout_ms) < 0 && errno != EINTR) {
      return fail(ErrorCode::Io, "poll: {}", std::strerror(errno));
    }
    if (waits.front().revents != 0) {
      return {};
    }
    if (auto worked = work(ready(waits), os::now()); !worked) {
      return worked;
    }
  }
}

/// In the order of watched().
Service::Ready Service::ready(std::span<const pollfd> waits) const {
  const auto any = [](std::span<const pollfd> of) {
    return std::ranges::any_of(of, [](const pollfd& each) { return each.revents != 0; });
  };
  const std::size_t of_sa = sa_->descriptors().size();
  return {.netlink = has_more_ || any(waits.subspan(1, 1)),
          .sa = any(waits.subspan(2, of_sa)),
          .control = any(waits.subspan(2 + of_sa))};
}

/// Only where there is something, since each look is a system call.
Result<void> Service::work(const Ready& ready, Instant now) {
  if (ready.netlink) {
    const auto more = take_netlink(now);
    if (!more) {
      return std::unexpected(more.error());
    }
    has_more_ = *more;
  }
  if (ready.sa || sa_->deadline() <= now) {
    if (auto worked = sa_->work(now); !worked) {
      return worked;
    }
  } else {
    sa_->send(now);
  }
  if (std::exchange(changes_seen_, sa_->changes()) != sa_->changes()) {
    resolver_.invalidate();
    control_.push(R"({"event": "invalidated"})");
  }
  resolver_.handle_timeout(now);
  flush_all();
  if (ready.control) {
    control_.handle([this](std::string_view line) { return answer(line); });
  }
  return {};
}

/// True: there may be more.
Result<bool> Service::take_netlink(Instant now) {
  for (std::size_t taken = 0; taken < kDatagramsOfTurn;) {
    const auto received = netlink_.receive_many();
    if (!received) {
      return std::unexpected(received.error());
    }
    for (const os::NetlinkSocket::Received& each : *received) {
      if (each.is_overrun) {
        ++overruns_;  // who asked gets no answer in time, and asks SA
      } else {
        resolver_.handle_datagram(each.port, each.bytes, now);
      }
    }
    if (received->size() < os::NetlinkSocket::kTogether) {
      return false;
    }
    taken += received->size();
  }
  return true;
}

std::string Service::answer(std::string_view line) const {
  if (line == "port") {
    return fmt::format("{}\n", netlink_.port());
  }
  const bool is_json = line == "json";
  if (!is_json && line != "status") {
    return "this is asked for status, json or port, or told to watch\n";
  }
  auto counters = named(resolver_.counters());
  counters.push_back({"paths", resolver_.paths()});
  counters.push_back({"questions", resolver_.questions()});
  counters.push_back({"overruns", overruns_});
  counters.push_back({"watchers", control_.watchers()});
  counters.push_back({"hears_gids", hears_gids_ ? 1U : 0U});
  counters.push_back({"shows_paths", shown_ ? 1U : 0U});
  std::string out;
  for (const NamedCounter& counter : counters) {
    out += is_json
               ? fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", counter.name, counter.value)
               : fmt::format("{:<14}{:>12}\n", counter.name, counter.value);
  }
  return is_json ? "{" + out + "}\n" : out;
}

}  // namespace weft::programs::resolver
