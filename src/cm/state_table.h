#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cm/types.h"

/// The connection manager's state machine as one table (R-CM-4; IBTA vol 1 §12.9): the effect of
/// each call, message and timer in each state. Pure; checked at compile time in state_table.cc.
namespace weft::cm {

/// What can happen to an id: a call, a received message, or an expired timer.
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
  // Received messages. Req: a REQ whose communication ID belongs to an existing connection.
  Req,
  ReqOfPeer,  ///< from a peer to which this side sent a REQ itself (§12.10.4)
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
  LapAnswered,  ///< a duplicate of one that an APR was sent for
  Apr,
  SidrRep,
  // Time.
  RetriesExceeded,
  TimewaitOver,
};
inline constexpr unsigned kInputCount = 32;
inline constexpr unsigned kCallCount = 15;

/// What the manager does in response.
enum class Action : std::uint8_t {
  Refuse,       ///< call: fail with InvalidArgument, send nothing
  AlreadyDone,  ///< call: fail with AlreadyConnected
  Do,           ///< call: carry it out
  Ignore,       ///< message: not valid in this state; count it
  Duplicate,    ///< message: duplicate; count it
  Extend,       ///< message: duplicate that extends this side's timeout
  Repeat,       ///< message: duplicate whose answer was lost; resend the answer
  RejectStale,  ///< message: answer with REJ 10
  Report,       ///< message or timer: report to the user
  // Destroy: what is sent to the peer.
  Leave,           ///< nothing
  RejectTimeout,   ///< REJ 4
  RejectConsumer,  ///< REJ 28
  Disconnect,      ///< DREQ
  AnswerDreq,      ///< DREP
  RejectSidr,      ///< SIDR_REP status 2
};

/// One cell of the table.
struct Transition {
  State next{};
  Action action{};
};

/// The table's cell. For Destroy, `next` is the state in which the detached connection continues;
/// Idle means that it is freed.
[[nodiscard]] Transition transition(State state, Input input);

/// True in states in which a message of this side awaits its answer and is resent on timeout.
[[nodiscard]] constexpr bool awaits_answer(State state) {
  return state == State::ReqSent || state == State::MraReqRcvd || state == State::RepSent ||
         state == State::MraRepRcvd || state == State::LapSent || state == State::MraLapRcvd ||
         state == State::DreqSent || state == State::SidrReqSent;
}

/// True in states that count against the listener's backlog: requested but not yet established.
[[nodiscard]] constexpr bool is_in_backlog(State state) {
  return state == State::ReqRcvd || state == State::MraReqSent || state == State::RepSent ||
         state == State::MraRepRcvd || state == State::SidrReqRcvd;
}

[[nodiscard]] std::string_view name_of(Input input);
[[nodiscard]] std::string_view name_of(Action action);

/// One row for each state and input that is not refused or ignored: `REP_SENT  RTU  -> ESTABLISHED
/// tell`.
[[nodiscard]] std::string matrix_text();
/// The transitions between different states as a graph in the language of dot(1).
[[nodiscard]] std::string graph_text();

}  // namespace weft::cm
