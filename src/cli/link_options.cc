#include "cli/link_options.h"

#include <map>
#include <string>

namespace weft::cli {

void add_link_options(CLI::App& command, const std::shared_ptr<LinkOptions>& options) {
  static const std::map<std::string, std::int64_t> kUnits{
      {"ns", 1            },
      {"us", 1'000        },
      {"ms", 1'000'000    },
      {"s",  1'000'000'000}
  };
  // The options live as long as the command: it keeps them by their callbacks.
  command
      .add_option_function<double>(
          "--link-rate", [options](const double& gbps) { options->rate_gbps = gbps; },
          "Rate of every link that the topology gives none, in Gb/s; without it, as fast as "
          "memory")
      ->type_name("GBPS");
  command
      .add_option_function<std::int64_t>(
          "--link-delay", [options](const std::int64_t& ns) { options->delay_ns = ns; },
          "Delay of every link that the topology gives none, one way, as 200us")
      ->transform(CLI::AsNumberWithUnit{kUnits, CLI::AsNumberWithUnit::UNIT_REQUIRED})
      ->type_name("TIME");
  command
      .add_option_function<double>(
          "--time-scale", [options](const double& scale) { options->time_scale = scale; },
          "Factor of the specification's timeouts, as 0.1 for a tenth; links keep their times")
      ->type_name("FACTOR");
}

Result<void> apply(const LinkOptions& options, fabric::Topology& topology) {
  if (options.time_scale) {
    const auto scale = fabric::time_scale_of(*options.time_scale);
    if (!scale) {
      return std::unexpected(scale.error());
    }
    topology.time_scale = *scale;
  }
  return fabric::apply(
      {.rate_gbps = options.rate_gbps, .delay = Duration::nanoseconds(options.delay_ns)}, topology);
}

}  // namespace weft::cli
