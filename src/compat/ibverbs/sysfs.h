#pragma once

#include <span>
#include <string>

#include "host/process.h"

namespace weft::compat {

/// Where this host's files lie that stand for /sys: $SYSFS_PATH as rdma-core has it, else a folder
/// of the fabric's run directory.
[[nodiscard]] std::string sysfs_path();

/// Writes class/infiniband/<device>/... for programs that read it; what cannot be written is left
/// out.
void write_sysfs(std::span<const host::HostHca> hcas);

}  // namespace weft::compat
