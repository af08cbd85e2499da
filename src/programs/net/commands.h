#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::programs::net {

struct HostsOptions {
  std::vector<std::string> hosts;
  std::string fabric;                   ///< empty: the usual one
  std::vector<std::uint32_t> ports{1};  ///< of each host, from 1; two: bond0 over both
  std::uint16_t pkey{};                 ///< of a child of ib0; 0: ib0 itself
  std::vector<std::string> addresses;
  std::uint32_t mtu{};
  std::string mode{"datagram"};  ///< one of mode_names()
};

[[nodiscard]] std::vector<std::string> mode_names();

/// `weft net up`: starts a program on each host and waits until its interface is up. Exit status.
[[nodiscard]] int up(const HostsOptions& options);
/// `weft net down`: ends them; ib0's children before it.
[[nodiscard]] int down(const HostsOptions& options);

struct ShowOptions {
  std::string what;  ///< addr, neigh or stats
  std::string host;  ///< empty: this one
  std::string fabric;
  std::vector<std::uint32_t> ports{1};
  std::uint16_t pkey{};  ///< as HostsOptions
  bool is_json{};
};

/// `weft net addr`, `neigh` and `stats`.
[[nodiscard]] int show(const ShowOptions& options);

/// On the host, in its namespaces.
[[nodiscard]] int run_interface(const HostsOptions& options);
[[nodiscard]] int stop_interface(const HostsOptions& options);

}  // namespace weft::programs::net
