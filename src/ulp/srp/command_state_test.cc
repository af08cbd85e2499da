#include "ulp/srp/command_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace weft::srp {
namespace {

using enum CommandState;

TEST(SrpCommandState, WhatIsDoneStaysSo) {  // R-SRPT-14
  for (unsigned e = 0; e < kCommandEvents; ++e) {
    const CommandTransition step = transition(Done, static_cast<CommandEvent>(e));
    EXPECT_EQ(step, (CommandTransition{Done, CommandAction::Ignore}));
  }
}

TEST(SrpCommandState, AnAbortDependsOnTheState) {  // R-SRPT-18
  const auto abort = [](CommandState state) { return transition(state, CommandEvent::Abort); };
  EXPECT_EQ(abort(NeedData), (CommandTransition{DataIn, CommandAction::Fail}));
  EXPECT_EQ(abort(CmdRspSent), (CommandTransition{Done, CommandAction::Finish}));
  EXPECT_EQ(abort(MgmtRspSent), (CommandTransition{Done, CommandAction::Finish}));
  for (const CommandState state : {New, DataIn, Mgmt}) {
    EXPECT_EQ(abort(state), (CommandTransition{state, CommandAction::LeaveToCore}));
  }
}

TEST(SrpCommandState, AWriteGoesFromNewToDone) {
  CommandState state = New;
  for (const auto& [event, next] : {
           std::pair{CommandEvent::Fetch,    NeedData  },
           std::pair{CommandEvent::Arrived,  DataIn    },
           std::pair{CommandEvent::Respond,  CmdRspSent},
           std::pair{CommandEvent::SendDone, Done      }
  }) {
    state = transition(state, event).next;
    EXPECT_EQ(state, next);
  }
  EXPECT_EQ(transition(transition(New, CommandEvent::Manage).next, CommandEvent::Respond).next,
            MgmtRspSent);
}

TEST(SrpCommandState, HasNamesOfItsOwn) {
  std::set<std::string_view> names;
  for (unsigned s = 0; s < kCommandStates; ++s) {
    names.insert(name_of(static_cast<CommandState>(s)));
  }
  EXPECT_EQ(names.size(), kCommandStates);
}

}  // namespace
}  // namespace weft::srp
