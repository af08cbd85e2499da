#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft::cli {

/// Policy: half a kilobyte for each node that a fabric may have is far more than any form takes for
/// a fabric that a machine can run.
inline constexpr std::uint64_t kMaxTopologyBytes = std::uint64_t{512} << 20;

/// The text of a topology file: a regular file, or a pipe, which the shell's <(...) makes. Whatever
/// else a path may name is refused, and so is more than kMaxTopologyBytes.
[[nodiscard]] Result<std::string> read_topology_file(const std::string& path);

}  // namespace weft::cli
