#include "programs/vnic/commands.h"

#include <fmt/format.h>
#include <net/if.h>

#include <cstdio>
#include <cstdlib>

#include "programs/control/control.h"
#include "programs/control/on_host.h"
#include "programs/host/background.h"
#include "programs/net/addresses.h"
#include "programs/net/host_interface.h"
#include "programs/vnic/addresses.h"
#include "programs/vnic/service.h"

namespace weft::programs::vnic {
namespace {

constexpr int kFailed = 1;
constexpr Duration kAskWithin = Duration::seconds(5);  // policy

[[nodiscard]] int print_error(std::string_view reason) {
  fmt::print(stderr, "weft-vnic: {}\n", reason);
  return kFailed;
}

[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses_for(const HostsOptions& options) {
  return options.addresses.empty() ? opa0_addresses(net::addresses_of("eth0"))
                                   : net::parse_interface_addresses(options.addresses);
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
  if (!options.waits) {
    arguments.emplace_back("--no-wait");
  }
  return start_on_all(options.hosts, options.fabric, arguments);
}

int down(const HostsOptions& options) {
  return run_on_all(options.hosts, options.fabric, {"stop"});
}

int run_interfaces(const HostsOptions& options) {
  const auto addresses = addresses_for(options);
  if (!addresses) {
    return print_error(addresses.error().reason);
  }
  const char* const host = std::getenv("WEFT_HOST");
  if (host == nullptr || !is_host_name(host)) {
    return print_error("this runs on a host of a fabric, by `weft vnic up HOST`");
  }
  const auto lock = take_service(kServiceName, [] { return if_nametoindex("opa0") != 0; });
  if (!lock) {
    return print_error(lock.error().code == ErrorCode::Exists
                           ? "virtual NICs of this host are up already"
                           : lock.error().reason);
  }
  const auto service = Service::start(
      {.host = host, .addresses = *addresses, .mtu = options.mtu, .waits = options.waits});
  if (!service) {
    return print_error(service.error().reason);
  }
  const auto ended = (*service)->run([](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
    leave_caller(kServiceName);
  });
  return ended ? 0 : print_error(ended.error().reason);
}

int show(const std::string& host, const std::string& fabric, bool is_json) {
  if (!host.empty()) {
    std::vector<std::string> words{"show"};
    if (is_json) {
      words.emplace_back("--json");
    }
    return run_on_host(host, fabric, words);
  }
  const auto said = ask(kServiceName, is_json ? "show json" : "show", kAskWithin);
  if (!said) {
    return print_error(said.error().code == ErrorCode::NotFound
                           ? "there are no virtual NICs on this host: weft vnic up HOST"
                           : said.error().reason);
  }
  fmt::print("{}", *said);
  return 0;
}

int stop_interfaces() {
  const auto stopped = stop_service(kServiceName);
  if (stopped) {
    return 0;
  }
  return print_error(stopped.error().code == ErrorCode::NotFound
                         ? "there are no virtual NICs on this host"
                         : stopped.error().reason);
}

}  // namespace weft::programs::vnic
