#include "cli/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/sanitizers.h"
#include "os/run_directory.h"

namespace weft::cli {

namespace {

/// Location of each drop-in library next to this program in the build tree.
struct DropIn {
  const char* folder;
  const char* library;
};
constexpr DropIn kDropIns[] = {
    {"ibverbs", "libibverbs.so.1"},
    {"ibumad",  "libibumad.so.3" },
    {"rdmacm",  "librdmacm.so.1" },
};

/// What every program loads before all else, so that its netlink sockets are the host's.
constexpr DropIn kNetlink{"netlink", "libweft-netlink.so"};

/// The folder of one library.
[[nodiscard]] Result<std::string> folder_of(const DropIn& library) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto above = self.parent_path() / "..";
  for (const auto& candidate : {above / "compat" / library.folder, above / "lib" / "weft"}) {
    if (!std::filesystem::exists(candidate / library.library, error)) {
      continue;
    }
    std::string folder = std::filesystem::weakly_canonical(candidate, error).string();
    if (folder.find_first_of(":;") != std::string::npos) {  // ld.so(8), LD_LIBRARY_PATH
      return fail(ErrorCode::InvalidArgument,
                  "{}: the dynamic linker takes ':' and ';' for the end of a folder's name: move "
                  "Weft to a folder without",
                  folder);
    }
    return folder;
  }
  return fail(ErrorCode::NotFound, "no {} beside {}: build all of Weft", library.library,
              self.string());
}

/// Adds `item` behind what a variable has, unless it is there.
void append_to(const char* variable, const std::string& item) {
  const char* const before = std::getenv(variable);
  if (before == nullptr || *before == '\0') {
    setenv(variable, item.c_str(), 1);
  } else if (fmt::format(":{}:", before).find(fmt::format(":{}:", item)) == std::string::npos) {
    setenv(variable, fmt::format("{}:{}", before, item).c_str(), 1);
  }
}

/// Has programs load a library before all others. A name in LD_PRELOAD ends at a space, and there
/// is no way to quote one (ld.so(8)), so that of a library in a folder with a space is looked up in
/// LD_LIBRARY_PATH.
void preload(const std::string& folder, const char* library) {
  if (folder.find_first_of(" \t\n") == std::string::npos) {
    return append_to("LD_PRELOAD", fmt::format("{}/{}", folder, library));
  }
  append_to("LD_LIBRARY_PATH", folder);
  append_to("LD_PRELOAD", library);
}

/// Many RDMA programs are in folders that an ordinary user's PATH does not have (ibstatus, opensm).
/// Without PATH execvp() has one of its own.
void add_system_programs() {
  if (const char* const path = std::getenv("PATH"); path != nullptr && *path != '\0') {
    append_to("PATH", "/usr/sbin");
    append_to("PATH", "/sbin");
  }
}

}  // namespace

Result<std::string> drop_in_path() {
  std::string path;
  std::string last;
  for (const DropIn& each : kDropIns) {
    const auto folder = folder_of(each);
    if (!folder) {
      return folder;
    }
    if (*folder != last) {  // installed libraries are all in one folder
      last = *folder;
      path += (path.empty() ? "" : ":") + last;
    }
  }
  return path;
}

Result<void> enter(const std::string& fabric, const std::string& host) {
  const auto library = drop_in_path();
  if (!library) {
    return std::unexpected(library.error());
  }
  const auto netlink = folder_of(kNetlink);
  if (!netlink) {
    return std::unexpected(netlink.error());
  }
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string path =
      before == nullptr || *before == '\0' ? *library : fmt::format("{}:{}", *library, before);
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  preload(*netlink, kNetlink.library);
#if WEFT_ADDRESS_SANITIZER
  // The sanitizer's runtime wants to be the first library of a program, which it need not be.
  append_to("ASAN_OPTIONS", "verify_asan_link_order=0");
#endif
  add_system_programs();
  setenv("WEFT_RUN", os::run_directory_path().c_str(), 1);
  setenv("WEFT_FABRIC", fabric.c_str(), 1);
  setenv("WEFT_HOST", host.c_str(), 1);
  return {};
}

void show_own_sys() { setenv("SYSFS_PATH", "/sys", 1); }

}  // namespace weft::cli
