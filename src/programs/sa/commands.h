#pragma once

// What `weft sa` does on a host. Each returns an exit status, having said what is wrong.

#include <cstdint>
#include <string>

namespace weft::programs::sa_tool {

struct PathOptions {
  std::string to;    ///< a GID; or a name or IP address that the host's resolver knows
  std::string from;  ///< a GID; empty: the host's own
  std::uint16_t pkey{};
  std::uint64_t service_id{};
  std::uint8_t tclass{};
  bool asks_resolver{true};
};
/// First the host's resolver, then SA.
[[nodiscard]] int find_path(const PathOptions& options);
/// Services with this name; empty: all.
[[nodiscard]] int find_services(const std::string& name);
/// Members of this group; empty: of all.
[[nodiscard]] int find_members(const std::string& mgid);

}  // namespace weft::programs::sa_tool
