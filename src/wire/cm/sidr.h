#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/cm/cm_codes.h"
#include "wire/layout.h"

namespace weft::wire {

/// ServiceIDResReq (IBTA vol 1 §12.11.1).
struct SidrReq {
  static constexpr std::string_view kName = "SIDR_REQ";

  std::uint32_t request_id{};
  PKey pkey{};
  std::uint64_t service_id{};
  std::array<std::byte, 216> private_data{};
  bool operator==(const SidrReq&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"RequestID", 32, &SidrReq::request_id>,
      Field<"P_Key", 16, &SidrReq::pkey>,
      Reserved<16>,
      Field<"ServiceID", 64, &SidrReq::service_id>,
      Octets<"PrivateData", 216, &SidrReq::private_data>>;
  // clang-format on
};

/// ServiceIDResReqResp (IBTA vol 1 §12.11.2).
struct SidrRep {
  static constexpr std::string_view kName = "SIDR_REP";

  std::uint32_t request_id{};
  SidrStatus status{};
  std::uint8_t additional_information_length{};  ///< octets
  std::uint16_t vendor_id_high{};
  Qpn qpn{};
  std::uint8_t vendor_id_low{};
  std::uint64_t service_id{};
  QKey qkey{};
  std::array<std::byte, 72> additional_information{};
  std::array<std::byte, 136> private_data{};
  bool operator==(const SidrRep&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"RequestID", 32, &SidrRep::request_id>,
      Field<"Status", 8, &SidrRep::status>,
      Field<"AdditionalInfoLength", 8, &SidrRep::additional_information_length>,
      Field<"VendorIDHigh", 16, &SidrRep::vendor_id_high>,
      Field<"QPN", 24, &SidrRep::qpn>,
      Field<"VendorIDLow", 8, &SidrRep::vendor_id_low>,
      Field<"ServiceID", 64, &SidrRep::service_id>,
      Field<"Q_Key", 32, &SidrRep::qkey>,
      Octets<"AdditionalInfo", 72, &SidrRep::additional_information>,
      Octets<"PrivateData", 136, &SidrRep::private_data>>;
  // clang-format on
};

}  // namespace weft::wire
