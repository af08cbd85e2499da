#pragma once

// Asymmetric logical unit access (SPC-4 §5.16): target port groups and their states.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "scsi/big_endian.h"
#include "scsi/command.h"
#include "scsi/sense.h"

namespace weft::scsi {

/// ASYMMETRIC ACCESS STATE (SPC-4 Table 217).
enum class AccessState : std::uint8_t {
  ActiveOptimized = 0x0,
  ActiveNonOptimized = 0x1,
  Standby = 0x2,
  Unavailable = 0x3,
  Transitioning = 0xF,
};

/// Groups of the target's ports with the state of one logical unit in each. The caller locks.
class AccessStates {
 public:
  /// The group appears with its first port, active and optimized.
  void add_port(PortId port, std::uint16_t group);
  [[nodiscard]] AccessState state(PortId port) const;
  [[nodiscard]] std::optional<std::uint16_t> group(PortId port) const;
  /// True if the state is another one now; NotFound for an unknown group.
  Result<bool> set_state(std::uint16_t group, AccessState state, bool by_command);

  /// Parameter data of REPORT TARGET PORT GROUPS (SPC-4 §6.37), with or without extended header.
  [[nodiscard]] ParameterData report(bool extended) const;
  /// Parameter list of SET TARGET PORT GROUPS (SPC-4 §6.45): all or nothing. True if something
  /// changed.
  Outcome<bool> set_from(ByteSpan parameters);

 private:
  enum class Cause : std::uint8_t { None = 0, SetByCommand = 1, Implicit = 2 };
  struct Group {
    std::uint16_t id{};
    AccessState state{};
    Cause cause{};
    std::vector<PortId> ports;
  };
  [[nodiscard]] Group* find(std::uint16_t group);

  std::vector<Group> groups_;
};

}  // namespace weft::scsi
