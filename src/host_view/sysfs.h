#pragma once

// What /sys/class shows of a host's RDMA devices, as files: paths, contents and which of them
// change without anybody saying so (counters). Names, forms and line ends are Linux 6.1's
// (Documentation/ABI/stable/sysfs-class-infiniband), since `ibstat`, `ibstatus`, node_exporter and
// scripts parse them. Pure.

#include <functional>
#include <string>
#include <vector>

#include "host_view/host_view.h"

namespace weft::host_view {

/// Whether a file's content follows from the fabric's tables, which tell of every change, or is
/// only known when it is asked for.
enum class Freshness : std::uint8_t { WhenTablesChange, WhenRead };

struct SysFile {
  std::string path;     ///< below /sys
  std::string content;  ///< with its line end
  Freshness freshness{Freshness::WhenTablesChange};
  bool operator==(const SysFile&) const = default;
};

/// A symbolic link.
struct SysLink {
  std::string path;    ///< below /sys
  std::string target;  ///< as readlink() says it
  bool operator==(const SysLink&) const = default;
};

struct SysTree {
  std::vector<SysFile> files;
  std::vector<std::string> folders;  ///< that are there even if empty, parents first
  std::vector<SysLink> links;
};

/// All that /sys has for the host's devices, ordered by path.
[[nodiscard]] SysTree sys_tree(const HostView& host);

/// `4: ACTIVE`, as PortInfo:PortState is written.
[[nodiscard]] std::string port_state_text(std::uint8_t state);
/// `5: LinkUp`, as PortInfo:PortPhysicalState is written.
[[nodiscard]] std::string physical_state_text(std::uint8_t state);
/// `100 Gb/sec (4X EDR)`.
[[nodiscard]] std::string rate_text(std::uint8_t active_width, std::uint32_t active_speed);

}  // namespace weft::host_view
