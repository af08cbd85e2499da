#include "namespaces/host_namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "namespaces/child.h"
#include "namespaces/mounts.h"
#include "namespaces/network.h"
#include "namespaces/user_namespace.h"

namespace weft::namespaces {
namespace {

[[nodiscard]] Result<os::UniqueFd> own_namespace(const char* kind) {
  os::UniqueFd fd{open(fmt::format("/proc/self/ns/{}", kind).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) {
    return fail(ErrorCode::Io, "/proc/self/ns/{}: {}", kind, std::strerror(errno));
  }
  return fd;
}

/// Whether the process is in that namespace already.
[[nodiscard]] bool is_in(const os::UniqueFd& fd, const char* kind) {
  struct stat own{};
  struct stat other{};
  return stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &own) == 0 &&
         fstat(fd.get(), &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

[[nodiscard]] Result<void> join(const os::UniqueFd& fd, const char* kind, int type) {
  if (is_in(fd, kind)) {
    return {};
  }
  if (setns(fd.get(), type) != 0) {
    return std::unexpected(forbidden(fmt::format("the host's {} namespace", kind), errno));
  }
  return {};
}

/// In a child: the namespaces' descriptors, in this order.
[[nodiscard]] Result<std::vector<os::UniqueFd>> descriptors_of(
    std::initializer_list<const char*> kinds) {
  std::vector<os::UniqueFd> descriptors;
  for (const char* const kind : kinds) {
    auto fd = own_namespace(kind);
    if (!fd) {
      return std::unexpected(std::move(fd.error()));
    }
    descriptors.push_back(std::move(*fd));
  }
  return descriptors;
}

}  // namespace

Result<FabricNamespaces> make_fabric_namespaces() {
  auto made = run_in_child(
      []() -> Result<std::vector<os::UniqueFd>> {
        if (unshare(CLONE_NEWNET) != 0) {
          return std::unexpected(forbidden("a new network namespace", errno));
        }
        if (auto hub = make_hub(); !hub) {
          return std::unexpected(std::move(hub.error()));
        }
        return descriptors_of({"user", "net"});
      },
      {.before = unshare_user, .meanwhile = give_ids});
  if (!made) {
    return std::unexpected(std::move(made.error()));
  }
  return FabricNamespaces{.user = std::move(made->at(0)), .hub = std::move(made->at(1))};
}

Result<HostNamespaces> make_host_namespaces(const FabricNamespaces& fabric,
                                            const HostDescription& host) {
  auto made = run_in_child([&]() -> Result<std::vector<os::UniqueFd>> {
    if (auto joined = join(fabric.user, "user", CLONE_NEWUSER); !joined) {
      return std::unexpected(std::move(joined.error()));
    }
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS) != 0) {
      return std::unexpected(forbidden("new mount, network and UTS namespaces", errno));
    }
    if (sethostname(host.name.data(), host.name.size()) != 0) {
      return std::unexpected(forbidden("the host's name", errno));
    }
    if (auto connected = connect_host(fabric.hub, host.index, host.addresses); !connected) {
      return std::unexpected(std::move(connected.error()));
    }
    auto folders = mount_host(host);
    if (!folders) {
      return std::unexpected(std::move(folders.error()));
    }
    auto descriptors = descriptors_of({"mnt", "net", "uts"});
    if (descriptors) {
      descriptors->push_back(std::move(folders->sys_class));
      descriptors->push_back(std::move(folders->dev_infiniband));
      descriptors->push_back(std::move(folders->functions));
    }
    return descriptors;
  });
  if (!made) {
    return std::unexpected(std::move(made.error()));
  }
  return HostNamespaces{.mount = std::move(made->at(0)),
                        .network = std::move(made->at(1)),
                        .uts = std::move(made->at(2)),
                        .sys_class = std::move(made->at(3)),
                        .dev_infiniband = std::move(made->at(4)),
                        .functions = std::move(made->at(5))};
}

Result<void> enter(const os::UniqueFd& user, const HostNamespaces& host) {
  std::error_code error;
  const std::filesystem::path working = std::filesystem::current_path(error);
  if (auto joined = join(user, "user", CLONE_NEWUSER); !joined) {
    return joined;
  }
  if (auto joined = join(host.network, "net", CLONE_NEWNET); !joined) {
    return joined;
  }
  if (auto joined = join(host.uts, "uts", CLONE_NEWUTS); !joined) {
    return joined;
  }
  if (auto joined = join(host.mount, "mnt", CLONE_NEWNS); !joined) {
    return joined;
  }
  // setns() to another mount namespace leaves one at its root.
  if (chdir(working.c_str()) != 0 && chdir("/") != 0) {
    return fail(ErrorCode::Io, "{}: {}", working.string(), std::strerror(errno));
  }
  return {};
}

}  // namespace weft::namespaces
