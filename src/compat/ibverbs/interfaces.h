#pragma once

namespace weft::compat {

/// libfabric offers connected endpoints of IP addresses only if getifaddrs(3) lists an interface
/// other than loopback whose address librdmacm binds to a device; it checks right after it has
/// requested the list of devices. The addresses of hosts are on `lo` here (docs/ARCHITECTURE.md,
/// decision 16), so the module around `address` has its getifaddrs() redirected: besides the
/// machine's interfaces it lists ib0, ib1 and so on, one for each port of the host. Any thread.
void answer_for_interfaces(const void* address);

}  // namespace weft::compat
