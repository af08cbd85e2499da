#include "daemon/namespaces/kept_namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "host_view/function_files.h"
#include "host_view/sysfs.h"

namespace weft::daemon {
namespace {

[[nodiscard]] SharedFd share(os::UniqueFd& fd) {
  return std::make_shared<const os::UniqueFd>(std::move(fd));
}

[[nodiscard]] bool is_folder(const os::UniqueFd& fd) {
  struct stat status{};
  return fstat(fd.get(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

KeptNamespaces::KeptNamespaces(asio::io_context& loop, Handlers handlers)
    : loop_(loop),
      handlers_(std::move(handlers)),
      live_files_(loop,
                  [this](LiveFiles::Owner owner) {
                    std::map<std::string, std::string> contents;
                    host_view::SysTree tree =
                        host_view::sys_tree(handlers_.view(fabric::NodeIndex{owner}, true));
                    for (host_view::SysFile& file : tree.files) {
                      if (file.freshness == host_view::Freshness::WhenRead) {
                        contents.emplace(std::move(file.path), std::move(file.content));
                      }
                    }
                    return contents;
                  }),
      every_second_(loop) {}

std::vector<SharedFd> KeptNamespaces::host_descriptors(fabric::NodeIndex host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) {
    return {};
  }
  const Host& kept = found->second;
  return {fabric_.front(), kept.mount, kept.network, kept.uts};
}

Result<void> KeptNamespaces::keep_fabric(std::array<os::UniqueFd, 2> descriptors) {
  const auto user = os::identify_namespace(descriptors[0].get(), os::NamespaceKind::User);
  const auto hub = os::identify_namespace(descriptors[1].get(), os::NamespaceKind::Network);
  if (!user || !hub || !os::belongs_to(descriptors[1].get(), *user)) {
    return fail(ErrorCode::InvalidArgument, "these are not a fabric's user and network namespace");
  }
  if (!user_id_) {
    user_id_ = *user;
    fabric_ = {share(descriptors[0]), share(descriptors[1])};
  }
  return {};
}

Result<void> KeptNamespaces::keep_host(
    fabric::NodeIndex host, std::array<os::UniqueFd, uabi::kKeepHostDescriptors> descriptors) {
  auto& [mount, network, uts, sys_class, dev, functions] = descriptors;
  const auto mount_id = os::identify_namespace(mount.get(), os::NamespaceKind::Mount);
  const auto is_ours = [&](const os::UniqueFd& fd, os::NamespaceKind kind) {
    return os::identify_namespace(fd.get(), kind) && os::belongs_to(fd.get(), *user_id_);
  };
  if (!user_id_ || !mount_id || !is_ours(mount, os::NamespaceKind::Mount) ||
      !is_ours(network, os::NamespaceKind::Network) || !is_ours(uts, os::NamespaceKind::Uts) ||
      !is_folder(sys_class) || !is_folder(dev) ||
      (!is_folder(functions) && !is_fuse_device(functions))) {
    return fail(ErrorCode::InvalidArgument,
                "these are not a host's namespaces and folders, or of another fabric");
  }
  if (hosts_.contains(host)) {
    return {};
  }
  Host kept{.mount = share(mount),
            .network = share(network),
            .uts = share(uts),
            .mount_id = *mount_id,
            .sys = SysFiles{std::move(sys_class)},
            .dev = std::move(dev),
            .functions = {},
            .read_only_functions = {}};
  if (is_folder(functions)) {
    kept.read_only_functions.emplace(std::move(functions));
  } else {
    auto served = FunctionFileSystem::create(
        loop_, std::move(functions), [this, host](const std::string& path, std::string_view text) {
          return handlers_.write_function_file(host, path, text);
        });
    if (!served) {
      return std::unexpected(std::move(served.error()));
    }
    kept.functions = std::move(*served);
  }
  fill(host, hosts_.emplace(host, std::move(kept)).first->second);
  return {};
}

/// The files of virtual functions.
void KeptNamespaces::show_functions(Host& kept, const host_view::HostView& view) const {
  const host_view::FunctionTree tree = host_view::function_tree(view);
  if (kept.functions) {
    return kept.functions->show(tree);
  }
  host_view::SysTree plain;  // SysFiles has its paths below /sys/class
  for (const std::string& folder : tree.folders) {
    plain.folders.push_back("class/" + folder);
  }
  for (const host_view::FunctionFile& file : tree.files) {
    plain.files.push_back({.path = "class/" + file.path, .content = file.content});
  }
  if (const auto shown = kept.read_only_functions->show(plain, SysFiles::Counters::Leave); !shown) {
    handlers_.log(shown.error().reason);
  }
}

/// All files of a new host.
void KeptNamespaces::fill(fabric::NodeIndex host, Host& kept) {
  const host_view::HostView view = handlers_.view(host, true);
  make_device_files(host, kept, view);
  if (kept.read_only_functions) {
    handlers_.log(
        "a host's files of virtual functions in /sys are read-only, since it has no FUSE file "
        "system (docs/guide/sriov.md says what that needs); `weft vf` does the same");
  }
  show_functions(kept, view);
  if (const auto shown = kept.sys.show(host_view::sys_tree(view), SysFiles::Counters::Write);
      !shown) {
    handlers_.log(shown.error().reason);
  }
  std::string refusal;
  for (SysFiles::LiveFile& live : kept.sys.open_live_files()) {
    if (const auto held = live_files_.keep(host.value(), live.path, std::move(live.file)); !held) {
      kept.sys.take_back(live.path);
      refusal = held.error().reason;
    }
  }
  if (!refusal.empty()) {
    handlers_.log(fmt::format("counters in /sys are up to a second old: {}", refusal));
    write_unkept_later();
  }
}

/// Names for who looks which devices there are. Opening one fails with ENXIO, as that of a device
/// whose driver is gone: only the drop-in libraries reach Weft's. An issm is the file that its
/// library opens, too.
void KeptNamespaces::make_device_files(fabric::NodeIndex host, const Host& kept,
                                       const host_view::HostView& view) const {
  constexpr mode_t kMode = 0666;  // as rdma-core's udev rules give
  for (const host_view::CharacterDeviceView& device : view.character_devices) {
    int made = -1;
    if (device.type == "issm") {
      const auto at = std::ranges::find_if(
          view.devices, [&](const auto& each) { return each.index == device.device; });
      const std::string target =
          at == view.devices.end() ? std::string{}
                                   : handlers_.is_sm_path(host, at->name, device.port.value_or(0));
      made = symlinkat(target.c_str(), kept.dev.get(), device.name.c_str());
    } else {
      made = mknodat(kept.dev.get(), device.name.c_str(), S_IFSOCK | kMode, 0);
    }
    if (made != 0) {
      handlers_.log(fmt::format("no /dev/infiniband/{} for a host", device.name));
    }
  }
}

std::optional<os::NamespaceId> KeptNamespaces::drop_host(fabric::NodeIndex host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) {
    return std::nullopt;
  }
  const os::NamespaceId mount = found->second.mount_id;
  live_files_.forget(host.value());
  hosts_.erase(found);
  return mount;
}

std::vector<fabric::NodeIndex> KeptNamespaces::hosts() const {
  std::vector<fabric::NodeIndex> all;
  for (const auto& [host, kept] : hosts_) {
    all.push_back(host);
  }
  return all;
}

void KeptNamespaces::tables_changed() {
  for (auto& [host, kept] : hosts_) {
    host_view::HostView view = handlers_.view(host, false);
    if (view == kept.shown) {
      continue;  // most changes are others'
    }
    if (const auto shown = kept.sys.show(host_view::sys_tree(view), SysFiles::Counters::Leave);
        !shown) {
      handlers_.log(shown.error().reason);
    }
    show_functions(kept, view);
    kept.shown = std::move(view);
  }
}

void KeptNamespaces::write_unkept_later() {
  if (writes_unkept_) {
    return;
  }
  writes_unkept_ = true;
  every_second_.expires_after(std::chrono::seconds{1});  // policy
  every_second_.async_wait([this](const std::error_code& error) {
    writes_unkept_ = false;
    if (!error) {
      write_unkept();
    }
  });
}

/// Where there are no leases, while somebody is there who may read.
void KeptNamespaces::write_unkept() {
  const bool has_readers = !os::processes_in_user_namespace(*user_id_).empty();
  bool has_unkept = false;
  for (auto& [host, kept] : hosts_) {
    if (!kept.sys.has_unkept_files()) {
      continue;
    }
    has_unkept = true;
    if (has_readers) {
      static_cast<void>(!kept.sys.show(host_view::sys_tree(handlers_.view(host, true)),
                                       SysFiles::Counters::Write));
    }
  }
  if (has_unkept) {
    write_unkept_later();
  }
}

}  // namespace weft::daemon
