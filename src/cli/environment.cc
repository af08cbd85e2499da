#include "cli/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "host/run_directory.h"

namespace weft::cli {

Result<std::string> drop_in_directory() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto bin = self.parent_path();
  for (const auto& candidate : {bin / ".." / "compat" / "ibverbs", bin / ".." / "lib" / "weft"}) {
    if (std::filesystem::exists(candidate / "libibverbs.so.1", error)) {
      return std::filesystem::weakly_canonical(candidate, error).string();
    }
  }
  return fail(ErrorCode::NotFound, "no libibverbs.so.1 beside {}: build all of Weft",
              self.string());
}

Result<void> enter(const std::string& fabric, const std::string& host) {
  const auto library = drop_in_directory();
  if (!library) {
    return std::unexpected(library.error());
  }
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string path =
      before == nullptr || *before == '\0' ? *library : fmt::format("{}:{}", *library, before);
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  setenv("WEFT_RUN", host::run_directory_path().c_str(), 1);
  setenv("WEFT_FABRIC", fabric.c_str(), 1);
  setenv("WEFT_HOST", host.c_str(), 1);
  return {};
}

}  // namespace weft::cli
