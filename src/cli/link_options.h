#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fabric/topology.h"

namespace weft::cli {

/// What a command line says of the whole fabric: of all links, of time, of its management.
struct LinkOptions {
  std::optional<double> rate_gbps;
  std::int64_t delay_ns{};
  std::optional<double> loss;
  std::vector<std::string> faults;  // rules
  std::optional<double> time_scale;
  bool has_subnet_manager{true};
  std::uint8_t sm_priority{};
  std::string sm_port;
  std::string ibsim;  // name of its sockets, or 127.0.0.1:PORT
};

/// --link-rate, --link-delay, --link-loss, --fault, --time-scale, --no-sm, --sm-priority,
/// --sm-port,
/// --ibsim and --ibsim-port.
void add_link_options(CLI::App& command, const std::shared_ptr<LinkOptions>& options);

/// Into a topology: what its links say themselves holds, but a time scale of the command line goes
/// before that of a file.
[[nodiscard]] Result<void> apply(const LinkOptions& options, fabric::Topology& topology);

}  // namespace weft::cli
