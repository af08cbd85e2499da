#include "programs/net/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "programs/control/control.h"
#include "programs/control/on_host.h"
#include "programs/host/background.h"
#include "programs/net/addresses.h"
#include "programs/net/host_interface.h"
#include "programs/net/service.h"

namespace weft::programs::net {
namespace {

constexpr int kFailed = 1;
constexpr Duration kAskWithin = Duration::seconds(5);  // policy

[[nodiscard]] int print_error(const Error& error) {
  fmt::print(stderr, "weft-net: {}\n", error.reason);
  return kFailed;
}

/// The full member's key of the partition, which names it (RFC 4391 §4); none: ib0's own.
[[nodiscard]] std::optional<PKey> partition_of(std::uint16_t pkey) {
  constexpr std::uint16_t kFullMember = 0x8000;
  return pkey == 0 ? std::nullopt
                   : std::optional{PKey{static_cast<std::uint16_t>(pkey | kFullMember)}};
}

/// As Linux names children of ib0.
[[nodiscard]] std::string interface_of(std::optional<PKey> partition) {
  return partition ? fmt::format("ib0.{:04x}", partition->value()) : "ib0";
}

[[nodiscard]] std::string service_of(std::optional<PKey> partition) {
  return partition ? fmt::format("{}.{:04x}", kServiceName, partition->value())
                   : std::string{kServiceName};
}

struct NamedMode {
  std::string_view name;
  ipoib::ConnectedMode mode;
};
constexpr std::array kModes{
    NamedMode{"datagram",       ipoib::ConnectedMode::None      },
    NamedMode{"connected",      ipoib::ConnectedMode::Reliable  },
    NamedMode{"connected-uc",   ipoib::ConnectedMode::Unreliable},
    NamedMode{"connected-both", ipoib::ConnectedMode::Both      },
};

/// The command line has checked it.
[[nodiscard]] ipoib::ConnectedMode mode_of(std::string_view name) {
  const auto* const found = std::ranges::find(kModes, name, &NamedMode::name);
  return found == kModes.end() ? ipoib::ConnectedMode::None : found->mode;
}

[[nodiscard]] Error not_up(std::optional<PKey> partition) {
  return {ErrorCode::NotFound,
          fmt::format("{} is not up: weft net up HOST", interface_of(partition))};
}

void add_partition(std::vector<std::string>& words, std::uint16_t pkey) {
  if (pkey != 0) {
    words.insert(words.end(), {"--pkey", fmt::format("{:#06x}", pkey)});
  }
}

[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses_for(const HostsOptions& options) {
  if (!options.addresses.empty()) {
    return parse_interface_addresses(options.addresses);
  }
  const auto partition = partition_of(options.pkey);
  const auto of_eth0 = addresses_of("eth0");
  return partition ? child_addresses(*partition, of_eth0) : ib0_addresses(of_eth0);
}

[[nodiscard]] Result<ServiceOptions> service_options(const HostsOptions& options) {
  auto addresses = addresses_for(options);
  if (!addresses) {
    return std::unexpected(std::move(addresses.error()));
  }
  const auto partition = partition_of(options.pkey);
  ServiceOptions service{.name = interface_of(partition),
                         .service = service_of(partition),
                         .partition = partition,
                         .addresses = *std::move(addresses),
                         .mtu = options.mtu,
                         .mode = mode_of(options.mode)};
  if (partition) {
    service.parent = interface_of({});
    if (!mtu_of(service.parent)) {
      return std::unexpected(not_up({}));
    }
  }
  return service;
}

[[nodiscard]] int stop_one(std::optional<PKey> partition) {
  const auto stopped = stop_service(service_of(partition));
  if (!stopped) {
    return print_error(stopped.error().code == ErrorCode::NotFound ? not_up(partition)
                                                                   : stopped.error());
  }
  return 0;
}

}  // namespace

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  std::ranges::transform(kModes, std::back_inserter(names),
                         [](const NamedMode& each) { return std::string{each.name}; });
  return names;
}

int up(const HostsOptions& options) {
  std::vector<std::string> arguments{"run"};
  for (const std::string& address : options.addresses) {
    arguments.insert(arguments.end(), {"--address", address});
  }
  if (options.mtu != 0) {
    arguments.insert(arguments.end(), {"--mtu", std::to_string(options.mtu)});
  }
  arguments.insert(arguments.end(), {"--mode", options.mode});
  add_partition(arguments, options.pkey);
  return start_on_all(options.hosts, options.fabric, arguments);
}

int down(const HostsOptions& options) {
  std::vector<std::string> arguments{"stop"};
  add_partition(arguments, options.pkey);
  return run_on_all(options.hosts, options.fabric, arguments);
}

int run_interface(const HostsOptions& options) {
  const auto wanted = service_options(options);
  if (!wanted) {
    return print_error(wanted.error());
  }
  const auto lock = take_interface(wanted->name, wanted->service);
  if (!lock) {
    return print_error(lock.error());
  }
  const auto service = Service::start(*wanted);
  if (!service) {
    return print_error(service.error());
  }
  const auto ended = (*service)->run([&](const Service::Up& now) {
    std::string list;
    for (const InterfaceAddress& address : now.addresses) {
      list += " " + to_string(address);
    }
    fmt::print("{}{} mtu {}\n", wanted->name, list, now.mtu);
    std::fflush(stdout);
    leave_caller(wanted->service);
  });
  return ended ? 0 : print_error(ended.error());
}

int show(const ShowOptions& options) {
  if (!options.host.empty()) {
    std::vector<std::string> words{options.what};
    if (options.is_json) {
      words.emplace_back("--json");
    }
    add_partition(words, options.pkey);
    return run_on_host(options.host, options.fabric, words);
  }
  const auto partition = partition_of(options.pkey);
  const auto said =
      ask(service_of(partition), options.what + (options.is_json ? " json" : ""), kAskWithin);
  if (!said) {
    return print_error(said.error().code == ErrorCode::NotFound ? not_up(partition) : said.error());
  }
  fmt::print("{}", *said);
  return 0;
}

int stop_interface(std::uint16_t pkey) {
  if (pkey == 0) {
    for (const std::string& child : services_named(fmt::format("{}.", kServiceName))) {
      static_cast<void>(stop_service(child));  // it may have ended meanwhile
    }
  }
  return stop_one(partition_of(pkey));
}

}  // namespace weft::programs::net
