#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weft::programs::modules {

struct ServeOptions {
  std::string file;
  std::vector<std::string> parameters;  ///< name=value
  bool shows_debug{};
};

/// To standard error. The exit status of a failure.
[[nodiscard]] int print_error(const Error& error);

/// Loads the module into this process, which is one of a host ($WEFT_HOST), and answers `weft
/// module` until it is removed, by request or by SIGTERM or SIGINT. Exit status.
[[nodiscard]] int serve(const ServeOptions& options);

}  // namespace weft::programs::modules
