#include "os/namespace_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>
#include <utility>

#include "os/unique_fd.h"

namespace weft::os {
namespace {

[[nodiscard]] int clone_flag(NamespaceKind kind) {
  switch (kind) {
    case NamespaceKind::User:
      return CLONE_NEWUSER;
    case NamespaceKind::Mount:
      return CLONE_NEWNS;
    case NamespaceKind::Network:
      return CLONE_NEWNET;
    case NamespaceKind::Uts:
      return CLONE_NEWUTS;
  }
  std::unreachable();
}

[[nodiscard]] NamespaceId id_of(const struct stat& status) {
  return {.device = status.st_dev, .inode = status.st_ino};
}

/// Of /proc/PID: the state and the name; a process that has ended but is not waited for is none.
[[nodiscard]] bool is_running(pid_t pid, std::string& name) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string line;
  std::getline(file, line);
  // "17 (a name) S ...": the name may hold anything, parentheses too.
  const std::size_t opens = line.find('(');
  const std::size_t closes = line.rfind(')');
  if (opens == std::string::npos || closes == std::string::npos || closes + 2 >= line.size()) {
    return false;
  }
  name = line.substr(opens + 1, closes - opens - 1);
  const char state = line[closes + 2];
  return state != 'Z' && state != 'X';
}

[[nodiscard]] std::vector<RunningProcess> processes_where(
    const std::function<bool(pid_t)>& is_wanted) {
  std::vector<RunningProcess> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc", error}) {
    const std::string number = entry.path().filename();
    pid_t pid = 0;
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), pid);
    std::string name;
    if (fault == std::errc{} && end == number.data() + number.size() && is_wanted(pid) &&
        is_running(pid, name)) {
      found.push_back({.pid = pid, .name = name});
    }
  }
  return found;
}

[[nodiscard]] bool is_in_or_below(pid_t pid, const NamespaceId& wanted) {
  constexpr int kMostLevels = 33;  // user_namespaces(7): nested up to 32 levels
  UniqueFd fd{open(fmt::format("/proc/{}/ns/user", pid).c_str(), O_RDONLY | O_CLOEXEC)};
  for (int level = 0; fd && level < kMostLevels; ++level) {
    struct stat status{};
    if (fstat(fd.get(), &status) != 0) {
      return false;
    }
    if (id_of(status) == wanted) {
      return true;
    }
    fd = UniqueFd{ioctl(fd.get(), NS_GET_PARENT)};
  }
  return false;
}

}  // namespace

Result<NamespaceId> identify_namespace(int fd, NamespaceKind kind) {
  struct stat status{};
  if (ioctl(fd, NS_GET_NSTYPE) != clone_flag(kind) || fstat(fd, &status) != 0) {
    return fail(ErrorCode::InvalidArgument, "a descriptor is not of the namespace that it must be");
  }
  return id_of(status);
}

bool belongs_to(int fd, const NamespaceId& user_namespace) {
  const UniqueFd owner{ioctl(fd, NS_GET_USERNS)};
  struct stat status{};
  return owner && fstat(owner.get(), &status) == 0 && id_of(status) == user_namespace;
}

std::vector<RunningProcess> processes_in_user_namespace(const NamespaceId& wanted) {
  return processes_where([&](pid_t pid) { return is_in_or_below(pid, wanted); });
}

std::vector<RunningProcess> processes_in_mount_namespace(const NamespaceId& wanted) {
  return processes_where([&](pid_t pid) {
    struct stat status{};
    return stat(fmt::format("/proc/{}/ns/mnt", pid).c_str(), &status) == 0 &&
           id_of(status) == wanted;
  });
}

std::vector<RunningProcess> processes_that_see(std::string_view path, std::string_view word) {
  return processes_where([&](pid_t pid) {
    // Without waiting: what is at that place in another's file system may be a FIFO.
    const UniqueFd file{open(fmt::format("/proc/{}/root{}", pid, path).c_str(),
                             O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
    struct stat status{};
    if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      return false;
    }
    std::array<char, 4096> text{};
    const ssize_t count = read(file.get(), text.data(), text.size());
    const std::string_view seen{text.data(), count < 0 ? 0 : static_cast<std::size_t>(count)};
    return seen.size() > word.size() && seen.starts_with(word) &&
           (seen[word.size()] == ' ' || seen[word.size()] == '\n');
  });
}

}  // namespace weft::os
