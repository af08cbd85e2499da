#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft::cli {

/// Policy: half a kilobyte per possible node, well above the size of any topology that a machine
/// can run.
inline constexpr std::uint64_t kMaxTopologyBytes = std::uint64_t{512} << 20;

/// Reads a topology file: a regular file, or a pipe as created by the shell's <(...). Other file
/// types, and files above kMaxTopologyBytes, are refused.
[[nodiscard]] Result<std::string> read_topology_file(const std::string& path);

}  // namespace weft::cli
