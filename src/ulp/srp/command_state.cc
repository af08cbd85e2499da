#include "ulp/srp/command_state.h"

#include <array>
#include <utility>

namespace weft::srp {
namespace {

struct Row {
  CommandState state{};
  CommandEvent event{};
  CommandState next{};
  CommandAction action{};
};

[[nodiscard]] consteval auto make_rows() {
  using enum CommandState;
  using E = CommandEvent;
  using A = CommandAction;
  return std::to_array<Row>({
      {New,         E::Fetch,    NeedData,    A::Proceed    },
      {New,         E::Manage,   Mgmt,        A::Proceed    },
      {New,         E::Respond,  CmdRspSent,  A::Proceed    },
      {New,         E::Abort,    New,         A::LeaveToCore},
      {New,         E::Drop,     Done,        A::Finish     },
      {NeedData,    E::Fetch,    NeedData,    A::Proceed    }, // data after the table
      {NeedData,    E::Arrived,  DataIn,      A::Proceed    },
      {NeedData,    E::Abort,    DataIn,      A::Fail       },
      {NeedData,    E::Drop,     Done,        A::Finish     },
      {DataIn,      E::Respond,  CmdRspSent,  A::Proceed    },
      {DataIn,      E::Abort,    DataIn,      A::LeaveToCore},
      {DataIn,      E::Drop,     Done,        A::Finish     },
      {CmdRspSent,  E::SendDone, Done,        A::Finish     },
      {CmdRspSent,  E::Abort,    Done,        A::Finish     },
      {Mgmt,        E::Respond,  MgmtRspSent, A::Proceed    },
      {Mgmt,        E::Abort,    Mgmt,        A::LeaveToCore},
      {Mgmt,        E::Drop,     Done,        A::Finish     },
      {MgmtRspSent, E::SendDone, Done,        A::Finish     },
      {MgmtRspSent, E::Abort,    Done,        A::Finish     },
  });
}
constexpr auto kRows = make_rows();

[[nodiscard]] constexpr CommandTransition look_up(CommandState state, CommandEvent event) {
  for (const Row& row : kRows) {
    if (row.state == state && row.event == event) {
      return {.next = row.next, .action = row.action};
    }
  }
  return {.next = state, .action = CommandAction::Ignore};
}

[[nodiscard]] constexpr bool holds_for_all(auto holds) {
  for (unsigned s = 0; s < kCommandStates; ++s) {
    for (unsigned e = 0; e < kCommandEvents; ++e) {
      const auto state = static_cast<CommandState>(s);
      const auto event = static_cast<CommandEvent>(e);
      if (!holds(state, event, look_up(state, event))) {
        return false;
      }
    }
  }
  return true;
}

static_assert(holds_for_all([](CommandState state, CommandEvent, CommandTransition to) {
                return state != CommandState::Done ||
                       (to.next == CommandState::Done && to.action == CommandAction::Ignore);
              }),
              "what is done stays so");
static_assert(holds_for_all([](CommandState state, CommandEvent, CommandTransition to) {
                return (to.action == CommandAction::Finish) ==
                       (state != CommandState::Done && to.next == CommandState::Done);
              }),
              "a slot is freed once");
static_assert(holds_for_all([](CommandState state, CommandEvent event, CommandTransition to) {
                return event != CommandEvent::Abort || state == CommandState::Done ||
                       to.action != CommandAction::Ignore;
              }),
              "an abort means something in every state");

}  // namespace

CommandTransition transition(CommandState state, CommandEvent event) {
  return look_up(state, event);
}

std::string_view name_of(CommandState state) {
  static constexpr std::array<std::string_view, kCommandStates> kNames{
      "NEW", "NEED_DATA", "DATA_IN", "CMD_RSP_SENT", "MGMT", "MGMT_RSP_SENT", "DONE"};
  return kNames[std::to_underlying(state)];
}

}  // namespace weft::srp
