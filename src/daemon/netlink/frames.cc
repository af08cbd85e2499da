#include "daemon/netlink/frames.h"

#include <cerrno>

#include "daemon/request_budget.h"
#include "host_view/rdma_netlink.h"

namespace weft::daemon {

bool is_a_send(const uabi::NetlinkFrame& frame) {
  return frame.head.kind == uabi::NetlinkFrameKind::Send ||
         frame.head.kind == uabi::NetlinkFrameKind::SendTo;
}

std::int64_t cost_of(const uabi::NetlinkFrame& frame) {
  constexpr std::int64_t kOfDevices = 5 * RequestBudget::kMessage;  // policy
  constexpr std::int64_t kOfDatagrams = RequestBudget::kMessage / 4;
  if (frame.head.kind == uabi::NetlinkFrameKind::SendMany) {
    constexpr std::int64_t kTogether = 8;  // policy
    std::int64_t datagrams = 0;
    for (auto rest = frame.payload; uabi::take_netlink_datagram(rest);) {
      ++datagrams;
    }
    return kOfDatagrams * ((datagrams + kTogether - 1) / kTogether);
  }
  if (!is_a_send(frame)) {
    return RequestBudget::kMessage;
  }
  return host_view::reads_devices(frame.payload) ? kOfDevices : kOfDatagrams;
}

node::NetlinkSockets::Destination destination_of(const node::NetlinkSockets& sockets,
                                                 node::NetlinkSockets::Id socket,
                                                 const uabi::NetlinkFrame& frame) {
  return frame.head.kind == uabi::NetlinkFrameKind::Send
             ? sockets.default_destination(socket)
             : node::NetlinkSockets::destination(frame.head.port, frame.head.value);
}

int change_socket(node::NetlinkSockets& sockets, node::NetlinkSockets::Id socket,
                  const uabi::NetlinkFrame& frame) {
  const std::uint32_t value = frame.head.value;
  switch (frame.head.kind) {
    using enum uabi::NetlinkFrameKind;
    case Bind:
      return sockets.bind(socket, frame.head.port, value);
    case Connect:
      return sockets.connect(socket, frame.head.port, value);
    case Disconnect:
      sockets.disconnect(socket);
      return 0;
    case Join:
      return sockets.join(socket, value);
    case Leave:
      return sockets.leave(socket, value);
    case SetOption:
      return sockets.set_option(socket, frame.head.port, value != 0);
    case SetRoom:
      sockets.set_room(socket, value);
      return 0;
    default:
      return 0;  // Describe
  }
}

uabi::NetlinkAnswer answer_of(const node::NetlinkSockets& sockets, node::NetlinkSockets::Id socket,
                              int error, std::uint32_t taken) {
  const node::NetlinkSocketState state = sockets.describe(socket);
  return {.error = -error,
          .type = state.type,
          .port = state.port,
          .groups = state.groups,
          .peer_port = state.peer_port,
          .peer_groups = state.peer_groups,
          .options = state.options,
          .taken = taken};
}

SentMany send_many(node::NetlinkSockets& sockets, node::NetlinkSockets::Id socket,
                   const uabi::NetlinkFrame& frame) {
  if (frame.head.port == 0) {
    return {.error = -EINVAL};
  }
  SentMany many;
  for (auto rest = frame.payload; many.error == 0;) {
    const auto datagram = uabi::take_netlink_datagram(rest);
    if (!datagram) {
      break;
    }
    many.error = sockets.send(socket, {.port = frame.head.port}, *datagram).error;
    many.taken += many.error == 0 ? 1 : 0;
  }
  return many;
}

uabi::NetlinkFrameHead head_of(const node::NetlinkDatagram& datagram, bool has_packet_info) {
  using enum uabi::NetlinkFrameKind;
  return {.kind = datagram.is_overrun ? Overrun : Datagram,
          .value = datagram.group | (has_packet_info ? uabi::kHasPacketInfo : 0),
          .port = datagram.port,
          .pid = datagram.pid};
}

}  // namespace weft::daemon
