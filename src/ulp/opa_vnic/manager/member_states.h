#pragma once

// How an Ethernet Manager brings up a port of a virtual switch and keeps it up, as one table
// (docs/REQUIREMENTS.md, section 21). A state with a request sends it when it is entered.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::opa_vnic {

enum class MemberState : std::uint8_t {
  Absent,         ///< the OPA port is not there, or carries no Ethernet
  ReadClass,      ///< Get ClassPortInfo
  SetClass,       ///< Set ClassPortInfo: where traps go
  ReadInfo,       ///< Get VeswPortInfo: is it as it should be?
  SetDropAll,     ///< Set VeswPortInfo; the virtual port is made if there is none
  WriteTable,     ///< Set the MAC table, block by block
  SetForwarding,  ///< Set VeswPortInfo
  ReadSummary,    ///< Get the summary counters
  ReadErrors,     ///< Get the error counters
  ReadUnicast,    ///< Get the list of unicast MACs, page by page
  ReadMulticast,  ///< Get the list of multicast MACs
  Running,
  Retry,     ///< something failed; from the beginning, after a while
  Deleting,  ///< Delete vesw: it is no port of the switch any more
  Gone,
};
inline constexpr unsigned kMemberStates = 15;

enum class MemberEvent : std::uint8_t {
  Appeared,
  Vanished,
  Done,          ///< answered
  More,          ///< answered, and there is another page or block
  Differs,       ///< ReadInfo: it is not what was set; it may have been loaded anew
  Failed,        ///< no answer, or a status
  Due,           ///< time to look again
  Told,          ///< by a trap
  TableChanged,  ///< the MAC table is not what the virtual port has
  Removed,       ///< from the configuration
};
inline constexpr unsigned kMemberEvents = 10;

struct MemberRow {
  MemberState state;
  MemberEvent event;
  MemberState next;
};

/// What does not stand here changes nothing.
inline constexpr auto kMemberRows = std::to_array<MemberRow>({
    {MemberState::Absent,        MemberEvent::Appeared,     MemberState::ReadClass    },
    {MemberState::Absent,        MemberEvent::Removed,      MemberState::Gone         },
    {MemberState::ReadClass,     MemberEvent::Done,         MemberState::SetClass     },
    {MemberState::SetClass,      MemberEvent::Done,         MemberState::ReadInfo     },
    {MemberState::ReadInfo,      MemberEvent::Done,         MemberState::ReadSummary  },
    {MemberState::ReadInfo,      MemberEvent::Differs,      MemberState::SetDropAll   },
    {MemberState::SetDropAll,    MemberEvent::Done,         MemberState::WriteTable   },
    {MemberState::WriteTable,    MemberEvent::More,         MemberState::WriteTable   },
    {MemberState::WriteTable,    MemberEvent::Done,         MemberState::SetForwarding},
    {MemberState::SetForwarding, MemberEvent::Done,         MemberState::ReadUnicast  },
    {MemberState::ReadSummary,   MemberEvent::Done,         MemberState::ReadErrors   },
    {MemberState::ReadErrors,    MemberEvent::Done,         MemberState::ReadUnicast  },
    {MemberState::ReadUnicast,   MemberEvent::More,         MemberState::ReadUnicast  },
    {MemberState::ReadUnicast,   MemberEvent::Done,         MemberState::ReadMulticast},
    {MemberState::ReadMulticast, MemberEvent::More,         MemberState::ReadMulticast},
    {MemberState::ReadMulticast, MemberEvent::Done,         MemberState::Running      },
    {MemberState::Running,       MemberEvent::Due,          MemberState::ReadInfo     },
    {MemberState::Running,       MemberEvent::Told,         MemberState::ReadInfo     },
    {MemberState::Running,       MemberEvent::TableChanged, MemberState::WriteTable   },
    {MemberState::Retry,         MemberEvent::Due,          MemberState::ReadClass    },
    {MemberState::Deleting,      MemberEvent::Done,         MemberState::Gone         },
    {MemberState::Deleting,      MemberEvent::Failed,       MemberState::Gone         },
    {MemberState::Deleting,      MemberEvent::Vanished,     MemberState::Gone         },
});

/// States that wait for the answer of a request.
[[nodiscard]] constexpr bool awaits_answer(MemberState state) {
  return state != MemberState::Absent && state != MemberState::Running &&
         state != MemberState::Retry && state != MemberState::Gone;
}

/// None: the event changes nothing. Beside the rows: whatever fails is tried again, whatever
/// vanishes is absent, and what is removed while it is there is deleted.
[[nodiscard]] constexpr std::optional<MemberState> next_state(MemberState state,
                                                              MemberEvent event) {
  for (const MemberRow& row : kMemberRows) {
    if (row.state == state && row.event == event) {
      return row.next;
    }
  }
  if (state == MemberState::Gone || state == MemberState::Deleting) {
    return std::nullopt;
  }
  switch (event) {
    case MemberEvent::Failed:
      return awaits_answer(state) ? std::optional{MemberState::Retry} : std::nullopt;
    case MemberEvent::Vanished:
      return MemberState::Absent;
    case MemberEvent::Removed:
      return MemberState::Deleting;
    case MemberEvent::Appeared:
    case MemberEvent::Done:
    case MemberEvent::More:
    case MemberEvent::Differs:
    case MemberEvent::Due:
    case MemberEvent::Told:
    case MemberEvent::TableChanged:
      return std::nullopt;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::string_view name_of(MemberState state) {
  constexpr std::array<std::string_view, kMemberStates> kNames{
      "absent",         "read class", "set class",    "read info",   "set drop-all",
      "write table",    "forward",    "read summary", "read errors", "read unicast",
      "read multicast", "running",    "retry",        "deleting",    "gone"};
  return kNames[static_cast<std::size_t>(state)];
}

namespace internal {

consteval bool rows_are_unique() {
  for (std::size_t i = 0; i < kMemberRows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kMemberRows[i].state == kMemberRows[j].state &&
          kMemberRows[i].event == kMemberRows[j].event) {
        return false;
      }
    }
  }
  return true;
}

/// No answer and no failure may leave a port where it is for ever.
consteval bool all_answers_lead_on() {
  for (unsigned i = 0; i < kMemberStates; ++i) {
    const auto state = static_cast<MemberState>(i);
    if (awaits_answer(state) &&
        (!next_state(state, MemberEvent::Done) || !next_state(state, MemberEvent::Failed))) {
      return false;
    }
  }
  return next_state(MemberState::Retry, MemberEvent::Due).has_value();
}

static_assert(rows_are_unique());
static_assert(all_answers_lead_on());

}  // namespace internal
}  // namespace weft::opa_vnic
