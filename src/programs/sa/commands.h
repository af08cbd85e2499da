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
/// Nodes with this LID, GUID (of the node or of a port, 0x...) or name (the first word of its
/// description); empty: all.
[[nodiscard]] int find_nodes(const std::string& wanted);
/// Members of this group; empty: of all.
[[nodiscard]] int find_members(const std::string& mgid);

}  // namespace weft::programs::sa_tool
