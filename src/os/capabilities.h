#pragma once

#include <sys/types.h>

namespace weft::os {

/// Whether a process may administer the network of its user namespace (CAP_NET_ADMIN in effect,
/// capabilities(7)). False: it may not, or is gone.
[[nodiscard]] bool may_administer_network(pid_t pid);

}  // namespace weft::os
