#pragma once

// States of a target's RDMA channel (the seed's enum rdma_ch_state) as one table. They only go
// forward. Pure; checked at compile time in channel_state.cc.

#include <cstdint>
#include <string_view>

namespace weft::srp {

enum class ChannelState : std::uint8_t {
  Connecting,     ///< QP in RTR, waits for the RTU
  Live,           ///< QP in RTS
  Disconnecting,  ///< DREQ sent and DREP awaited, or DREQ received
  Draining,       ///< QP in error; the last work request is posted
  Disconnected,   ///< its completion has come
};
inline constexpr unsigned kChannelStates = 5;

enum class ChannelEvent : std::uint8_t {
  Rtu,           ///< or a first packet before it (COMM_EST)
  Disconnect,    ///< this end ends the connection in order
  Dreq,          ///< the peer does
  Drep,          ///< or the DREQ was repeated often enough
  TimewaitExit,  ///< the CM has done with the connection
  Close,         ///< a fault of the QP, a REJ, or there is no time for a DREQ
  MarkerFlushed  ///< the last completion
};
inline constexpr unsigned kChannelEvents = 7;

enum class ChannelAction : std::uint8_t {
  Ignore,
  Start,    ///< QP to RTS, and what has waited goes on
  AskPeer,  ///< send DREQ
  Answer,   ///< send DREP
  Drain,    ///< QP to error, and the marker
  Release,  ///< no completion comes any more
};

struct ChannelTransition {
  ChannelState next{};
  ChannelAction action{};
  bool operator==(const ChannelTransition&) const = default;
};

[[nodiscard]] ChannelTransition transition(ChannelState state, ChannelEvent event);
[[nodiscard]] std::string_view name_of(ChannelState state);

}  // namespace weft::srp
