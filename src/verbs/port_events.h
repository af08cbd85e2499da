#pragma once

#include <array>
#include <cstddef>

#include "verbs/async_event.h"
#include "verbs/port_attributes.h"
#include "verbs/port_state.h"

namespace weft::verbs {

/// The events of a port that has changed, in the order in which its users are told of them (IBTA
/// vol 1 §11.6.3.3, ibv_get_async_event(3)). What no attribute shows is not among them:
/// ClientReregister.
class PortEvents {
 public:
  PortEvents(const PortAttributes& before, const PortAttributes& now) {
    const bool was_active = before.state == PortState::Active;
    const bool is_active = now.state == PortState::Active;
    add_if(was_active && !is_active, AsyncEventType::PortError);
    add_if(before.lid != now.lid || before.lmc != now.lmc, AsyncEventType::LidChange);
    add_if(before.pkeys != now.pkeys, AsyncEventType::PKeyChange);
    add_if(before.gids != now.gids, AsyncEventType::GidChange);
    add_if(before.sm_lid != now.sm_lid || before.sm_sl != now.sm_sl, AsyncEventType::SmChange);
    add_if(!was_active && is_active, AsyncEventType::PortActive);
  }

  [[nodiscard]] auto begin() const { return types_.begin(); }
  [[nodiscard]] auto end() const { return types_.begin() + static_cast<std::ptrdiff_t>(count_); }

 private:
  void add_if(bool happened, AsyncEventType type) {
    if (happened) {
      types_.at(count_++) = type;
    }
  }

  std::array<AsyncEventType, 6> types_{};
  std::size_t count_{};
};

}  // namespace weft::verbs
