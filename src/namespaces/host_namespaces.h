#pragma once

// The namespaces of a simulated host: a program that enters them finds the host's name, its RDMA
// devices in /sys and /dev, a /run of its own and a network of its own, without root. All hosts of
// one user's fabric share one user namespace, so that their programs may reach each other's memory
// (process_vm_writev) and descriptors.
//
// Nothing of it is mounted where others see it. Namespaces live as long as a process is in them or
// somebody holds their descriptors: the daemon does, and with it they end.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::namespaces {

/// What the hosts of a fabric share.
struct FabricNamespaces {
  os::UniqueFd user;
  /// A network with a bridge, to which each host's first interface is connected.
  os::UniqueFd hub;
};

/// One host's.
struct HostNamespaces {
  os::UniqueFd mount;
  os::UniqueFd network;
  os::UniqueFd uts;
  /// The folder that is /sys/class there, to write what it shows from outside.
  os::UniqueFd sys_class;
  /// The folder that is /dev/infiniband there.
  os::UniqueFd dev_infiniband;
  /// The /dev/fuse of the file system that is /sys/class/weft there, whose requests somebody is to
  /// answer; or, on a machine without FUSE for who makes it, that folder, read-only for programs
  /// there, to be filled from outside.
  os::UniqueFd functions;
};

/// How a host is to look.
struct HostDescription {
  std::string name;
  /// Of the interface that carries IP between the hosts, `127.77.0.1` or `10.0.0.1/16`; IPv6 ones
  /// too.
  std::vector<std::string> addresses;
  /// Which port of the hub it takes; unique in the fabric.
  std::uint32_t index{};
  /// The text of /etc/hosts, a file that the caller keeps and may rewrite.
  std::string hosts_file;
  /// A folder that must be seen at the same path, though it may lie below /run: Weft's run
  /// directory.
  std::string run_directory;
  /// Identifies the fabric in /run/weft-fabric, by which its processes are found.
  std::string fabric_id;
};

/// Made once a fabric. NotSupported or PermissionDenied: this machine forbids it; the reason says
/// what would allow it.
[[nodiscard]] Result<FabricNamespaces> make_fabric_namespaces();

/// Made once a host.
[[nodiscard]] Result<HostNamespaces> make_host_namespaces(const FabricNamespaces& fabric,
                                                          const HostDescription& host);

/// Moves the calling process, which must have one thread, into a host's namespaces; a namespace in
/// which it is already is left alone. The working directory stays if it can be seen there.
[[nodiscard]] Result<void> enter(const os::UniqueFd& user, const HostNamespaces& host);

}  // namespace weft::namespaces
