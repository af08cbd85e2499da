#include "namespaces/mounts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "namespaces/user_namespace.h"

namespace weft::namespaces {
namespace {

namespace fs = std::filesystem;

/// Opened before something is mounted over it, so that it can be mounted again elsewhere.
[[nodiscard]] os::UniqueFd hold(const fs::path& path) {
  return os::UniqueFd{open(path.c_str(), O_PATH | O_CLOEXEC)};
}

[[nodiscard]] std::string path_of(const os::UniqueFd& fd) {
  return fmt::format("/proc/self/fd/{}", fd.get());
}

[[nodiscard]] Result<void> mount_tmpfs(const char* target, const char* options) {
  if (mount("weft", target, "tmpfs", MS_NOSUID, options) != 0) {
    return std::unexpected(
        forbidden(fmt::format("a file system of one's own at {}", target), errno));
  }
  return {};
}

/// False, with errno, if `to` cannot show what `from` is.
bool bind_mount(const std::string& from, const fs::path& to) {
  return mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

/// A folder or file at `to` that is what `held` is. False if it cannot be had.
bool bind_held(const os::UniqueFd& held, const fs::path& to) {
  struct stat status{};
  if (!held || fstat(held.get(), &status) != 0) {
    return false;
  }
  std::error_code error;
  if (S_ISDIR(status.st_mode)) {
    fs::create_directories(to, error);
  } else {
    fs::create_directories(to.parent_path(), error);
    const os::UniqueFd made{open(to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
  }
  return bind_mount(path_of(held), to);
}

[[nodiscard]] Result<void> mount_run(const HostDescription& host) {
  const os::UniqueFd run_directory = hold(host.run_directory);
  const os::UniqueFd hosts_file = hold(host.hosts_file);
  if (!run_directory || !hosts_file) {
    return fail(ErrorCode::NotFound, "{} or {} is not there", host.run_directory, host.hosts_file);
  }
  const char* const user_folder = std::getenv("XDG_RUNTIME_DIR");
  if (auto mounted = mount_tmpfs("/run", "mode=0755,size=64m"); !mounted) {
    return mounted;
  }
  std::error_code error;
  fs::create_directories("/run/lock", error);
  fs::permissions("/run/lock", fs::perms::all | fs::perms::sticky_bit, error);
  fs::create_directories("/run/sshd", error);
  if (user_folder != nullptr && std::string_view{user_folder}.starts_with("/run/")) {
    fs::create_directories(user_folder, error);
    fs::permissions(user_folder, fs::perms::owner_all, error);
  }
  if (host.run_directory.starts_with("/run/") || host.run_directory.starts_with("/var/run/")) {
    if (!bind_held(run_directory, host.run_directory)) {
      return std::unexpected(forbidden(host.run_directory, errno));
    }
  }
  std::ofstream{"/run/weft-fabric"} << host.fabric_id << '\n';
  std::ofstream{"/run/weft-hostname"} << host.name << '\n';
  // Files of /etc are replaced where they exist; without them there is nothing to replace.
  bind_mount(path_of(hosts_file), "/etc/hosts");
  bind_mount("/run/weft-hostname", "/etc/hostname");
  return {};
}

[[nodiscard]] Result<os::UniqueFd> mount_dev() {
  static constexpr auto kKept = std::to_array<std::string_view>(
      {"null", "zero", "full", "random", "urandom", "tty", "console", "pts", "shm", "mqueue",
       "hugepages", "fuse", "net", "kvm", "log", "kmsg", "userfaultfd", "vhost-net",
       "loop-control"});
  static constexpr auto kLinks = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"fd",     "/proc/self/fd"  },
      {"stdin",  "/proc/self/fd/0"},
      {"stdout", "/proc/self/fd/1"},
      {"stderr", "/proc/self/fd/2"},
      {"core",   "/proc/kcore"    },
      {"ptmx",   "pts/ptmx"       },
  });
  const fs::path dev{"/dev"};
  std::vector<os::UniqueFd> held;
  for (const std::string_view name : kKept) {
    held.push_back(hold(dev / name));
  }
  if (auto mounted = mount_tmpfs("/dev", "mode=0755,size=16m"); !mounted) {
    return std::unexpected(std::move(mounted.error()));
  }
  for (std::size_t i = 0; i < kKept.size(); ++i) {
    bind_held(held[i], dev / kKept[i]);
  }
  std::error_code error;
  for (const auto& [name, target] : kLinks) {
    fs::create_symlink(target, dev / name, error);
  }
  fs::create_directories("/dev/infiniband", error);
  os::UniqueFd folder{open("/dev/infiniband", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder) {
    return fail(ErrorCode::Io, "/dev/infiniband: {}", std::strerror(errno));
  }
  return folder;
}

/// Classes of which a host has its own, and none of the machine's.
constexpr auto kOwnClasses =
    std::to_array<std::string_view>({"infiniband", "infiniband_verbs", "infiniband_mad",
                                     "infiniband_cm", "infiniband_srp", "scsi_host", "iscsi_host"});

/// Entries of this class are copied, so that others can stand among them.
constexpr std::string_view kSharedClass = "misc";

[[nodiscard]] Result<os::UniqueFd> mount_sys() {
  // Who reads its limits there (MPI launchers, language runtimes) is in the same groups as outside.
  const os::UniqueFd control_groups = hold("/sys/fs/cgroup");
  // The host's network namespace shows in a sysfs mounted from within it. Where that is forbidden
  // (parts of the machine's are hidden by a container), the machine's interfaces are seen.
  static_cast<void>(mount("weft", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr));
  bind_held(control_groups, "/sys/fs/cgroup");
  const fs::path classes{"/sys/class"};
  std::vector<std::pair<fs::path, os::UniqueFd>> held;
  std::vector<std::pair<fs::path, fs::path>> links;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{classes, error}) {
    const std::string name = entry.path().filename();
    if (name == kSharedClass) {
      for (const auto& device : fs::directory_iterator{entry.path(), error}) {
        links.emplace_back(device.path(), fs::read_symlink(device.path(), error));
      }
    } else if (std::ranges::find(kOwnClasses, name) == kOwnClasses.end()) {
      held.emplace_back(entry.path(), hold(entry.path()));
    }
  }
  if (auto mounted = mount_tmpfs("/sys/class", "mode=0755,size=64m"); !mounted) {
    return std::unexpected(std::move(mounted.error()));
  }
  for (const auto& [path, fd] : held) {
    bind_held(fd, path);
  }
  fs::create_directories(classes / kSharedClass, error);
  for (const auto& [path, target] : links) {
    fs::create_symlink(target, path, error);
  }
  os::UniqueFd folder{open(classes.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder) {
    return fail(ErrorCode::Io, "/sys/class: {}", std::strerror(errno));
  }
  return folder;
}

/// /sys/class/weft, below the host's own /sys/class: files whose writes somebody answers. FUSE file
/// systems may be mounted in user namespaces since Linux 4.18, by who may open /dev/fuse; a
/// container can forbid both.
[[nodiscard]] Result<os::UniqueFd> mount_functions() {
  static constexpr const char* kFolder = "/sys/class/weft";
  std::error_code error;
  fs::create_directories(kFolder, error);
  os::UniqueFd device{open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC)};
  const std::string options = fmt::format(
      "fd={},rootmode=40555,user_id=0,group_id=0,allow_other,default_permissions", device.get());
  if (device &&
      mount("weft", kFolder, "fuse", MS_NOSUID | MS_NODEV | MS_NOEXEC, options.c_str()) == 0) {
    return device;
  }
  // A write must not seem to succeed: programs have the folder read-only, by a mount over it.
  os::UniqueFd folder{open(kFolder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder || !bind_mount(kFolder, kFolder) ||
      mount(nullptr, kFolder, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, nullptr) !=
          0) {
    return std::unexpected(forbidden(kFolder, errno));
  }
  return folder;
}

}  // namespace

Result<MountedFolders> mount_host(const HostDescription& host) {
  // What the machine mounts later is seen here, and nothing of this is seen there.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return std::unexpected(forbidden("mounts of one's own", errno));
  }
  auto sys_class = mount_sys();
  if (!sys_class) {
    return std::unexpected(std::move(sys_class.error()));
  }
  auto functions = mount_functions();  // while /dev is the machine's
  if (!functions) {
    return std::unexpected(std::move(functions.error()));
  }
  auto dev_infiniband = mount_dev();
  if (!dev_infiniband) {
    return std::unexpected(std::move(dev_infiniband.error()));
  }
  if (auto mounted = mount_run(host); !mounted) {
    return std::unexpected(std::move(mounted.error()));
  }
  return MountedFolders{.sys_class = std::move(*sys_class),
                        .dev_infiniband = std::move(*dev_infiniband),
                        .functions = std::move(*functions)};
}

}  // namespace weft::namespaces
