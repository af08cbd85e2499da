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

/// Command line options that apply to the whole fabric: links, time scale, management.
struct LinkOptions {
  std::optional<double> rate_gbps;
  std::int64_t delay_ns{};
  std::optional<double> loss;
  std::vector<std::string> faults;  // rules
  std::optional<double> time_scale;
  bool has_subnet_manager{true};
  std::uint8_t sm_priority{};
  std::string sm_port;
  bool is_isolating{};
  std::string ibsim;  // socket name prefix, or 127.0.0.1:PORT
};

/// Adds --link-rate, --link-delay, --link-loss, --fault, --time-scale, --no-sm, --sm-priority,
/// --sm-port, --isolate, --ibsim and --ibsim-port.
void add_link_options(CLI::App& command, const std::shared_ptr<LinkOptions>& options);

/// Applies the options to a topology. Attributes set for single links in the topology take
/// precedence, but the command line's time scale overrides the file's.
[[nodiscard]] Result<void> apply(const LinkOptions& options, fabric::Topology& topology);

}  // namespace weft::cli
