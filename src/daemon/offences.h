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

/// A program as the log and the status name it.
struct ProgramName {
  pid_t pid{};
  std::string program;  // as the kernel calls it; foreign text
  std::string host;     // empty before it has a place
  std::uint32_t slot{};
};

/// "h2 process 812 (ib_send_lat), slot 3".
[[nodiscard]] std::string to_string(const ProgramName& name);

/// Who broke which rule how often. Pure.
struct Offence {
  ProgramName offender;
  std::string what;  // behind the count, as in "40 messages that are malformed"
  std::string said_by;
  std::uint64_t count{};
};

/// Keeps offences and says which of them is worth a line in the log: the first, and then each tenth
/// of the power before, so that a flood is told in a few lines.
class Offences {
 public:
  /// Policy: beyond this many offenders and rules, new ones are counted together.
  static constexpr std::size_t kMax = 256;
  /// Policy: lines that what one process says of others is worth; it may lie about everybody.
  static constexpr unsigned kMaxHeard = 32;

  /// `more` more. `from`: how many there must be before anybody is told.
  [[nodiscard]] std::optional<std::string> add(const ProgramName& offender, std::string_view what,
                                               std::uint64_t more = 1, std::uint64_t from = 1);
  /// `count` in all, as another program says.
  [[nodiscard]] std::optional<std::string> hear(const ProgramName& offender, std::string_view what,
                                                std::uint64_t count, const ProgramName& reporter);

  [[nodiscard]] std::span<const Offence> all() const { return offences_; }

 private:
  [[nodiscard]] Offence& find(const ProgramName& offender, std::string_view what,
                              std::string_view said_by);

  std::vector<Offence> offences_;
  std::map<pid_t, unsigned> heard_;  // lines, by who said it
};

}  // namespace weft::daemon
