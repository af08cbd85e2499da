#include "daemon/offences.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::daemon {
namespace {

/// Number of log lines for a count: one at `from`, and one more at each power of ten times `from`.
[[nodiscard]] unsigned lines_for(std::uint64_t count, std::uint64_t from) {
  unsigned lines = 0;
  for (std::uint64_t rest = count / from; rest != 0; rest /= 10) {
    ++lines;
  }
  return lines;
}

[[nodiscard]] std::string line_of(const Offence& offence) {
  std::string line =
      fmt::format("{}: {} {}", to_string(offence.offender), offence.count, offence.what);
  if (!offence.said_by.empty()) {
    line += fmt::format(", says {}", offence.said_by);
  }
  return line;
}

}  // namespace

std::string to_string(const ProgramName& name) {
  if (name.host.empty()) {
    return fmt::format("process {} ({})", name.pid, name.program);
  }
  return fmt::format("{} process {} ({}), slot {}", name.host, name.pid, name.program, name.slot);
}

Offence& Offences::find(const ProgramName& offender, std::string_view what,
                        std::string_view said_by) {
  const auto found = std::ranges::find_if(offences_, [&](const Offence& offence) {
    return offence.offender.pid == offender.pid && offence.what == what &&
           offence.said_by == said_by;
  });
  if (found != offences_.end()) {
    found->offender = offender;  // it may be attached by now
    return *found;
  }
  if (offences_.size() < kMax) {
    return offences_.emplace_back(offender, std::string{what}, std::string{said_by});
  }
  if (offences_.size() == kMax) {
    offences_.emplace_back(ProgramName{.pid = 0, .program = "others", .host = {}},
                           "further offences of any kind");
  }
  return offences_.back();
}

bool Offences::has_of(pid_t process) const {
  return std::ranges::any_of(
      offences_, [&](const Offence& offence) { return offence.offender.pid == process; });
}

std::optional<std::string> Offences::add(const ProgramName& offender, std::string_view what,
                                         std::uint64_t more, std::uint64_t from) {
  Offence& offence = find(offender, what, {});
  const unsigned before = lines_for(offence.count, from);
  offence.count += more;
  return lines_for(offence.count, from) > before ? std::optional{line_of(offence)} : std::nullopt;
}

std::optional<std::string> Offences::add_reported(const ProgramName& offender,
                                                  std::string_view what, std::uint64_t count,
                                                  const ProgramName& reporter) {
  Offence& offence = find(offender, what, to_string(reporter));
  const unsigned before = lines_for(offence.count, 1);
  offence.count = std::max(offence.count, count);
  if (lines_for(offence.count, 1) == before) {
    return std::nullopt;
  }
  if (lines_by_reporter_.size() > kMax) {
    lines_by_reporter_.clear();
  }
  const unsigned told = ++lines_by_reporter_[reporter.pid];
  if (told > kMaxReportedLines) {
    return std::nullopt;
  }
  return told < kMaxReportedLines
             ? line_of(offence)
             : fmt::format("{}: its further reports are not logged", to_string(reporter));
}

}  // namespace weft::daemon
