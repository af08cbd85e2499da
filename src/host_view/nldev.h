#pragma once

// RDMA_NL_NLDEV: what `rdma dev|link|res|stat` and libraries ask about devices, ports and the
// objects that programs hold (linux/rdma/rdma_netlink.h). Attributes, order and errors are those of
// Linux 6.1, since its users are programs that were written against it. Pure; no state.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host_view/host_view.h"
#include "wire/netlink/message.h"

namespace weft::host_view {

/// Who asks.
struct Asker {
  bool may_administer{true};  ///< CAP_NET_ADMIN in the host: sees keys of memory regions
  /// The address of its socket, which answers name; 0: what the request says.
  std::uint32_t port{};
  bool wants_capped_errors{};  ///< NETLINK_CAP_ACK: errors have the request's header alone
};

/// Whether a command reads what programs hold, so that the view must have been filled with it.
[[nodiscard]] bool nldev_reads_resources(std::uint16_t command);

/// Whether a command reads the counters of ports.
[[nodiscard]] bool nldev_reads_counters(std::uint16_t command);

/// Whether Linux has the command, in either form.
[[nodiscard]] bool nldev_has(std::uint16_t command);

/// Appends the answer to `request` (RDMA_NL_NLDEV, `command`): one message, or those of a dump with
/// its end. Returns 0, or the negative errno that the caller acknowledges with.
[[nodiscard]] int answer_nldev(const wire::netlink::Message& request, std::uint16_t command,
                               const HostView& host, const Asker& asker,
                               std::vector<std::byte>& answers);

}  // namespace weft::host_view
