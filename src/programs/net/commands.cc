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

/// Which interface is meant.
struct Place {
  std::vector<std::uint32_t> ports{};  // from 0
  std::optional<PKey> partition{};
  [[nodiscard]] bool is_bond() const { return ports.size() > 1; }
};

[[nodiscard]] Place place_of(const std::vector<std::uint32_t>& ports, std::uint16_t pkey) {
  Place place{.partition = partition_of(pkey)};
  for (const std::uint32_t port : ports) {
    place.ports.push_back(port - 1);
  }
  return place;
}

[[nodiscard]] std::string child_text(const Place& place) {
  return place.partition ? fmt::format(".{:04x}", place.partition->value()) : "";
}

/// As Linux names interfaces of ports, their children, and what bonds them.
[[nodiscard]] std::string interface_of(const Place& place) {
  return place.is_bond() ? "bond0" : fmt::format("ib{}{}", place.ports.front(), child_text(place));
}

/// Of ib0 and its children that is net, and net.8005.
[[nodiscard]] std::string service_of(const Place& place) {
  if (place.is_bond()) {
    return "net-bond0";
  }
  const std::string number = place.ports.front() == 0 ? "" : std::to_string(place.ports.front());
  return "net" + number + child_text(place);
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

[[nodiscard]] Error not_up(const Place& place) {
  return {ErrorCode::NotFound, fmt::format("{} is not up: weft net up HOST", interface_of(place))};
}

/// A port is one interface's, but for its children, which share its link.
[[nodiscard]] Result<void> check_ports(const Place& place) {
  if (place.is_bond() && (place.partition || place.ports.size() > kMostPorts ||
                          place.ports.front() == place.ports.back())) {
    return fail(ErrorCode::InvalidArgument,
                "bond0 is of two ports, in the partition of each one's first P_Key");
  }
  std::vector<Place> others;
  if (place.is_bond()) {
    for (const std::uint32_t port : place.ports) {
      others.push_back({.ports = {port}});
    }
  } else {
    others.push_back({
        .ports = {0, 1}
    });
  }
  for (const Place& other : others) {
    if (owner_of_service(service_of(other))) {
      return fail(ErrorCode::Exists, "{} is up, which has a port of {}: weft net down HOST",
                  interface_of(other), interface_of(place));
    }
  }
  return {};
}

void add_place(std::vector<std::string>& words, const std::vector<std::uint32_t>& ports,
               std::uint16_t pkey) {
  for (const std::uint32_t port : ports) {
    words.insert(words.end(), {"--port", std::to_string(port)});
  }
  if (pkey != 0) {
    words.insert(words.end(), {"--pkey", fmt::format("{:#06x}", pkey)});
  }
}

[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses_for(const HostsOptions& options) {
  if (!options.addresses.empty()) {
    return parse_interface_addresses(options.addresses);
  }
  const Place place = place_of(options.ports, options.pkey);
  const auto of_eth0 = addresses_of("eth0");
  const std::uint32_t port = place.is_bond() ? 0 : place.ports.front();
  return place.partition ? child_addresses(port, *place.partition, of_eth0)
                         : ib_addresses(port, of_eth0);
}

[[nodiscard]] Result<ServiceOptions> service_options(const HostsOptions& options) {
  auto addresses = addresses_for(options);
  if (!addresses) {
    return std::unexpected(std::move(addresses.error()));
  }
  const Place place = place_of(options.ports, options.pkey);
  if (auto checked = check_ports(place); !checked) {
    return std::unexpected(std::move(checked.error()));
  }
  ServiceOptions service{.name = interface_of(place),
                         .service = service_of(place),
                         .ports = place.ports,
                         .partition = place.partition,
                         .addresses = *std::move(addresses),
                         .mtu = options.mtu,
                         .mode = mode_of(options.mode)};
  if (place.partition) {
    const Place parent{.ports = place.ports};
    service.parent = interface_of(parent);
    if (!mtu_of(service.parent)) {
      return std::unexpected(not_up(parent));
    }
  }
  return service;
}

[[nodiscard]] int stop_one(const Place& place) {
  const auto stopped = stop_service(service_of(place));
  if (!stopped) {
    return print_error(stopped.error().code == ErrorCode::NotFound ? not_up(place)
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
  add_place(arguments, options.ports, options.pkey);
  return start_on_all(options.hosts, options.fabric, arguments);
}

int down(const HostsOptions& options) {
  std::vector<std::string> arguments{"stop"};
  add_place(arguments, options.ports, options.pkey);
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
    add_place(words, options.ports, options.pkey);
    return run_on_host(options.host, options.fabric, words);
  }
  const Place place = place_of(options.ports, options.pkey);
  const auto said =
      ask(service_of(place), options.what + (options.is_json ? " json" : ""), kAskWithin);
  if (!said) {
    return print_error(said.error().code == ErrorCode::NotFound ? not_up(place) : said.error());
  }
  fmt::print("{}", *said);
  return 0;
}

int stop_interface(const HostsOptions& options) {
  const Place place = place_of(options.ports, options.pkey);
  if (!place.partition) {
    for (const std::string& child : services_named(service_of(place) + ".")) {
      static_cast<void>(stop_service(child));  // it may have ended meanwhile
    }
  }
  return stop_one(place);
}

}  // namespace weft::programs::net
