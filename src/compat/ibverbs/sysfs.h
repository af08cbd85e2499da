#pragma once

#include <span>
#include <string>

#include "host/process.h"

namespace weft::compat {

/// The directory that stands for /sys: $SYSFS_PATH as in rdma-core, else a directory in the
/// fabric's run directory.
[[nodiscard]] std::string sysfs_path();

/// Writes class/infiniband/<device>/... for programs that read it; files that cannot be written are
/// omitted.
void write_sysfs(std::span<const host::HostHca> hcas);

}  // namespace weft::compat
