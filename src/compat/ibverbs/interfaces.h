#pragma once

namespace weft::compat {

/// libfabric offers connected endpoints of IP addresses only if getifaddrs(3) lists an interface
/// that is not the loopback and whose address librdmacm binds to a device, and
/// asks right after it has asked for the list of devices. The addresses of hosts are on `lo` here
/// (docs/ARCHITECTURE.md, decision 16), so the module around `address` has its getifaddrs() led
/// through us: it lists ib0, ib1 and so on beside the machine's own, one for each port of the host.
void answer_for_interfaces(const void* address);

}  // namespace weft::compat
