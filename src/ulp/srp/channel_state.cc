#include "ulp/srp/channel_state.h"

#include <array>
#include <utility>

namespace weft::srp {
namespace {

struct Row {
  ChannelState state{};
  ChannelEvent event{};
  ChannelState next{};
  ChannelAction action{};
};

[[nodiscard]] consteval auto make_rows() {
  using enum ChannelState;
  using E = ChannelEvent;
  using A = ChannelAction;
  return std::to_array<Row>({
      {Connecting,    E::Rtu,           Live,          A::Start  },
      {Connecting,    E::Disconnect,    Disconnecting, A::AskPeer},
      {Connecting,    E::Dreq,          Disconnecting, A::Answer },
      {Connecting,    E::TimewaitExit,  Draining,      A::Drain  },
      {Connecting,    E::Close,         Draining,      A::Drain  },
      {Live,          E::Disconnect,    Disconnecting, A::AskPeer},
      {Live,          E::Dreq,          Disconnecting, A::Answer },
      {Live,          E::TimewaitExit,  Draining,      A::Drain  },
      {Live,          E::Close,         Draining,      A::Drain  },
      {Disconnecting, E::Dreq,          Disconnecting, A::Answer },
      {Disconnecting, E::Drep,          Draining,      A::Drain  },
      {Disconnecting, E::TimewaitExit,  Draining,      A::Drain  },
      {Disconnecting, E::Close,         Draining,      A::Drain  },
      {Draining,      E::Dreq,          Draining,      A::Answer },
      {Draining,      E::MarkerFlushed, Disconnected,  A::Release},
  });
}
constexpr auto kRows = make_rows();

[[nodiscard]] constexpr ChannelTransition look_up(ChannelState state, ChannelEvent event) {
  for (const Row& row : kRows) {
    if (row.state == state && row.event == event) {
      return {.next = row.next, .action = row.action};
    }
  }
  return {.next = state, .action = ChannelAction::Ignore};
}

[[nodiscard]] constexpr bool holds_for_all(auto holds) {
  for (unsigned s = 0; s < kChannelStates; ++s) {
    for (unsigned e = 0; e < kChannelEvents; ++e) {
      const auto state = static_cast<ChannelState>(s);
      const auto event = static_cast<ChannelEvent>(e);
      if (!holds(state, event, look_up(state, event))) {
        return false;
      }
    }
  }
  return true;
}

[[nodiscard]] constexpr bool rows_are_unique() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kRows[i].state == kRows[j].state && kRows[i].event == kRows[j].event) {
        return false;
      }
    }
  }
  return true;
}

static_assert(rows_are_unique());
static_assert(holds_for_all([](ChannelState state, ChannelEvent, ChannelTransition to) {
                return to.next >= state;
              }),
              "states only go forward");
static_assert(holds_for_all([](ChannelState state, ChannelEvent, ChannelTransition to) {
                return (to.action == ChannelAction::Drain) ==
                       (state < ChannelState::Draining && to.next == ChannelState::Draining);
              }),
              "a channel is drained once, and whoever drains it posts the marker");
static_assert(holds_for_all([](ChannelState state, ChannelEvent, ChannelTransition to) {
                return (to.action == ChannelAction::Release) ==
                       (state != ChannelState::Disconnected &&
                        to.next == ChannelState::Disconnected);
              }),
              "a channel is released once");
static_assert(holds_for_all([](ChannelState state, ChannelEvent event, ChannelTransition to) {
                return event != ChannelEvent::Close || state >= ChannelState::Draining ||
                       to.next == ChannelState::Draining;
              }),
              "every channel can be closed");

}  // namespace

ChannelTransition transition(ChannelState state, ChannelEvent event) {
  return look_up(state, event);
}

std::string_view name_of(ChannelState state) {
  static constexpr std::array<std::string_view, kChannelStates> kNames{
      "CONNECTING", "LIVE", "DISCONNECTING", "DRAINING", "DISCONNECTED"};
  return kNames[std::to_underlying(state)];
}

}  // namespace weft::srp
