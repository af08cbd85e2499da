#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::daemon {

/// Identification of a program in log and status.
struct ProgramName {
  pid_t pid{};
  std::string program;  // name from the kernel; untrusted text
  std::string host;     // empty until it is attached
  std::uint32_t slot{};
};

/// "h2 process 812 (ib_send_lat), slot 3".
[[nodiscard]] std::string to_string(const ProgramName& name);

/// A kind of violation by one program. Value type.
struct Offence {
  ProgramName offender;
  std::string what;  // worded to follow a count, as in "40 messages that are malformed"
  std::string said_by;
  std::uint64_t count{};
};

/// Counts violations and selects those worth a log line: the first, and then each power of ten, so
/// that a flood produces few lines. Not thread-safe.
class Offences {
 public:
  /// Maximum of entries; above it new ones share one. Policy, not from the specification.
  static constexpr std::size_t kMax = 256;
  /// Maximum of log lines for reports by one process, which may be false. Policy.
  static constexpr unsigned kMaxReportedLines = 32;

  /// Adds `more` violations. `from`: count below which nothing is logged. Returns the line to log,
  /// if any.
  [[nodiscard]] std::optional<std::string> add(const ProgramName& offender, std::string_view what,
                                               std::uint64_t more = 1, std::uint64_t from = 1);
  /// Records a total of `count` violations reported by another program.
  [[nodiscard]] std::optional<std::string> add_reported(const ProgramName& offender,
                                                        std::string_view what, std::uint64_t count,
                                                        const ProgramName& reporter);

  [[nodiscard]] std::span<const Offence> all() const { return offences_; }
  /// True if the process has one, or another says so.
  [[nodiscard]] bool has_of(pid_t process) const;

 private:
  [[nodiscard]] Offence& find(const ProgramName& offender, std::string_view what,
                              std::string_view said_by);

  std::vector<Offence> offences_;
  std::map<pid_t, unsigned> lines_by_reporter_;  // lines logged, by reporter
};

}  // namespace weft::daemon
