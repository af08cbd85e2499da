#pragma once

// Descriptors of Linux namespaces (namespaces(7), ioctl_ns(2)): which namespace one means, and who
// is in it.

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::os {

enum class NamespaceKind : std::uint8_t { User, Mount, Network, Uts };

/// Two descriptors mean the same namespace if these are equal. A number is used again when its
/// namespace is gone; who keeps a descriptor keeps the number.
struct NamespaceId {
  std::uint64_t device{};
  std::uint64_t inode{};
  auto operator<=>(const NamespaceId&) const = default;
};

/// InvalidArgument: the descriptor is of something else than such a namespace.
[[nodiscard]] Result<NamespaceId> identify_namespace(int fd, NamespaceKind kind);

/// Whether a namespace of another kind belongs to that user namespace.
[[nodiscard]] bool belongs_to(int fd, const NamespaceId& user_namespace);

struct RunningProcess {
  pid_t pid{};
  std::string name;  ///< as its main thread calls itself: foreign text
};

/// Processes of this user in a user namespace, or in one that was made below it; others cannot be
/// looked at. Without those that have ended and are waited for.
[[nodiscard]] std::vector<RunningProcess> processes_in_user_namespace(const NamespaceId& wanted);
[[nodiscard]] std::vector<RunningProcess> processes_in_mount_namespace(const NamespaceId& wanted);

/// Processes that see a file `path` whose first line is `word` or begins with `word` and a space.
[[nodiscard]] std::vector<RunningProcess> processes_that_see(std::string_view path,
                                                             std::string_view word);

}  // namespace weft::os
