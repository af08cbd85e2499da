#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/cm/cm_codes.h"
#include "wire/cm/cm_path.h"
#include "wire/layout.h"

namespace weft::wire {

/// LoadAlternatePath (IBTA vol 1 §12.8.1).
struct Lap {
  static constexpr std::string_view kName = "LAP";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  Qpn remote_qpn{};
  std::uint8_t remote_cm_response_timeout{};  ///< exponent
  LapPath alternate{};
  std::array<std::byte, 168> private_data{};
  bool operator==(const Lap&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Lap::local_communication_id>,
      Field<"RemoteCommID", 32, &Lap::remote_communication_id>,
      Reserved<32>,
      Field<"RemoteQPN", 24, &Lap::remote_qpn>,
      Field<"RemoteCMResponseTimeout", 5, &Lap::remote_cm_response_timeout>,
      Reserved<3>,
      Reserved<32>,
      Nested<&Lap::alternate>,
      Octets<"PrivateData", 168, &Lap::private_data>>;
  // clang-format on
};

/// AlternatePathResponse (IBTA vol 1 §12.8.2).
struct Apr {
  static constexpr std::string_view kName = "APR";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  std::uint8_t additional_information_length{};  ///< octets
  AprStatus status{};
  std::array<std::byte, 72> additional_information{};
  std::array<std::byte, 148> private_data{};
  bool operator==(const Apr&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Apr::local_communication_id>,
      Field<"RemoteCommID", 32, &Apr::remote_communication_id>,
      Field<"AdditionalInfoLength", 8, &Apr::additional_information_length>,
      Field<"APStatus", 8, &Apr::status>,
      Reserved<16>,
      Octets<"AdditionalInfo", 72, &Apr::additional_information>,
      Octets<"PrivateData", 148, &Apr::private_data>>;
  // clang-format on
};

}  // namespace weft::wire
