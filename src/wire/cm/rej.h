#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/cm/cm_codes.h"
#include "wire/layout.h"

namespace weft::wire {

/// MsgRcptAck (IBTA vol 1 §12.6.6): announces that the answer to a message will be late.
struct Mra {
  static constexpr std::string_view kName = "MRA";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  CmSubject subject{};
  std::uint8_t service_timeout{};  ///< exponent
  std::array<std::byte, 222> private_data{};
  bool operator==(const Mra&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Mra::local_communication_id>,
      Field<"RemoteCommID", 32, &Mra::remote_communication_id>,
      Field<"MessageMRAed", 2, &Mra::subject>,
      Reserved<6>,
      Field<"ServiceTimeout", 5, &Mra::service_timeout>,
      Reserved<3>,
      Octets<"PrivateData", 222, &Mra::private_data>>;
  // clang-format on
};

/// ConnectReject (IBTA vol 1 §12.6.7).
struct Rej {
  static constexpr std::string_view kName = "REJ";

  std::uint32_t local_communication_id{};  ///< 0 if there is none
  std::uint32_t remote_communication_id{};
  CmSubject subject{};
  std::uint8_t reject_info_length{};  ///< valid octets of the ARI
  RejectReason reason{};
  std::array<std::byte, 72> additional_information{};
  std::array<std::byte, 148> private_data{};
  bool operator==(const Rej&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Rej::local_communication_id>,
      Field<"RemoteCommID", 32, &Rej::remote_communication_id>,
      Field<"MessageREJected", 2, &Rej::subject>,
      Reserved<6>,
      Field<"RejectInfoLength", 7, &Rej::reject_info_length>,
      Reserved<1>,
      Field<"Reason", 16, &Rej::reason>,
      Octets<"ARI", 72, &Rej::additional_information>,
      Octets<"PrivateData", 148, &Rej::private_data>>;
  // clang-format on
};

}  // namespace weft::wire
