#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "verbs/port_state.h"

namespace weft::verbs {

/// What the owner of a port lets the port of a virtual function be, as the `policy` files of mlx5
/// and `ip link set ... vf N state disable|enable|auto` say it: Down; at least Initialize, whatever
/// the owner's port is; or what follows from the owner's port.
enum class PortPolicy : std::uint8_t { Down, Up, Follow };

inline constexpr auto kPortPolicies =
    std::to_array({PortPolicy::Down, PortPolicy::Up, PortPolicy::Follow});

/// As mlx5 writes it.
[[nodiscard]] constexpr std::string_view name_of(PortPolicy policy) {
  switch (policy) {
    case PortPolicy::Down:
      return "Down";
    case PortPolicy::Up:
      return "Up";
    case PortPolicy::Follow:
      return "Follow";
  }
  return "no policy";
}

/// By that name, exactly.
[[nodiscard]] constexpr std::optional<PortPolicy> port_policy_of(std::string_view name) {
  const auto found =
      std::ranges::find(kPortPolicies, name, [](PortPolicy policy) { return name_of(policy); });
  return found == kPortPolicies.end() ? std::nullopt : std::optional{*found};
}

/// The state of a function's port that would be in `state` if it followed.
[[nodiscard]] constexpr PortState state_under(PortPolicy policy, PortState state) {
  switch (policy) {
    case PortPolicy::Down:
      return PortState::Down;
    case PortPolicy::Up:
      return std::max(state, PortState::Initialize);
    case PortPolicy::Follow:
      return state;
  }
  return state;
}

}  // namespace weft::verbs
