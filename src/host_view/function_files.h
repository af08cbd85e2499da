#pragma once

// The files by which operators make virtual functions and set them up, as a kernel shows them for
// the physical function of an HCA: `sriov_totalvfs` and `sriov_numvfs` (Linux,
// Documentation/ABI/testing/sysfs-bus-pci), and below `sriov`, for each function, what mlx5 has
// there: `node` and `port`, its GUIDs, and `policy`, what its port may be. They are files of
// /sys/class/weft/DEVICE, and /sys/class/infiniband/DEVICE/device has links to them. What a file
// holds, and what text that is written to one means. Pure.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "host_view/host_view.h"
#include "verbs/port_policy.h"

namespace weft::host_view {

struct FunctionFile {
  std::string path;     ///< below /sys/class/weft: `weft0/sriov/0/node`
  std::string content;  ///< with its line end
  bool is_writable{};
  bool operator==(const FunctionFile&) const = default;
};

struct FunctionTree {
  std::vector<std::string> folders;  ///< parents first
  std::vector<FunctionFile> files;
  bool operator==(const FunctionTree&) const = default;
};

/// Of all devices of the host that can have virtual functions.
[[nodiscard]] FunctionTree function_tree(const HostView& host);

/// The names of a device's files and folders, for links to them.
[[nodiscard]] std::vector<std::string_view> function_file_names();

/// What a write asks for.
struct FunctionWrite {
  enum class What : std::uint8_t { Count, NodeGuid, PortGuid, Policy };
  What what{};
  std::uint32_t device{};    ///< its index at the host
  std::uint32_t function{};  ///< counted from 0; not of Count
  std::uint32_t count{};
  Guid guid{};
  verbs::PortPolicy policy{verbs::PortPolicy::Follow};
  bool operator==(const FunctionWrite&) const = default;
};

/// Why a write is refused: EINVAL, ERANGE, EBUSY, EACCES, and ENODEV for a function that is gone.
enum class WriteFault : std::uint8_t { BadText, TooMany, HasOthers, ReadOnly, NoSuchFile };

/// What `text` means that is written to the file at `path`. A number of functions is as the kernel
/// reads one: decimal, 0x or 0 before hexadecimal and octal ones, and one line end; 0 removes all,
/// another one makes so many where there are none.
[[nodiscard]] std::expected<FunctionWrite, WriteFault> read_write(const HostView& host,
                                                                  std::string_view path,
                                                                  std::string_view text);

}  // namespace weft::host_view
