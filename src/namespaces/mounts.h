#pragma once

// What a host sees of the file system: everything as it is outside, but a /run of its own, /dev
// with RDMA devices, /sys with the host's devices and interfaces, and the fabric's /etc/hosts.

#include "base/result.h"
#include "namespaces/host_namespaces.h"

namespace weft::namespaces {

/// The folders that are filled from outside.
struct MountedFolders {
  os::UniqueFd sys_class;
  os::UniqueFd dev_infiniband;
  os::UniqueFd functions;  ///< as HostNamespaces has it
};

/// In a child that has a mount namespace of its own, owned by the fabric's user namespace, and is
/// in the host's network namespace already.
[[nodiscard]] Result<MountedFolders> mount_host(const HostDescription& host);

}  // namespace weft::namespaces
