#include "cli/link_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>

namespace weft::cli {
namespace {

[[nodiscard]] std::string ibsim_socket_name() {
  const char* const name = std::getenv("IBSIM_SOCKNAME");
  return name == nullptr || *name == '\0' ? "sim" : name;
}

/// Who manages the fabric, who else may speak MADs there, and what its programs may do.
void add_management_options(CLI::App& command, const std::shared_ptr<LinkOptions>& options) {
  command.add_flag_callback(
      "--no-sm", [options] { options->has_subnet_manager = false; },
      "No subnet manager of Weft's own: ports wait in Initialize for another, as `weft exec h1 -- "
      "opensm`");
  command.add_flag_callback(
      "--isolate", [options] { options->is_isolating = true; },
      "Programs reach each other's memory by packets only, whatever WEFT_PLACEMENT says in their "
      "environment");
  command.add_flag_callback(
      "--ibsim", [options] { options->ibsim = ibsim_socket_name(); },
      "Be what ibsim is to programs preloaded with libumad2sim.so; as there, IBSIM_SOCKNAME names "
      "the sockets and SIM_HOST the node");
  command
      .add_option_function<unsigned>(
          "--ibsim-port",
          [options](const unsigned& port) { options->ibsim = fmt::format("127.0.0.1:{}", port); },
          "Likewise by UDP on this machine, as `ibsim -r -l PORT`: programs find it by "
          "IBSIM_SERVER_NAME=127.0.0.1 and IBSIM_SERVER_PORT; their MADs go to the ports behind")
      ->check(CLI::Range(1, 65'278))
      ->type_name("PORT");
  command
      .add_option_function<unsigned>(
          "--sm-priority",
          [options](const unsigned& priority) {
            options->sm_priority = static_cast<std::uint8_t>(priority);
          },
          "Priority of Weft's own subnet manager among others, as of `opensm -p`: the highest is "
          "master, then the lowest GUID")
      ->check(CLI::Range(0, 15))
      ->type_name("0..15");
  command
      .add_option_function<std::string>(
          "--sm-port", [options](const std::string& port) { options->sm_port = port; },
          "Where Weft's own subnet manager is, as h2:1; without it, the first port of the hosts")
      ->type_name("PORT");
}

}  // namespace

void add_link_options(CLI::App& command, const std::shared_ptr<LinkOptions>& options) {
  static const std::map<std::string, std::int64_t> kUnits{
      {"ns", 1            },
      {"us", 1'000        },
      {"ms", 1'000'000    },
      {"s",  1'000'000'000}
  };
  // The callbacks keep `options` alive as long as the command.
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
          "--link-loss", [options](const double& loss) { options->loss = loss; },
          "Probability with which every link loses a packet, as 0.01")
      ->type_name("PROBABILITY");
  command
      .add_option_function<std::vector<std::string>>(
          "--fault", [options](const std::vector<std::string>& rules) { options->faults = rules; },
          "A rule of faults, as 'drop every=100 out=h1:1'; may be repeated. `weft fault add` adds "
          "more while the fabric runs, and its help says what a rule is")
      ->type_name("RULE")
      ->allow_extra_args(false);
  command
      .add_option_function<double>(
          "--time-scale", [options](const double& scale) { options->time_scale = scale; },
          "Factor of the specification's timeouts, as 0.1 for a tenth; links keep their times")
      ->type_name("FACTOR");
  add_management_options(command, options);
}

Result<void> apply(const LinkOptions& options, fabric::Topology& topology) {
  if (options.time_scale) {
    const auto scale = fabric::time_scale_of(*options.time_scale);
    if (!scale) {
      return std::unexpected(scale.error());
    }
    topology.time_scale = *scale;
  }
  std::vector<std::string> rules = options.faults;
  if (options.loss) {
    rules.push_back(fmt::format("drop p={}", *options.loss));
  }
  for (const std::string& rule : rules) {
    const auto fault = fabric::read_fault(rule);
    if (!fault) {
      return std::unexpected(fault.error());
    }
    topology.faults.push_back(*fault);
  }
  return fabric::apply(
      {.rate_gbps = options.rate_gbps, .delay = Duration::nanoseconds(options.delay_ns)}, topology);
}

}  // namespace weft::cli
