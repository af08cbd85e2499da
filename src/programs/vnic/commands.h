#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::programs::vnic {

struct HostsOptions {
  std::vector<std::string> hosts;
  std::string fabric;  ///< empty: the usual one
  std::vector<std::string> addresses;
  std::uint16_t mtu{};
  bool waits{true};
};

/// `weft vnic up`: starts a program on each host, and waits until it has an interface. Exit status.
[[nodiscard]] int up(const HostsOptions& options);
/// `weft vnic down`: ends them.
[[nodiscard]] int down(const HostsOptions& options);
/// `weft vnic show`. The host: empty: this one.
[[nodiscard]] int show(const std::string& host, const std::string& fabric, bool is_json);

/// On the host, in its namespaces.
[[nodiscard]] int run_interfaces(const HostsOptions& options);
[[nodiscard]] int stop_interfaces();

}  // namespace weft::programs::vnic
