#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/layout_array.h"

namespace weft::wire {

inline constexpr std::uint32_t kIndefiniteLease = 0xFFFF'FFFF;

/// ServiceRecord (IBTA vol 1 §15.2.5.14).
struct ServiceRecord {
  static constexpr std::string_view kName = "ServiceRecord";

  std::uint64_t service_id{};
  Gid service_gid{};
  PKey service_pkey{};
  std::uint32_t service_lease{};  ///< seconds, or kIndefiniteLease
  std::array<std::byte, 16> service_key{};
  std::array<std::byte, 64> service_name{};  ///< UTF-8, zero-padded
  std::array<std::uint8_t, 16> service_data8{};
  std::array<std::uint16_t, 8> service_data16{};
  std::array<std::uint32_t, 4> service_data32{};
  std::array<std::uint64_t, 2> service_data64{};
  bool operator==(const ServiceRecord&) const = default;

  // clang-format off
  using Wire = Layout<176,
      Field<"ServiceID", 64, &ServiceRecord::service_id>,
      Octets<"ServiceGID", 16, &ServiceRecord::service_gid>,
      Field<"ServiceP_Key", 16, &ServiceRecord::service_pkey>,
      Reserved<16>,
      Field<"ServiceLease", 32, &ServiceRecord::service_lease>,
      Octets<"ServiceKey", 16, &ServiceRecord::service_key>,
      Octets<"ServiceName", 64, &ServiceRecord::service_name>,
      Numbers<"ServiceData8", 8, 16, &ServiceRecord::service_data8>,
      Numbers<"ServiceData16", 16, 8, &ServiceRecord::service_data16>,
      Numbers<"ServiceData32", 32, 4, &ServiceRecord::service_data32>,
      Numbers<"ServiceData64", 64, 2, &ServiceRecord::service_data64>>;
  // clang-format on
};

/// ServiceAssociationRecord (IBTA vol 1 §15.2.5.15).
struct ServiceAssociationRecord {
  static constexpr std::string_view kName = "ServiceAssociationRecord";

  std::array<std::byte, 16> service_key{};
  std::array<std::byte, 64> service_name{};
  bool operator==(const ServiceAssociationRecord&) const = default;

  // clang-format off
  using Wire = Layout<80,
      Octets<"ServiceKey", 16, &ServiceAssociationRecord::service_key>,
      Octets<"ServiceName", 64, &ServiceAssociationRecord::service_name>>;
  // clang-format on
};

}  // namespace weft::wire
