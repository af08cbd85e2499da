#include "programs/srp/discover_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/clock.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/discover_report.h"
#include "programs/srp/umad_client.h"
#include "wire/mad/notice.h"
#include "wire/mad/sa_table_records.h"

namespace weft::programs::srp {
namespace {

/// What may change which targets there are: ports that come and go, and those that begin or cease
/// to answer device management. Multicast groups (66, 67) do not.
constexpr std::array kTraps{wire::Trap::GidInService, wire::Trap::GidOutOfService,
                            wire::Trap::CapabilityMaskChange};

/// Policy: when to look after a notice. SA may forward it before the subnet manager itself has
/// looked.
constexpr std::array kLooks{Duration::milliseconds(50), Duration::milliseconds(500),
                            Duration::seconds(2)};
constexpr std::size_t kMostRequests = 4'096;  // policy: of one port

void print_error(std::string_view reason) { fmt::print(stderr, "weft-srp: {}\n", reason); }

void read_port(UmadClient& client, FoundPort& found) {
  const auto path = client.get_path(found.port.gid);
  if (!path) {
    found.failure = path.error().reason;
    return;
  }
  found.pkey = path->pkey;
  for (std::size_t asked = 0; asked < kMostRequests; ++asked) {
    const auto request = found.discovery.next_request();
    if (!request) {
      return;
    }
    const auto answer = client.ask(*path, *request);
    const auto taken =
        answer ? found.discovery.handle_answer(*answer) : std::unexpected(answer.error());
    if (!taken) {
      found.failure = taken.error().reason;
      return;
    }
  }
}

[[nodiscard]] Result<std::vector<FoundPort>> read_ports(UmadClient& client) {
  if (auto refreshed = client.refresh(); !refreshed) {
    return std::unexpected(refreshed.error());
  }
  const auto ports = client.get_table<wire::PortInfoRecord>(wire::SaAttribute::PortInfoRecord);
  if (!ports) {
    return std::unexpected(ports.error());
  }
  const auto nodes = client.get_table<wire::NodeRecord>(wire::SaAttribute::NodeRecord);
  if (!nodes) {
    return std::unexpected(nodes.error());
  }
  std::vector<FoundPort> all;
  for (weft::srp::ManagedPort& port : weft::srp::managed_ports(*ports, *nodes)) {
    all.push_back({.port = std::move(port)});
    read_port(client, all.back());
  }
  return all;
}

/// Prints what has changed since `known`. Io: the fabric is gone; all else may pass.
[[nodiscard]] Result<void> look(UmadClient& client, std::vector<std::string>& known) {
  const auto ports = read_ports(client);
  if (!ports) {
    if (ports.error().code == ErrorCode::Io || ports.error().code == ErrorCode::NoSuchDevice) {
      return std::unexpected(ports.error());
    }
    print_error(ports.error().reason);
    return {};
  }
  std::vector<std::string> lines = connect_strings(*ports);
  for (const std::string& change : changes_of(known, lines)) {
    fmt::print("{}\n", change);
  }
  std::fflush(stdout);
  known = std::move(lines);
  return {};
}

[[nodiscard]] Result<void> subscribe(UmadClient& client) {
  for (const wire::Trap trap : kTraps) {
    if (auto subscribed = client.subscribe(trap); !subscribed) {
      return subscribed;
    }
  }
  return {};
}

/// Until the fabric is gone: looks after each notice, and once an interval, whether or not notices
/// are to be had. Another subnet manager knows of no subscription, so that it is renewed then.
[[nodiscard]] Result<void> watch(UmadClient& client, Duration interval) {
  std::vector<std::string> known;
  std::size_t looks = kLooks.size();  // that were had since the last notice
  Instant looks_from{};
  bool says_so = true;
  for (;;) {
    const auto subscribed = subscribe(client);
    if (std::exchange(says_so, false)) {
      print_error(subscribed ? "waits for notices of the subnet manager"
                             : fmt::format("asks every {} s, since no notices are to be had: {}",
                                           interval.nanoseconds() / 1'000'000'000,
                                           subscribed.error().reason));
    }
    if (auto looked = look(client, known); !looked) {
      return looked;
    }
    const Instant renewal = os::now() + interval;
    while (os::now() < renewal) {
      const Instant next = looks < kLooks.size() ? looks_from + kLooks[looks] : renewal;
      const auto notice = client.await_notice(std::min(next, renewal) - os::now());
      if (!notice) {
        return std::unexpected(notice.error());
      }
      if (*notice) {
        looks = 0;
        looks_from = os::now();
      } else if (looks < kLooks.size() && next <= os::now()) {
        ++looks;
        if (auto looked = look(client, known); !looked) {
          return looked;
        }
      }
    }
  }
}

}  // namespace

CLI::App& add_discover_command(CLI::App& app, DiscoverOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "discover", "Finds the targets of the subnet: their I/O units, controllers and services");
  command.add_option("--host", options.host, "On this host; otherwise the one that it runs on");
  command.add_option("--name", options.fabric, "Name of the fabric");
  command.add_option("--device", options.device, "The RDMA device; default: the first");
  command
      .add_option("--port", options.port, "Port of the device; default: the first that is active")
      ->check(CLI::Range(1, 254));
  CLI::Option* const lines = command.add_flag(
      "--add-target,-c", options.prints_lines,
      "A line for each target, as ibsrpdm -c prints it and weft srp attach takes it");
  CLI::Option* const json =
      command.add_flag("--json", options.is_json, "As JSON, with the octets of what was read");
  json->excludes(lines);
  CLI::Option* const watches =
      command.add_flag("--watch", options.watches,
                       "Goes on: a line '+ ...' for each target that comes, '- ...' for "
                       "each that goes");
  watches->excludes(json);
  command
      .add_option("--interval", options.interval_seconds,
                  "Seconds after which --watch looks without a notice of the subnet manager")
      ->needs(watches)
      ->default_val(60)
      ->check(CLI::Range(1, 86400));
  return command;
}

int run_discover(const DiscoverOptions& options) {
  const auto client = UmadClient::open(options.device, static_cast<std::uint8_t>(options.port));
  if (!client) {
    print_error(client.error().reason);
    return iscsi::kFailed;
  }
  if (options.watches) {
    const auto ended = watch(**client, Duration::seconds(options.interval_seconds));
    print_error(ended ? std::string_view{"ended"} : std::string_view{ended.error().reason});
    return iscsi::kFailed;
  }
  const auto ports = read_ports(**client);
  if (!ports) {
    print_error(ports.error().reason);
    return iscsi::kFailed;
  }
  if (options.prints_lines) {
    for (const std::string& line : connect_strings(*ports)) {
      fmt::print("{}\n", line);
    }
  } else {
    fmt::print("{}", options.is_json ? discovery_json(*ports) : discovery_text(*ports));
  }
  for (const FoundPort& port : *ports) {
    if (!port.failure.empty()) {
      print_error(fmt::format("LID {}: {}", port.port.lid.value(), port.failure));
    }
  }
  return 0;
}

}  // namespace weft::programs::srp
