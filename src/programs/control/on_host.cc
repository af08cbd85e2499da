#include "programs/control/on_host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

namespace weft::programs {
namespace {

constexpr int kNotFound = 127;

/// The weft command beside this program: installed in one folder, in a tree of builds in two.
[[nodiscard]] std::string weft_command(const std::filesystem::path& own) {
  const auto folder = own.parent_path();
  for (const auto& candidate : {folder / "weft", folder / ".." / ".." / "cli" / "weft"}) {
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return "weft";
}

[[nodiscard]] std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace

int run_on_host(const std::string& host, const std::string& fabric,
                std::vector<std::string> arguments) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> command{weft_command(own), "exec"};
  if (!fabric.empty()) {
    command.insert(command.end(), {"--name", fabric});
  }
  command.insert(command.end(), {"--ns", host, "--", own.string()});
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : command) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  fmt::print(stderr, "{}: {}\n", command.front(), std::strerror(errno));
  return kNotFound;
}

std::vector<std::string> without_host(int count, char** arguments) {
  std::vector<std::string> words;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--host" || word == "--name") {
      ++i;
    } else if (!word.starts_with("--host=") && !word.starts_with("--name=")) {
      words.push_back(word);
    }
  }
  return words;
}

bool is_on_host() { return !environment("WEFT_HOST").empty(); }

std::string host_key() {
  if (!is_on_host()) {
    return {};
  }
  return fmt::format("{:x}/{}/{}", std::hash<std::string_view>{}(environment("WEFT_RUN")),
                     environment("WEFT_FABRIC"), environment("WEFT_HOST"));
}

}  // namespace weft::programs
