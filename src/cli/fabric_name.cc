#include "cli/fabric_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "cli/fabric_client.h"
#include "os/run_directory.h"

namespace weft::cli {

std::shared_ptr<std::string> add_fabric_name(CLI::App& command) {
  auto name = std::make_shared<std::string>();
  command.add_option(
      "--name", *name,
      fmt::format("Name of the fabric; without, $WEFT_FABRIC, else {}, else the one that is up",
                  os::kDefaultFabric));
  return name;
}

Result<std::string> resolve_fabric_name(const std::string& named) {
  if (!named.empty()) {
    return named;
  }
  const char* const said = std::getenv("WEFT_FABRIC");
  if (said != nullptr && *said != '\0') {
    return std::string{said};
  }
  clear_dead_fabrics();
  std::vector<std::string> fabrics = os::list_fabrics(os::run_directory_path());
  if (fabrics.size() == 1) {
    return fabrics.front();
  }
  if (fabrics.empty() || std::ranges::find(fabrics, os::kDefaultFabric) != fabrics.end()) {
    return std::string{os::kDefaultFabric};
  }
  std::ranges::sort(fabrics);
  return fail(ErrorCode::InvalidArgument,
              "several fabrics are up: {}; select one by --name or WEFT_FABRIC",
              fmt::join(fabrics, ", "));
}

}  // namespace weft::cli
