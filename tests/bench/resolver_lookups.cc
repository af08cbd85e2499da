// What a path costs on a host (weft exec --ns), from its resolver by netlink and from SA by MADs.
//
//   weft_resolver_lookups rate OUTSTANDING EACH SECONDS GID...
//   weft_resolver_lookups times GID...
//
// rate: look-ups a second of paths to these GIDs that the resolver knows, with so many requests
// outstanding, `EACH` of them in a datagram; also for each second of CPU time of this program, the
// resolver and the daemon together, which is the rate on one CPU that others use, too. times: the
// median of one look-up at a time, each GID once, after the resolver has learnt them: where it
// shows its paths in shared memory (sa/published_paths.h), as the host's kernel side looks; by
// netlink; and of SA. Prints one JSON object. Every answer is checked to be the path that was asked
// for.

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "os/clock.h"
#include "os/netlink_socket.h"
#include "programs/control/control.h"
#include "programs/host/published_paths.h"
#include "programs/host/sa_access.h"
#include "wire/local_service/messages.h"

namespace {

using weft::Duration;
using weft::Gid;
using weft::Instant;
namespace local = weft::wire::local_service;
namespace os = weft::os;

constexpr Duration kPatience = Duration::seconds(20);  // policy: with any one answer

[[noreturn]] void give_up(const std::string& reason) {
  fmt::print(stderr, "weft_resolver_lookups: {}\n", reason);
  std::exit(1);
}

template <class T>
[[nodiscard]] T need(weft::Result<T> result) {
  if (!result) {
    give_up(result.error().reason);
  }
  return *std::move(result);
}

[[nodiscard]] std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number == 0) {
    give_up(fmt::format("'{}' is no number", text));
  }
  return number;
}

[[nodiscard]] std::vector<Gid> gids_of(int count, char** words) {
  std::vector<Gid> gids;
  for (int i = 0; i < count; ++i) {
    const auto address = weft::parse_ip_address(words[i]);
    if (!address || !address->is_v6()) {
      give_up(fmt::format("'{}' is no GID", words[i]));
    }
    gids.emplace_back(address->v6_octets());
  }
  if (gids.empty()) {
    give_up("no GIDs are given");
  }
  return gids;
}

/// Questions to the resolver of this host: number n is the one for GID n modulo their number.
class Asker {
 public:
  Asker(const Gid& own, const std::vector<Gid>& gids)
      : socket_(need(os::NetlinkSocket::open(os::NetlinkSocket::kRdma, {}))),
        resolver_(static_cast<std::uint32_t>(
            number_of(first_line(need(weft::programs::ask("resolver", "port", kPatience)))))),
        own_(own),
        gids_(gids) {
    constexpr std::uint32_t kRoom = 4U << 20;
    socket_.set_room(kRoom);
  }

  /// So many datagrams with so many questions each.
  void send(std::uint64_t count, std::uint64_t each) {
    datagrams_.resize(count);
    for (std::vector<std::byte>& datagram : datagrams_) {
      datagram.clear();
      append_questions(datagram, each);
    }
    if (const auto sent = socket_.send_many(resolver_, datagrams_); !sent) {
      give_up(sent.error().reason);
    }
  }

  /// Waits for answers, and returns how many came.
  std::uint64_t receive() {
    std::uint64_t answers = 0;
    while (answers == 0) {
      pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
      if (poll(&wait, 1, static_cast<int>(kPatience.nanoseconds() / 1'000'000)) != 1) {
        give_up("the resolver does not answer");
      }
      for (auto received = need(socket_.receive_many()); !received.empty();
           received = need(socket_.receive_many())) {
        for (const auto& datagram : received) {
          answers += datagram.is_overrun ? 0 : take(datagram.bytes);
        }
      }
    }
    outstanding_ -= answers;
    return answers;
  }
  [[nodiscard]] std::uint64_t outstanding() const { return outstanding_; }

  /// CPU time so far of this program, the resolver and the daemon, nanoseconds. A netlink socket
  /// has its process's number as address, and here it is a connection to the daemon.
  [[nodiscard]] std::int64_t cpu_time_ns() const {
    ucred daemon{};
    socklen_t size = sizeof daemon;
    if (getsockopt(socket_.fd(), SOL_SOCKET, SO_PEERCRED, &daemon, &size) != 0) {
      give_up("whose daemon this is cannot be told");
    }
    std::int64_t sum = 0;
    for (const pid_t pid : {getpid(), static_cast<pid_t>(resolver_), daemon.pid}) {
      clockid_t clock{};
      timespec time{};
      if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
        give_up(fmt::format("the CPU time of process {} cannot be told", pid));
      }
      sum += time.tv_sec * 1'000'000'000LL + time.tv_nsec;
    }
    return sum;
  }

  /// Each GID once, so that the resolver knows them all.
  void teach() {
    for (std::size_t i = 0; i < gids_.size(); ++i) {
      send(1, 1);
      receive();
    }
  }

 private:
  void append_questions(std::vector<std::byte>& datagram, std::uint64_t questions) {
    for (; questions > 0; --questions) {
      const std::uint32_t sequence = next_++;
      local::append(datagram,
                    {.sequence = sequence,
                     .port = socket_.port(),
                     .flags = weft::wire::netlink::kFlagRequest},
                    local::ResolveRequest{.device_name = "weft0",
                                          .port = 1,
                                          .use = local::PathUse::Gmp,
                                          .dgid = gids_[sequence % gids_.size()],
                                          .sgid = own_});
      ++outstanding_;
    }
  }
  [[nodiscard]] static std::string_view first_line(const std::string& text) {
    return std::string_view{text}.substr(0, text.find('\n'));
  }
  [[nodiscard]] std::uint64_t take(weft::ByteSpan rest) const {
    std::uint64_t answers = 0;
    while (const auto message = weft::wire::netlink::take_message(rest)) {
      const auto answer = local::parse_resolve_answer(message->payload);
      if (local::is_error(message->header.type) || !answer || answer->paths.size() != 1 ||
          answer->paths.front().path.dgid != gids_[message->header.sequence % gids_.size()]) {
        give_up("an answer is not the path that was asked for");
      }
      ++answers;
    }
    return answers;
  }

  os::NetlinkSocket socket_;
  std::uint32_t resolver_;
  Gid own_;
  const std::vector<Gid>& gids_;
  std::uint32_t next_{};
  std::uint64_t outstanding_{};
  std::vector<std::vector<std::byte>> datagrams_;
};

