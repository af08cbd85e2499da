#pragma once

// States of an initiator's session, as one table: what lost connections lead to, and when. Below
// error recovery level 2 a lost connection is a lost session (RFC 7143 §7.1.4), which a new login
// reinstates (§6.3.5); at level 2 the session waits for one (§7.1.4.3). Pure; checked at compile
// time in initiator_state.cc.

#include <cstdint>
#include <string_view>

namespace weft::iscsi {

enum class SessionState : std::uint8_t {
  Idle,        ///< not started, or ended
  Connecting,  ///< the first login
  Live,
  Blocked,     ///< lost; commands wait while it is logged in again
  FailFast,    ///< lost for long: commands fail at once, logins go on
  Lost,        ///< given up
  LoggingOut,  ///< for good
};
inline constexpr unsigned kSessionStates = 7;

enum class SessionEvent : std::uint8_t {
  Start,
  LoginDone,
  LoginFailed,
  ConnectionLost,  ///< the last one, and the session with it
  Suspended,       ///< the last one; the target keeps the session for a time
  ReconnectDue,
  FastFailDue,
  DevLossDue,
  Stop,
};
inline constexpr unsigned kSessionEvents = 9;

enum class SessionAction : std::uint8_t {
  Ignore,
  Connect,
  Resume,        ///< what waits is sent
  Report,        ///< the first login has failed
  Block,         ///< end what was under way, arm all timers
  Suspend,       ///< arm all timers; what was under way waits
  ArmReconnect,  ///< the next login after the delay
  FailWaiting,
  GiveUp,
  LogOut,
  End,  ///< nothing is under way any more
};

struct SessionTransition {
  SessionState next{};
  SessionAction action{};
  bool operator==(const SessionTransition&) const = default;
};

[[nodiscard]] SessionTransition transition(SessionState state, SessionEvent event);
[[nodiscard]] std::string_view name_of(SessionState state);

}  // namespace weft::iscsi
