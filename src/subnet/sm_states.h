#pragma once

// The states of a subnet manager and what moves it (IBTA vol 1 §14.4.1), as a table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/identifiers.h"
#include "wire/mad/sm_info.h"

namespace weft::subnet {

enum class SmEvent : std::uint8_t {
  FoundBetter,       ///< discovering: a master, or another SM that goes before
  FoundNone,         ///< discovering: nobody goes before
  HandoverReceived,  ///< SMInfo Set HANDOVER
  Acknowledged,      ///< SMInfo Set ACKNOWLEDGE, of a handover of ours
  DiscoverReceived,  ///< SMInfo Set DISCOVER
  DisableReceived,   ///< SMInfo Set DISABLE
  StandbyReceived,   ///< SMInfo Set STANDBY
  MasterGone,        ///< standby: the master does not answer, or is none any more
};

enum class SmAction : std::uint8_t {
  Nothing,
  Discover,        ///< look around, write nothing
  TakeOver,        ///< the subnet is ours: set it up as found
  Poll,            ///< the master, from now on
  TakeOverAndAck,  ///< acknowledge, then look around and set up
  AckAndResweep,   ///< acknowledge, and see what the other one had
  GoQuiet,
};

struct SmTransition {
  wire::SmState from{};
  SmEvent event{};
  wire::SmState to{};
  SmAction action{};
};

inline constexpr auto kSmTransitions = [] {
  using enum wire::SmState;
  using enum SmEvent;
  using enum SmAction;
  return std::to_array<SmTransition>({
      {Discovering, FoundBetter,      Standby,     Poll          },
      {Discovering, FoundNone,        Master,      TakeOver      },
      {Discovering, HandoverReceived, Master,      TakeOverAndAck},
      {Standby,     HandoverReceived, Master,      TakeOverAndAck},
      {Standby,     DiscoverReceived, Discovering, Discover      },
      {Standby,     DisableReceived,  NotActive,   GoQuiet       },
      {Standby,     MasterGone,       Discovering, Discover      },
      {NotActive,   StandbyReceived,  Standby,     Poll          },
      {Master,      HandoverReceived, Master,      AckAndResweep },
      {Master,      Acknowledged,     Standby,     Poll          },
  });
}();

/// The row for an event; none when the state does not know it: then nothing happens.
[[nodiscard]] constexpr std::optional<SmTransition> transition(wire::SmState from, SmEvent event) {
  for (const SmTransition& each : kSmTransitions) {
    if (each.from == from && each.event == event) {
      return each;
    }
  }
  return std::nullopt;
}

namespace internal {

consteval bool rows_are_unique() {
  for (std::size_t i = 0; i < kSmTransitions.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (kSmTransitions[i].from == kSmTransitions[k].from &&
          kSmTransitions[i].event == kSmTransitions[k].event) {
        return false;
      }
    }
  }
  return true;
}

/// From Discovering, which is where an SM starts.
consteval bool every_state_is_reached() {
  std::array<bool, 4> reached{};
  reached[static_cast<std::size_t>(wire::SmState::Discovering)] = true;
  for (std::size_t round = 0; round < reached.size(); ++round) {
    for (const SmTransition& each : kSmTransitions) {
      if (reached[static_cast<std::size_t>(each.from)]) {
        reached[static_cast<std::size_t>(each.to)] = true;
      }
    }
  }
  return reached[0] && reached[1] && reached[2] && reached[3];
}

static_assert(rows_are_unique());
static_assert(every_state_is_reached());
static_assert(transition(wire::SmState::Standby, SmEvent::MasterGone).has_value());

}  // namespace internal

/// Whether `a` is to be master rather than `b`: the higher priority, then the lower GUID (§14.4.1).
[[nodiscard]] constexpr bool goes_before(const wire::SmInfo& a, const wire::SmInfo& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.guid < b.guid;
}

/// The event of an SMInfo Set; none for a control that there is not.
[[nodiscard]] constexpr std::optional<SmEvent> event_of(std::uint32_t control) {
  switch (static_cast<wire::SmInfoControl>(control)) {
    case wire::SmInfoControl::Handover:
      return SmEvent::HandoverReceived;
    case wire::SmInfoControl::Acknowledge:
      return SmEvent::Acknowledged;
    case wire::SmInfoControl::Disable:
      return SmEvent::DisableReceived;
    case wire::SmInfoControl::Standby:
      return SmEvent::StandbyReceived;
    case wire::SmInfoControl::Discover:
      return SmEvent::DiscoverReceived;
  }
  return std::nullopt;
}

}  // namespace weft::subnet
