#include "cli/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

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

}  // namespace

Result<std::string> drop_in_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto above = self.parent_path() / "..";
  std::string path;
  std::string last;
  for (const DropIn& each : kDropIns) {
    std::filesystem::path found;
    for (const auto& candidate : {above / "compat" / each.folder, above / "lib" / "weft"}) {
      if (found.empty() && std::filesystem::exists(candidate / each.library, error)) {
        found = std::filesystem::weakly_canonical(candidate, error);
      }
    }
    if (found.empty()) {
      return fail(ErrorCode::NotFound, "no {} beside {}: build all of Weft", each.library,
                  self.string());
    }
    if (found.string() != last) {  // installed libraries are all in one folder
      last = found.string();
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
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string path =
      before == nullptr || *before == '\0' ? *library : fmt::format("{}:{}", *library, before);
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  setenv("WEFT_RUN", os::run_directory_path().c_str(), 1);
  setenv("WEFT_FABRIC", fabric.c_str(), 1);
  setenv("WEFT_HOST", host.c_str(), 1);
  return {};
}

}  // namespace weft::cli
