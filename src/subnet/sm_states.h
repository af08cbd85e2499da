#pragma once

// The state machine of a subnet manager (IBTA vol 1 §14.4.1), as a table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/identifiers.h"
#include "wire/mad/sm_info.h"

namespace weft::subnet {

/// Events of the SM state machine.
enum class SmEvent : std::uint8_t {
  FoundSuperior,     ///< Discovering: a master, or an SM with precedence, was found
  FoundNone,         ///< Discovering: no SM has precedence
  HandoverReceived,  ///< SMInfo Set HANDOVER
  Acknowledged,      ///< SMInfo Set ACKNOWLEDGE, for this SM's handover
  DiscoverReceived,  ///< SMInfo Set DISCOVER
  DisableReceived,   ///< SMInfo Set DISABLE
  StandbyReceived,   ///< SMInfo Set STANDBY
  MasterLost,        ///< Standby: the master stopped answering or is no longer master
};

/// What the SM does on a transition.
enum class SmAction : std::uint8_t {
  Nothing,
  Discover,        ///< sweep without writing
  TakeOver,        ///< become master: sweep and configure the subnet
  Poll,            ///< start polling the master
  TakeOverAndAck,  ///< acknowledge the handover, then sweep and configure
  AckAndResweep,   ///< acknowledge, and sweep to include the other SM's part of the subnet
  Deactivate,
};

/// One row of the table.
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
      {Discovering, FoundSuperior,    Standby,     Poll          },
      {Discovering, FoundNone,        Master,      TakeOver      },
      {Discovering, HandoverReceived, Master,      TakeOverAndAck},
      {Standby,     HandoverReceived, Master,      TakeOverAndAck},
      {Standby,     DiscoverReceived, Discovering, Discover      },
      {Standby,     DisableReceived,  NotActive,   Deactivate    },
      {Standby,     MasterLost,       Discovering, Discover      },
      {NotActive,   StandbyReceived,  Standby,     Poll          },
      {Master,      HandoverReceived, Master,      AckAndResweep },
      {Master,      Acknowledged,     Standby,     Poll          },
  });
}();

/// The row of an event; none if the state ignores it.
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

/// Checks reachability from Discovering, the initial state.
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
static_assert(transition(wire::SmState::Standby, SmEvent::MasterLost).has_value());

}  // namespace internal

/// True if `a` takes precedence over `b`: higher priority, then lower GUID (§14.4.1).
[[nodiscard]] constexpr bool takes_precedence(const wire::SmInfo& a, const wire::SmInfo& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.guid < b.guid;
}

/// The event of an SMInfo Set; none for an undefined control modifier.
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
