#include "namespaces/user_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "os/unique_fd.h"

namespace weft::namespaces {
namespace {

/// The first number in a file of /proc/sys; -1 without it.
[[nodiscard]] long setting(const char* path) {
  std::ifstream file{path};
  long value = -1;
  return file >> value ? value : -1;
}

[[nodiscard]] Result<void> write_file(const std::string& path, const std::string& text) {
  // One write() of the whole text is what the kernel asks for.
  const os::UniqueFd file{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return std::unexpected(forbidden(path, errno));
  }
  return {};
}

}  // namespace

Error forbidden(std::string_view what, int error) {
  std::string reason = fmt::format("{}: {}", what, std::strerror(error));
  if (error != EPERM && error != EACCES && error != ENOSPC && error != EUSERS) {
    return {ErrorCode::Io, reason};
  }
  reason += ". Namespaces for ordinary users are needed here";
  if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1) {
    reason +=
        ", and AppArmor keeps them from programs without a profile: install "
        "packaging/apparmor/weft "
        "(its first lines say how)";
  } else if (setting("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
    reason += ": `sudo sysctl kernel.unprivileged_userns_clone=1` allows them";
  } else if (setting("/proc/sys/user/max_user_namespaces") == 0) {
    reason += ": `sudo sysctl user.max_user_namespaces=10000` allows them";
  } else if (error == ENOSPC || error == EUSERS) {
    reason += ", and there are too many: `sysctl user.max_user_namespaces` says how many may be";
  } else {
    reason +=
        "; a container must be started so that it may make them (docker run --security-opt "
        "seccomp=unconfined --security-opt apparmor=unconfined, or --privileged)";
  }
  return {ErrorCode::PermissionDenied, reason};
}

Result<void> unshare_user() {
  if (unshare(CLONE_NEWUSER) != 0) {
    return std::unexpected(forbidden("a new user namespace", errno));
  }
  return {};
}

Result<void> give_ids(int pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  const bool is_root = geteuid() == 0;
  const std::string users = is_root ? "0 0 4294967295" : fmt::format("0 {} 1", geteuid());
  const std::string groups = is_root ? "0 0 4294967295" : fmt::format("0 {} 1", getegid());
  if (!is_root) {
    // Else an ordinary user could leave a group whose members may do less than others.
    if (auto denied = write_file(folder + "setgroups", "deny"); !denied) {
      return denied;
    }
  }
  if (auto written = write_file(folder + "uid_map", users); !written) {
    return written;
  }
  return write_file(folder + "gid_map", groups);
}

}  // namespace weft::namespaces
