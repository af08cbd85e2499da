#pragma once

// States of an initiator's path to a target port, as one table: what a lost channel leads to, and
// when (R-SRPI-5). Pure; checked at compile time in path_state.cc.

#include <cstdint>
#include <string_view>

namespace weft::srp {

enum class PathState : std::uint8_t {
  Idle,        ///< no login was asked for, or the first one failed
  Connecting,  ///< the first login
  Live,
  Blocked,   ///< lost; requests wait while it is logged in again
  FailFast,  ///< lost for long: requests fail at once, logins go on
  Lost,      ///< given up
};
inline constexpr unsigned kPathStates = 6;

enum class PathEvent : std::uint8_t {
  Start,
  LoginDone,
  LoginFailed,
  ConnectionStale,  ///< REJ 10: the target's CM still has the connection before
  ChannelLost,
  ReconnectDue,
  FastFailDue,
  DevLossDue,
  Stop,
};
inline constexpr unsigned kPathEvents = 9;

enum class PathAction : std::uint8_t {
  Ignore,
  Connect,
  Resume,        ///< what waits is sent
  Report,        ///< the first login has failed
  Block,         ///< end what was under way, arm all timers
  ArmReconnect,  ///< the next login after the delay
  FailWaiting,
  GiveUp,
};

struct PathTransition {
  PathState next{};
  PathAction action{};
  bool operator==(const PathTransition&) const = default;
};

[[nodiscard]] PathTransition transition(PathState state, PathEvent event);
[[nodiscard]] std::string_view name_of(PathState state);

}  // namespace weft::srp
