#include "host/run_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace weft::host {

std::string run_directory_path() {
  if (const char* run = std::getenv("WEFT_RUN"); run != nullptr && *run != '\0') {
    return run;
  }
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    return fmt::format("{}/weft", runtime);
  }
  return fmt::format("/tmp/weft-{}", getuid());
}

Result<std::string> run_directory() {
  const std::string path = run_directory_path();
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::Io, "run directory {}: {}; WEFT_RUN names another", path,
                std::strerror(errno));
  }
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::Io, "run directory {} is no directory; WEFT_RUN names another", path);
  }
  if (status.st_uid != getuid() || (status.st_mode & 0077) != 0) {
    return fail(ErrorCode::PermissionDenied,
                "run directory {} must belong to you and be closed to others (mode 0700); WEFT_RUN "
                "names another",
                path);
  }
  return path;
}

Result<void> check_fabric_name(std::string_view name) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (name.empty() || name.size() > 32 || name.front() == '.' ||
      !std::ranges::all_of(name, is_good)) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is no name for a fabric: 1 to 32 letters, digits, '-', '_' or '.'", name);
  }
  return {};
}

std::string fabric_directory(const std::string& run, std::string_view fabric) {
  return fmt::format("{}/{}", run, fabric);
}

std::string control_path(const std::string& run, std::string_view fabric) {
  return fmt::format("{}/{}/control", run, fabric);
}

std::vector<std::string> list_fabrics(const std::string& run) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{run, error}) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(error) && check_fabric_name(name)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string fabric_of_environment() {
  const char* const fabric = std::getenv("WEFT_FABRIC");
  return fabric != nullptr && *fabric != '\0' ? std::string{fabric} : std::string{kDefaultFabric};
}

}  // namespace weft::host
