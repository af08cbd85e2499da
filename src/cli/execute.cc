#include "cli/execute.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

namespace weft::cli {
namespace {

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

/// True if a folder of PATH contains the program. Needed because execvp() also fails with EACCES if
/// it may not search some folder and finds the program nowhere else.
[[nodiscard]] bool is_in_path(const std::string& name) {
  std::error_code error;
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : ""};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path here = folder.empty() ? "." : folder;
    if (std::filesystem::is_regular_file(here / name, error)) {
      return true;
    }
  }
  return false;
}

}  // namespace

int execute(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int error = errno;
  const std::string& name = command.front();
  const bool is_searched = !name.contains('/');
  const bool is_missing = error == ENOENT || (is_searched && error == EACCES && !is_in_path(name));
  std::fprintf(stderr, "weft: %s: %s\n", name.c_str(),
               is_missing && is_searched ? "not found" : std::strerror(error));
  return is_missing ? kNotFound : kCannotExecute;
}

}  // namespace weft::cli
