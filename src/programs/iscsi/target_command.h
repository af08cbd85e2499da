#pragma once

// The command `target` of weft-iscsi and weft-iser: options, configuration, service.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "programs/iscsi/configuration.h"
#include "programs/iscsi/transport.h"

namespace weft::programs::iscsi {

inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

struct TargetOptions {
  std::string program{};         ///< what errors begin with
  std::string default_portal{};  ///< where none is configured
  std::vector<std::string> portals{};
  std::string target{};
  std::vector<std::string> units{};
  std::vector<std::string> initiators{};
  std::string chap_file{};
  std::string configuration{};
};

/// Adds the command; `options` outlives the parsing, and has `program` and `default_portal`.
CLI::App& add_target_command(CLI::App& app, TargetOptions& options);

/// Options and file together.
[[nodiscard]] Result<Configuration> configuration_of(const TargetOptions& options);

/// Serves until SIGTERM or SIGINT. Returns the exit status.
[[nodiscard]] int run_target(const TargetOptions& options, const MakeTransport& make_transport);

}  // namespace weft::programs::iscsi
