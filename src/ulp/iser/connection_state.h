#pragma once

// States of an initiator's connection (the seed's enum iser_conn_state) as one table, with what
// each event of RDMA-CM, of the QP and of the iSCSI layer does. They only go forward. Pure; checked
// at compile time in connection_state.cc.

#include <cstdint>
#include <string_view>

namespace weft::iser {

enum class ConnectionState : std::uint8_t {
  Init,         ///< nothing has begun
  Pending,      ///< address, route or the answer to the REQ is awaited
  Up,           ///< connected
  Terminating,  ///< the QP is in error; its last completions are awaited
  Down,         ///< no completion comes any more
};
inline constexpr unsigned kConnectionStates = 5;

enum class ConnectionEvent : std::uint8_t {
  Connect,          ///< ep_connect
  AddressResolved,  ///< RDMA-CM events, up to DeviceRemoved
  RouteResolved,
  Established,
  ConnectFailed,  ///< address, route, connect or unreachable error, REJECTED
  Disconnected,   ///< DISCONNECTED, ADDR_CHANGE, TIMEWAIT_EXIT
  DeviceRemoved,  ///< DEVICE_REMOVAL
  Terminate,      ///< ep_disconnect, conn_stop, a fault
  Drained,        ///< the last completion of the QP, or there is no QP
};
inline constexpr unsigned kConnectionEvents = 9;

enum class ConnectionAction : std::uint8_t {
  Ignore,
  ResolveAddress,
  ResolveRoute,
  SendRequest,  ///< the QP is made, then REQ
  Complete,     ///< who waits for the connection is told
  Disconnect,   ///< DREQ, QP to error, and the markers
  Drain,        ///< QP to error, and the markers
  FreeQp,       ///< nothing is under way any more
  Destroy,      ///< as FreeQp, where there is none: pools and the device go as well
};

struct ConnectionTransition {
  ConnectionState next{};
  ConnectionAction action{};
  bool operator==(const ConnectionTransition&) const = default;
};

[[nodiscard]] ConnectionTransition transition(ConnectionState state, ConnectionEvent event);
[[nodiscard]] std::string_view name_of(ConnectionState state);

}  // namespace weft::iser
