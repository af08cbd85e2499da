#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/unique_fd.h"

namespace weft::daemon {

/// The daemon's log: the file `log` in the fabric's directory, one line per event with a UTC
/// timestamp. Non-printable and non-ASCII characters are replaced by `?`, so that untrusted text
/// cannot forge lines.
class Log {
 public:
  /// Policy, not from the specification: above this size the log ends with a notice.
  static constexpr std::uint64_t kMaxBytes = 1U << 20;

  /// Appends to `path`; discards all output if that is not possible.
  explicit Log(std::string path);

  void write(std::string_view line);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  os::UniqueFd file_;
  std::uint64_t bytes_{};
};

}  // namespace weft::daemon
