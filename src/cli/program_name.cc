#include "cli/program_name.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace weft::cli {
namespace {

[[nodiscard]] bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char character) {
    return (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9') ||
           character == '_';
  });
}

}  // namespace

std::string program_for(std::string_view name) {
  if (!is_plain(name)) {
    return {};
  }
  const std::string program = "weft-" + std::string{name};
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  // In a tree of builds each program is in a folder of its own.
  const std::filesystem::path here = own.parent_path();
  for (const auto& candidate :
       {here / program, here.parent_path() / "programs" / std::string{name} / program}) {
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : ""};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path{folder} / program;
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return {};
}

}  // namespace weft::cli
