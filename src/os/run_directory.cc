#include "os/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace weft::os {
namespace {

/// Everything that a daemon and its programs put into a fabric's directory.
constexpr std::array<std::string_view, 6> kFilesOfFabric{"control", "hosts",        "lock",
                                                         "log",     "rdma-netlink", "sys"};

/// A directory of ours whose daemon is dead: the lock dies with its holder. The directory of a
/// daemon that is just starting has no file yet.
[[nodiscard]] bool is_dead(const std::string& run, const std::string& fabric) {
  std::error_code error;
  bool has_files = false;
  for (const auto& entry :
       std::filesystem::directory_iterator{fabric_directory(run, fabric), error}) {
    has_files = true;
    const std::string name = entry.path().filename().string();
    if (std::ranges::find(kFilesOfFabric, name) == kFilesOfFabric.end()) {
      return false;  // somebody else's
    }
  }
  if (error || !has_files) {
    return false;
  }
  const UniqueFd lock{open(lock_path(run, fabric).c_str(), O_RDWR | O_CLOEXEC)};
  return lock ? flock(lock.get(), LOCK_EX | LOCK_NB) == 0 : errno == ENOENT;
}

}  // namespace

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

std::string lock_path(const std::string& run, std::string_view fabric) {
  return fmt::format("{}/{}/lock", run, fabric);
}

Result<UniqueFd> lock_run_directory(const std::string& run) {
  UniqueFd directory{open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory || flock(directory.get(), LOCK_EX) != 0) {
    return fail(ErrorCode::Io, "run directory {}: {}", run, std::strerror(errno));
  }
  return directory;
}

std::vector<std::string> clear_dead_fabrics(const std::string& run) {
  std::vector<std::string> cleared;
  const auto guard = lock_run_directory(run);
  if (!guard) {
    return cleared;  // there is none yet
  }
  for (const std::string& fabric : list_fabrics(run)) {
    std::error_code error;
    if (is_dead(run, fabric) &&
        std::filesystem::remove_all(fabric_directory(run, fabric), error) != 0 && !error) {
      cleared.push_back(fabric);
    }
  }
  return cleared;
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

}  // namespace weft::os
