#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::verbs {

/// State of a QP (IBTA vol 1 §10.3.1), with the verbs API's numbers.
enum class QpState : std::uint8_t { Reset, Init, Rtr, Rts, Sqd, Sqe, Err };

/// The state with this number of the verbs API; none for a number above Err.
[[nodiscard]] constexpr std::optional<QpState> qp_state_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(QpState::Err)
             ? std::optional{static_cast<QpState>(number)}
             : std::nullopt;
}

[[nodiscard]] constexpr std::string_view name_of(QpState state) {
  switch (state) {
    case QpState::Reset:
      return "RESET";
    case QpState::Init:
      return "INIT";
    case QpState::Rtr:
      return "RTR";
    case QpState::Rts:
      return "RTS";
    case QpState::Sqd:
      return "SQD";
    case QpState::Sqe:
      return "SQE";
    case QpState::Err:
      return "ERR";
  }
  return "no state";
}

/// State of path migration (IBTA vol 1 §17.2.8), with the verbs API's numbers.
enum class MigrationState : std::uint8_t { Migrated, Rearm, Armed };

/// The state with this number of the verbs API; none for a number above Armed.
[[nodiscard]] constexpr std::optional<MigrationState> migration_state_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(MigrationState::Armed)
             ? std::optional{static_cast<MigrationState>(number)}
             : std::nullopt;
}

[[nodiscard]] constexpr std::string_view name_of(MigrationState state) {
  switch (state) {
    case MigrationState::Migrated:
      return "MIGRATED";
    case MigrationState::Rearm:
      return "REARM";
    case MigrationState::Armed:
      return "ARMED";
  }
  return "no state";
}

}  // namespace weft::verbs
