#pragma once

namespace weft::compat {

/// UCX uses a device only if /dev/infiniband/<dev_name> is a character device that it may read and
/// write, which it checks through the C library right after it has requested the list of devices.
/// An ordinary user cannot create such a node, so the calls are intercepted: in the module around
/// `address`, which requested the list, the links to stat() and access() are redirected to
/// functions that answer for the nodes of our devices and forward all other calls. Any thread.
void answer_for_device_nodes(const void* address);

/// True if one of our devices has this name in /dev/infiniband.
[[nodiscard]] bool is_device_node(const char* name);

}  // namespace weft::compat