[[nodiscard]] double seconds(Duration duration) {
  return static_cast<double>(duration.nanoseconds()) / 1e9;
}

[[nodiscard]] double median_us(std::vector<Duration> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return seconds(*middle) * 1e6;
}

[[nodiscard]] Gid own_gid(const weft::programs::SaAccess& access) {
  if (access.port().gids.empty()) {
    give_up("the port has no GID yet: no subnet manager?");
  }
  return access.port().gids.front();
}

void rate(std::uint64_t outstanding, std::uint64_t each, std::uint64_t duration,
          const std::vector<Gid>& gids) {
  const auto access = need(weft::programs::SaAccess::open());
  Asker asker{own_gid(*access), gids};
  asker.teach();
  const std::int64_t cpu_before_ns = asker.cpu_time_ns();
  const Instant start = os::now();
  const Instant until = start + Duration::seconds(static_cast<std::int64_t>(duration));
  std::uint64_t answers = 0;
  while (os::now() < until) {
    if (asker.outstanding() + each <= std::max(outstanding, each)) {
      asker.send((std::max(outstanding, each) - asker.outstanding()) / each, each);
    }
    answers += asker.receive();
  }
  const double taken = seconds(os::now() - start);
  const double cpu = static_cast<double>(asker.cpu_time_ns() - cpu_before_ns) / 1e9;
  fmt::print(
      "{{\"lookups_per_s\": {:.0f}, \"lookups_per_cpu_s\": {:.0f}, \"outstanding\": {}, "
      "\"each\": {}}}\n",
      static_cast<double>(answers) / taken, static_cast<double>(answers) / cpu, outstanding, each);
}

/// One question to SA by a MAD, as a host's kernel asks.
[[nodiscard]] Duration time_of_sa(weft::programs::SaAccess& access, const Gid& own,
                                  const Gid& gid) {
  const Instant start = os::now();
  std::optional<weft::sa::Answer<weft::wire::PathRecord>> answer;
  static_cast<void>(need(access.client().resolve_path(
      {.sgid = own, .dgid = gid}, {.asks_source = false},
      [&](weft::sa::QueryId, const auto& path, Instant) { answer = path; }, start)));
  while (!answer) {
    need(access.work(os::now()));
    if (answer) {
      break;
    }
    std::vector<pollfd> waits;
    for (const int fd : access.descriptors()) {
      waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    const std::int64_t ns = (access.deadline() - os::now()).nanoseconds();
    poll(waits.data(), waits.size(),
         static_cast<int>(std::clamp<std::int64_t>((ns + 999'999) / 1'000'000, 0, 100)));
  }
  if (!*answer || (*answer)->dgid != gid) {
    give_up("SA does not tell the path");
  }
  return os::now() - start;
}

/// One path where the resolver shows it.
[[nodiscard]] Duration time_of_memory(const weft::programs::ResolversPaths& shown, const Gid& own,
                                      const Gid& gid) {
  const Instant start = os::now();
  const auto path = shown.find({.sgid = own, .dgid = gid}, os::now());
  const Duration taken = os::now() - start;
  if (!path || path->dgid != gid) {
    give_up("the resolver does not show a path that it has told");
  }
  return taken;
}

void times(const std::vector<Gid>& gids) {
  const auto access = need(weft::programs::SaAccess::open());
  const Gid own = own_gid(*access);
  Asker asker{own, gids};
  asker.teach();
  const auto shown = need(weft::programs::ResolversPaths::open());
  std::vector<Duration> of_memory;
  for (const Gid& gid : gids) {
    of_memory.push_back(time_of_memory(shown, own, gid));
  }
  std::vector<Duration> of_resolver;
  std::vector<Duration> of_sa;
  for (std::size_t i = 0; i < gids.size(); ++i) {
    const Instant start = os::now();
    asker.send(1, 1);
    asker.receive();
    of_resolver.push_back(os::now() - start);
  }
  for (const Gid& gid : gids) {
    of_sa.push_back(time_of_sa(*access, own, gid));
  }
  fmt::print(
      "{{\"memory_us\": {:.2f}, \"netlink_us\": {:.2f}, \"sa_us\": {:.2f}, \"paths\": {}}}\n",
      median_us(of_memory), median_us(of_resolver), median_us(of_sa), gids.size());
}

}  // namespace

int main(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "";
  constexpr int kRateWords = 5;
  if (what == "rate" && count > kRateWords) {
    rate(number_of(words[2]), number_of(words[3]), number_of(words[4]),
         gids_of(count - kRateWords, words + kRateWords));
  } else if (what == "times" && count > 2) {
    times(gids_of(count - 2, words + 2));
  } else {
    give_up("rate OUTSTANDING EACH SECONDS GID... or times GID...");
  }
  return 0;
}
