#pragma once

// What frames of a netlink socket do to it: the protocol (uabi/netlink_frames.h) joined to the
// sockets (node/netlink_sockets.h). No I/O.

#include <cstdint>

#include "node/netlink_sockets.h"
#include "uabi/netlink_frames.h"

namespace weft::daemon {

/// Whether the frame carries a datagram.
[[nodiscard]] bool is_a_send(const uabi::NetlinkFrame& frame);

/// What the frame costs its program (RequestBudget): a datagram that reads the host's devices costs
/// the daemon most. One that it only hands on, or that a resolver or a port mapper says to the
/// kernel's side, costs what one of RDMA-CM's messages does; eight of those that come together.
[[nodiscard]] std::int64_t cost_of(const uabi::NetlinkFrame& frame);

/// Where its datagram goes.
[[nodiscard]] node::NetlinkSockets::Destination destination_of(const node::NetlinkSockets& sockets,
                                                               node::NetlinkSockets::Id socket,
                                                               const uabi::NetlinkFrame& frame);

/// Any other frame of an open socket; 0 or a negative errno.
[[nodiscard]] int change_socket(node::NetlinkSockets& sockets, node::NetlinkSockets::Id socket,
                                const uabi::NetlinkFrame& frame);

/// What the program is told: the error, and what the socket is.
[[nodiscard]] uabi::NetlinkAnswer answer_of(const node::NetlinkSockets& sockets,
                                            node::NetlinkSockets::Id socket, int error,
                                            std::uint32_t taken = 0);

/// Hands on the datagrams of a SendMany. -EINVAL: they are for the kernel's side, to which programs
/// send one at a time.
struct SentMany {
  int error{};  ///< of the first that was not taken
  std::uint32_t taken{};
};
[[nodiscard]] SentMany send_many(node::NetlinkSockets& sockets, node::NetlinkSockets::Id socket,
                                 const uabi::NetlinkFrame& frame);

/// The head of the frame in which a datagram that waits goes to its program.
[[nodiscard]] uabi::NetlinkFrameHead head_of(const node::NetlinkDatagram& datagram,
                                             bool has_packet_info);

}  // namespace weft::daemon
