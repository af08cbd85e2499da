#pragma once

namespace weft::compat {

/// UCX takes a device only if /dev/infiniband/<dev_name> is a character device that it may read and
/// write, and asks the C library for that, right after it has asked for the list of devices.
/// Nothing is there, and an ordinary user cannot put anything there, so the
/// answer is given where the question is asked: the module around `address`, which called for the
/// list, has its links to stat() and access() led through us. They answer for the nodes of our
/// devices and hand on everything else.
void answer_for_device_nodes(const void* address);

/// Whether one of our devices has this name below /dev/infiniband.
[[nodiscard]] bool is_device_node(const char* name);

}  // namespace weft::compat
