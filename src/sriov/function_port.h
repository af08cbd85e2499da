#pragma once

// The port as a virtual function sees it, and what it is told of changes: its port is Active only
// while the physical one is and SA has registered its GUID. Changes are derived from the SMPs that
// the physical function's SMA answers. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sriov/types.h"
#include "verbs/async_event.h"
#include "wire/mad/mad.h"

namespace weft::sriov {

enum class FunctionPortState : std::uint8_t {
  Down,
  PendingUp,  ///< the physical port is Active, the GUID is not registered yet
  Active,
};
inline constexpr std::size_t kFunctionPortStates = 3;
[[nodiscard]] std::string_view name_of(FunctionPortState state);

enum class FunctionPortInput : std::uint8_t { PortUp, PortDown, GuidValid, GuidInvalid };
inline constexpr std::size_t kFunctionPortInputs = 4;

class FunctionPort {
 public:
  [[nodiscard]] FunctionPortState state() const { return state_; }
  /// What the function is told of it, if anything: PortActive or PortError.
  [[nodiscard]] std::optional<verbs::AsyncEventType> handle(FunctionPortInput input);

 private:
  FunctionPortState state_{FunctionPortState::Down};
  bool has_guid_{};
};

/// What an answered SMP changed at the port.
struct PortChange {
  std::vector<verbs::AsyncEventType> events;  ///< for every function
  std::optional<bool> is_up;                  ///< the port became Active, or is no longer
  bool needs_registration{};                  ///< client re-register, or another master manager
};

/// Watches the answers of a port's SMA about PortInfo, P_KeyTable and GUIDInfo.
class SmpObserver {
 public:
  explicit SmpObserver(PortNumber port) : port_(port) {}
  /// `request` is the method that is answered: tables are changed by Set only. Any other MAD, and
  /// an answer with an error, changes nothing.
  [[nodiscard]] PortChange observe(const MadBytes& answer, wire::MadMethod request);

 private:
  [[nodiscard]] PortChange observe_port_info(const MadBytes& answer);

  PortNumber port_;
  Lid lid_;
  Lid master_sm_lid_;
  bool is_up_{};
  bool has_seen_port_info_{};
};

}  // namespace weft::sriov
