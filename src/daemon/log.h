#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/unique_fd.h"

namespace weft::daemon {

/// The daemon's log: the file `log` in the fabric's directory, a line for each thing that whoever
/// looks after a fabric wants to read later, with the time (UTC) in front. Foreign text in a line
/// cannot forge another: whatever is no printable ASCII becomes `?`.
class Log {
 public:
  /// Policy: beyond this the log says so and stops.
  static constexpr std::uint64_t kMaxBytes = 1U << 20;

  /// Appends to `path`. Where that is not possible, says nothing.
  explicit Log(std::string path);

  void write(std::string_view line);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  os::UniqueFd file_;
  std::uint64_t bytes_{};
};

}  // namespace weft::daemon
