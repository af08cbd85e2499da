#include "daemon/namespaces/sys_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace weft::daemon {
namespace {

constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0444;

/// Below /sys/class: host_view names what lies below /sys.
[[nodiscard]] const char* below_class(const std::string& path) {
  constexpr std::string_view kClass = "class/";
  return path.starts_with(kClass) ? path.c_str() + kClass.size() : nullptr;
}

[[nodiscard]] std::string beside(std::string_view path) {
  return fmt::format("{}/.weft-new", path.substr(0, path.rfind('/')));
}

[[nodiscard]] std::unexpected<Error> failed(std::string_view path) {
  return fail(ErrorCode::Io, "/sys/{} of a host: {}", path, std::strerror(errno));
}

}  // namespace

Result<void> SysFiles::show(const host_view::SysTree& tree, Counters counters) {
  Result<void> first;
  const auto note = [&first](Result<void> result) {
    if (!result && first) {
      first = std::move(result);
    }
  };
  for (const std::string& folder : tree.folders) {
    const char* const path = below_class(folder);
    if (path != nullptr && folders_.insert(folder).second &&
        mkdirat(folder_.get(), path, kFolderMode) != 0 && errno != EEXIST) {
      note(failed(folder));
    }
  }
  for (const host_view::SysFile& file : tree.files) {
    if (file.freshness == host_view::Freshness::WhenRead) {
      live_.insert(file.path);
      if (kept_elsewhere_.contains(file.path) ||
          (counters == Counters::Leave && contents_.contains(file.path))) {
        continue;
      }
    }
    note(write(file));
  }
  for (const host_view::SysLink& link : tree.links) {
    const char* const path = below_class(link.path);
    if (path != nullptr && links_.emplace(link.path, link.target).second &&
        symlinkat(link.target.c_str(), folder_.get(), path) != 0 && errno != EEXIST) {
      note(failed(link.path));
    }
  }
  remove_what_is_not_in(tree, counters);
  return first;
}

Result<void> SysFiles::write(const host_view::SysFile& file) {
  const char* const path = below_class(file.path);
  const auto known = contents_.find(file.path);
  if (path == nullptr || (known != contents_.end() && known->second == file.content)) {
    return {};
  }
  const std::string fresh = beside(path);
  const os::UniqueFd made{openat(folder_.get(), fresh.c_str(),
                                 O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode)};
  const auto bytes = static_cast<ssize_t>(file.content.size());
  if (!made || ::write(made.get(), file.content.data(), file.content.size()) != bytes ||
      renameat(folder_.get(), fresh.c_str(), folder_.get(), path) != 0) {
    const auto failure = failed(file.path);
    unlinkat(folder_.get(), fresh.c_str(), 0);
    return failure;
  }
  contents_[file.path] = file.content;
  return {};
}

void SysFiles::remove_what_is_not_in(const host_view::SysTree& tree, Counters counters) {
  std::set<std::string_view> wanted;
  for (const host_view::SysFile& file : tree.files) {
    wanted.insert(file.path);
  }
  std::erase_if(contents_, [&](const auto& entry) {
    const std::string& path = entry.first;
    const bool is_live = live_.contains(path);
    if (wanted.contains(path) || (is_live && counters == Counters::Leave)) {
      return false;
    }
    unlinkat(folder_.get(), below_class(path), 0);
    live_.erase(path);
    kept_elsewhere_.erase(path);
    return true;
  });
}

std::vector<SysFiles::LiveFile> SysFiles::open_live_files() {
  std::vector<LiveFile> files;
  for (const std::string& path : live_) {
    if (kept_elsewhere_.contains(path) || !contents_.contains(path)) {
      continue;
    }
    // By its owner, who may write although the mode says read: but not without asking for it.
    fchmodat(folder_.get(), below_class(path), kFileMode | S_IWUSR, 0);
    os::UniqueFd file{openat(folder_.get(), below_class(path), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    fchmodat(folder_.get(), below_class(path), kFileMode, 0);
    if (file) {
      kept_elsewhere_.insert(path);
      files.push_back({.path = path, .file = std::move(file)});
    }
  }
  return files;
}

}  // namespace weft::daemon
