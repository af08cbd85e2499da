#pragma once

#include <cstdint>
#include <optional>

namespace weft::verbs {

/// Affiliated and unaffiliated asynchronous events (IBTA vol 1 §11.6.3), with the verbs API's
/// numbers.
enum class AsyncEventType : std::uint8_t {
  CqError,
  QpFatal,
  QpRequestError,
  QpAccessError,
  CommunicationEstablished,
  SqDrained,
  PathMigrated,
  PathMigrationError,
  DeviceFatal,
  PortActive,
  PortError,
  LidChange,
  PKeyChange,
  SmChange,
  SrqError,
  SrqLimitReached,
  QpLastWqeReached,
  ClientReregister,
  GidChange,
  WqFatal,
};

/// The event with this number of the verbs API; none for a number above GidChange.
[[nodiscard]] constexpr std::optional<AsyncEventType> async_event_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(AsyncEventType::GidChange)
             ? std::optional{static_cast<AsyncEventType>(number)}
             : std::nullopt;
}

}  // namespace weft::verbs
