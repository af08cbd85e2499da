#include "os/thread_state.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace weft::os {
namespace {

/// What follows `name` and white space, if the line begins with it.
[[nodiscard]] std::optional<std::string_view> value_in(std::string_view line,
                                                       std::string_view name) {
  if (!line.starts_with(name)) {
    return std::nullopt;
  }
  line.remove_prefix(name.size());
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::nullopt : std::optional{line.substr(first)};
}

[[nodiscard]] std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::optional<ThreadState> read_thread_state(std::istream& status) {
  constexpr std::string_view kGone = "ZXx";
  ThreadState state;
  int seen = 0;
  for (std::string line; std::getline(status, line);) {
    if (const auto letter = value_in(line, "State:")) {
      state.is_gone = kGone.find(letter->front()) != std::string_view::npos;
      state.is_runnable = letter->front() == 'R';
      ++seen;
    } else if (const auto count = value_in(line, "voluntary_ctxt_switches:")) {
      state.switches += number_in(*count);
      ++seen;
    } else if (const auto forced = value_in(line, "nonvoluntary_ctxt_switches:")) {
      state.switches += number_in(*forced);
      ++seen;
    }
  }
  return seen == 3 ? std::optional{state} : std::nullopt;
}

std::optional<ThreadState> thread_state(pid_t process, std::uint32_t thread) {
  errno = 0;
  std::ifstream status{"/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) +
                       "/status"};
  if (!status) {
    // Without a /proc of its own, this process knows nothing of others.
    const bool is_gone = errno == ENOENT && access("/proc/self/status", F_OK) == 0;
    return is_gone ? std::optional{ThreadState{.is_gone = true}} : std::nullopt;
  }
  return read_thread_state(status);
}

}  // namespace weft::os
