#pragma once

// The user namespace that a fabric's hosts share (user_namespaces(7)).

#include <string_view>

#include "base/result.h"

namespace weft::namespaces {

/// In a child: a new user namespace and with it all privileges over what is made in it. Without
/// ids yet: the parent gives them by give_ids().
[[nodiscard]] Result<void> unshare_user();

/// In the parent: who the child is in its user namespace. An ordinary user is root there and owns
/// nothing but what is theirs outside; for root all ids are as outside, so that daemons can give
/// up privileges.
[[nodiscard]] Result<void> give_ids(int pid);

/// Why a privileged step in a new user namespace failed, and what would allow it: `what` and errno
/// are the step's.
[[nodiscard]] Error forbidden(std::string_view what, int error);

}  // namespace weft::namespaces
