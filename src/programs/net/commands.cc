#include "programs/net/commands.h"

#include <fmt/format.h>

#include <cstdio>

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

[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses_for(const HostsOptions& options) {
  return options.addresses.empty() ? ib0_addresses(addresses_of("eth0"))
                                   : parse_interface_addresses(options.addresses);
}

}  // namespace

int up(const HostsOptions& options) {
  std::vector<std::string> arguments{"run"};
  for (const std::string& address : options.addresses) {
    arguments.insert(arguments.end(), {"--address", address});
  }
  if (options.mtu != 0) {
    arguments.insert(arguments.end(), {"--mtu", std::to_string(options.mtu)});
  }
  arguments.insert(arguments.end(), {"--mode", options.mode});
  return start_on_all(options.hosts, options.fabric, arguments);
}

int down(const HostsOptions& options) {
  return run_on_all(options.hosts, options.fabric, {"stop"});
}

int run_interface(const HostsOptions& options) {
  const auto addresses = addresses_for(options);
  if (!addresses) {
    return print_error(addresses.error());
  }
  const auto lock = take_interface();
  if (!lock) {
    return print_error(lock.error());
  }
  const auto mode =
      options.mode == "connected" ? ipoib::ConnectedMode::Reliable : ipoib::ConnectedMode::None;
  const auto service = Service::start({.addresses = *addresses, .mtu = options.mtu, .mode = mode});
  if (!service) {
    return print_error(service.error());
  }
  const auto ended = (*service)->run([&](std::uint32_t mtu) {
    std::string list;
    for (const InterfaceAddress& address : *addresses) {
      list += " " + to_string(address);
    }
    fmt::print("ib0{} mtu {}\n", list, mtu);
    std::fflush(stdout);
    leave_caller(kServiceName);
  });
  return ended ? 0 : print_error(ended.error());
}

int show(const ShowOptions& options) {
  if (!options.host.empty()) {
    std::vector<std::string> words{options.what};
    if (options.is_json) {
      words.emplace_back("--json");
    }
    return run_on_host(options.host, options.fabric, words);
  }
  const auto said = ask(kServiceName, options.what + (options.is_json ? " json" : ""), kAskWithin);
  if (!said) {
    return print_error(said.error().code == ErrorCode::NotFound
                           ? Error{ErrorCode::NotFound, "ib0 is not up: weft net up HOST"}
                           : said.error());
  }
  fmt::print("{}", *said);
  return 0;
}

int stop_interface() {
  const auto stopped = stop_service(kServiceName);
  if (!stopped) {
    return print_error(stopped.error().code == ErrorCode::NotFound
                           ? Error{ErrorCode::NotFound, "ib0 is not up"}
                           : stopped.error());
  }
  return 0;
}

}  // namespace weft::programs::net
