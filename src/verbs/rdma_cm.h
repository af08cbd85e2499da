#pragma once

#include <cstdint>
#include <optional>

namespace weft::verbs {

/// Events of RDMA-CM (IBTA vol 1 annex A11), with the numbers of librdmacm's enum
/// rdma_cm_event_type.
enum class RdmaCmEventType : std::uint8_t {
  AddressResolved,
  AddressError,
  RouteResolved,
  RouteError,
  ConnectRequest,
  ConnectResponse,
  ConnectError,
  Unreachable,
  Rejected,
  Established,
  Disconnected,
  DeviceRemoval,
  MulticastJoin,
  MulticastError,
  AddressChange,
  TimewaitExit,
  AddrinfoResolved,  // this and those below: of rdma-core 61 and later
  AddrinfoError,
  User,  // of the id's program itself
};

/// The event with this number of librdmacm; none for a number above User.
[[nodiscard]] constexpr std::optional<RdmaCmEventType> rdma_cm_event_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(RdmaCmEventType::User)
             ? std::optional{static_cast<RdmaCmEventType>(number)}
             : std::nullopt;
}

/// Options that rdma_set_option can set for an id, with their range. The numbers are Weft's own.
enum class RdmaCmOption : std::uint8_t {
  TypeOfService = 1,  // 0 to 255
  ReuseAddress,       // 0 or 1
  AfOnly,             // 0 or 1: IPv6 only
  AckTimeout,         // 0 to 31: Local ACK Timeout of the QP, an exponent
};

/// The option with this number; none for other numbers.
[[nodiscard]] constexpr std::optional<RdmaCmOption> rdma_cm_option_of(std::uint32_t number) {
  return number >= static_cast<std::uint32_t>(RdmaCmOption::TypeOfService) &&
                 number <= static_cast<std::uint32_t>(RdmaCmOption::AckTimeout)
             ? std::optional{static_cast<RdmaCmOption>(number)}
             : std::nullopt;
}

}  // namespace weft::verbs
