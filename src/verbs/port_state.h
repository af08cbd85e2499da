#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::verbs {

/// Link state of a port: PortInfo PortState (IBTA vol 1 §14.2.5.6), with the verbs API's numbers.
enum class PortState : std::uint8_t { Down = 1, Initialize = 2, Armed = 3, Active = 4 };

/// The state with this number; none for PortInfo's 0, "no change", and numbers above Active.
[[nodiscard]] constexpr std::optional<PortState> port_state_of(std::uint32_t number) {
  return number >= static_cast<std::uint32_t>(PortState::Down) &&
                 number <= static_cast<std::uint32_t>(PortState::Active)
             ? std::optional{static_cast<PortState>(number)}
             : std::nullopt;
}

[[nodiscard]] constexpr std::string_view name_of(PortState state) {
  switch (state) {
    case PortState::Down:
      return "Down";
    case PortState::Initialize:
      return "Initialize";
    case PortState::Armed:
      return "Armed";
    case PortState::Active:
      return "Active";
  }
  return "no state";
}

}  // namespace weft::verbs
