#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// InformInfo (IBTA vol 1 §13.4.8.3): selects the traps that a subscriber wants forwarded.
struct InformInfo {
  static constexpr std::string_view kName = "InformInfo";

  Gid gid{};              ///< zero: the LID range applies
  Lid lid_range_begin{};  ///< 0xFFFF: all LIDs
  Lid lid_range_end{};
  std::uint8_t is_generic{};
  std::uint8_t subscribe{};     ///< 1 subscribe, 0 unsubscribe
  std::uint16_t type{};         ///< 0xFFFF: all types
  std::uint16_t trap_number{};  ///< 0xFFFF: all traps; for vendor notices, the device ID
  Qpn qpn{};
  std::uint8_t resp_time_value{};
  std::uint32_t producer_type{};  ///< 0xFFFFFF: all producers; for vendor notices, the vendor ID
  bool operator==(const InformInfo&) const = default;

  // clang-format off
  using Wire = Layout<36,
      Octets<"GID", 16, &InformInfo::gid>,
      Field<"LIDRangeBegin", 16, &InformInfo::lid_range_begin>,
      Field<"LIDRangeEnd", 16, &InformInfo::lid_range_end>,
      Reserved<16>,
      Field<"IsGeneric", 8, &InformInfo::is_generic>,
      Field<"Subscribe", 8, &InformInfo::subscribe>,
      Field<"Type", 16, &InformInfo::type>,
      Field<"TrapNumber", 16, &InformInfo::trap_number>,
      Field<"QPN", 24, &InformInfo::qpn>,
      Reserved<3>,
      Field<"RespTimeValue", 5, &InformInfo::resp_time_value>,
      Reserved<8>,
      Field<"ProducerType", 24, &InformInfo::producer_type>>;
  // clang-format on
};

/// InformInfoRecord (IBTA vol 1 §15.2.5.12).
struct InformInfoRecord {
  static constexpr std::string_view kName = "InformInfoRecord";

  Gid subscriber_gid{};
  std::uint16_t enumeration{};
  InformInfo inform_info{};
  bool operator==(const InformInfoRecord&) const = default;

  // clang-format off
  using Wire = Layout<60,
      Octets<"SubscriberGID", 16, &InformInfoRecord::subscriber_gid>,
      Field<"Enum", 16, &InformInfoRecord::enumeration>,
      Reserved<48>,
      Nested<&InformInfoRecord::inform_info>>;
  // clang-format on
};

}  // namespace weft::wire
