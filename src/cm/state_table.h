#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cm/types.h"

/// The connection manager's state machine as one table (R-CM-4; IBTA vol 1
/// §12.9): what each call, message and timer does in each state. Pure; checked at compile time in
/// state_table.cc.
namespace weft::cm {

enum class Input : std::uint8_t {
  // Calls.
  Listen,
  SendReq,
  SendRep,
  SendRtu,
  SendMra,
  SendRej,
  NotifyEstablished,
  NotifyMigrated,
  SendLap,
  SendApr,
  SendDreq,
  SendDrep,
  SendSidrReq,
  SendSidrRep,
  Destroy,
  // Messages. A REQ comes to a connection when its communication id is known already.
  Req,
  ReqOfPeer,  ///< of a peer that this side sent a REQ to (§12.10.4)
  MraOfReq,
  MraOfRep,
  MraOfLap,
  Rep,
  Rtu,
  Rej,
  RejStale,  ///< reason 10
  Dreq,
  Drep,
  Lap,
  LapAnswered,  ///< one that an APR was sent for
  Apr,
  SidrRep,
  // Time.
  RetriesExceeded,
  TimewaitOver,
};
inline constexpr unsigned kInputCount = 32;
inline constexpr unsigned kCallCount = 15;

enum class Action : std::uint8_t {
  Refuse,       ///< of a call: InvalidArgument, nothing is sent
  AlreadyDone,  ///< of a call: AlreadyConnected
  Do,           ///< of a call: it is carried out
  Ignore,       ///< of a message: it means nothing here, and is counted
  Duplicate,    ///< of a message: known, and counted
  Extend,       ///< a known one that makes this side wait longer
  Repeat,       ///< a known one whose answer was lost: that goes out again
  RejectStale,  ///< answered with REJ 10
  Tell,         ///< of a message or timer: the user is told
  // Of Destroy: what the peer is told.
  Leave,
  RejectTimeout,   ///< REJ 4
  RejectConsumer,  ///< REJ 28
  Disconnect,      ///< DREQ
  AnswerDreq,      ///< DREP
  RejectSidr,      ///< SIDR_REP status 2
};

struct Transition {
  State next{};
  Action action{};
};

/// What happens. For Destroy `next` is where a connection goes on without its user; Idle means that
/// nothing of it is left.
[[nodiscard]] Transition transition(State state, Input input);

/// States in which a message of this side waits for its answer, and is sent again.
[[nodiscard]] constexpr bool awaits_answer(State state) {
  return state == State::ReqSent || state == State::MraReqRcvd || state == State::RepSent ||
         state == State::MraRepRcvd || state == State::LapSent || state == State::MraLapRcvd ||
         state == State::DreqSent || state == State::SidrReqSent;
}

/// States of what a listener was asked for and its user has not brought to an end.
[[nodiscard]] constexpr bool is_in_backlog(State state) {
  return state == State::ReqRcvd || state == State::MraReqSent || state == State::RepSent ||
         state == State::MraRepRcvd || state == State::SidrReqRcvd;
}

[[nodiscard]] std::string_view name_of(Input input);
[[nodiscard]] std::string_view name_of(Action action);

/// One line a state and input that is not refused or ignored: `REP_SENT  RTU  -> ESTABLISHED tell`.
[[nodiscard]] std::string matrix_text();
/// The transitions between different states as a graph for dot(1).
[[nodiscard]] std::string graph_text();

}  // namespace weft::cm
