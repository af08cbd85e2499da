#pragma once

// States of a command at the target (the seed's enum srpt_command_state) as one table. Pure;
// checked at compile time in command_state.cc.

#include <cstdint>
#include <string_view>

namespace weft::srp {

enum class CommandState : std::uint8_t {
  New,          ///< has come; without data-out it stays so until it is executed
  NeedData,     ///< its data-out, or its table of descriptors, is being read
  DataIn,       ///< data-out has come; it is being executed
  CmdRspSent,   ///< the SRP_RSP is posted
  Mgmt,         ///< task management, at the SCSI target
  MgmtRspSent,  ///< its SRP_RSP is posted
  Done,         ///< success, abort or failure
};
inline constexpr unsigned kCommandStates = 7;

enum class CommandEvent : std::uint8_t {
  Fetch,     ///< an RDMA READ is posted for it
  Arrived,   ///< the READ has ended well
  Manage,    ///< it is task management
  Respond,   ///< a response is posted
  SendDone,  ///< the response has been sent, or never will be
  Abort,     ///< the channel fails, or the READ did (srpt_abort_cmd)
  Drop,      ///< it ends without a response
};
inline constexpr unsigned kCommandEvents = 7;

enum class CommandAction : std::uint8_t {
  Ignore,
  Proceed,
  Fail,         ///< answer CHECK CONDITION, ABORTED COMMAND
  LeaveToCore,  ///< the SCSI target ends it
  Finish,       ///< the slot is free again
};

struct CommandTransition {
  CommandState next{};
  CommandAction action{};
  bool operator==(const CommandTransition&) const = default;
};

/// A command that is Done keeps its state whatever happens (R-SRPT-14).
[[nodiscard]] CommandTransition transition(CommandState state, CommandEvent event);
[[nodiscard]] std::string_view name_of(CommandState state);

}  // namespace weft::srp
