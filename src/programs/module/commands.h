#pragma once

#include <string>
#include <vector>

#include "programs/module/control.h"

namespace weft::programs::modules {

struct RunOptions {
  std::string file;
  std::string host;    ///< empty: the one that this process is on
  std::string fabric;  ///< empty: the usual one
  std::vector<std::string> parameters;
  bool shows_debug{};
  bool registers_fast{};
};

/// `weft module run`: becomes the process that has the module, on the host. Exit status.
[[nodiscard]] int run(const RunOptions& options);

/// Which module is meant; the host may be left out where it is loaded on one only.
struct Target {
  std::string fabric;
  std::string host;
  std::string name;
};
[[nodiscard]] int list(const std::string& fabric);
/// Asks the module's process, and prints what it answers.
[[nodiscard]] int ask(const Target& target, const Request& request);

}  // namespace weft::programs::modules
