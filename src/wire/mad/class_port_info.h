#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/time.h"
#include "wire/layout.h"

namespace weft::wire {

/// ClassPortInfo (IBTA vol 1 §13.4.8.1): capabilities of a class, redirection, and trap
/// destination.
struct ClassPortInfo {
  static constexpr std::string_view kName = "ClassPortInfo";

  std::uint8_t base_version{1};
  std::uint8_t class_version{1};
  std::uint16_t capability_mask{};
  std::uint32_t capability_mask2{};
  std::uint8_t resp_time_value{};  ///< exponent, as TimeoutExponent
  Gid redirect_gid{};
  std::uint8_t redirect_tclass{};
  ServiceLevel redirect_sl{};
  std::uint32_t redirect_flow_label{};
  Lid redirect_lid{};
  PKey redirect_pkey{};
  Qpn redirect_qp{};
  QKey redirect_qkey{};
  Gid trap_gid{};
  std::uint8_t trap_tclass{};
  ServiceLevel trap_sl{};
  std::uint32_t trap_flow_label{};
  Lid trap_lid{};
  PKey trap_pkey{};
  std::uint8_t trap_hop_limit{};
  Qpn trap_qp{};
  QKey trap_qkey{};
  bool operator==(const ClassPortInfo&) const = default;

  /// Maximum response time of the class.
  [[nodiscard]] constexpr Duration response_time() const {
    return TimeoutExponent{resp_time_value}.duration();
  }

  // clang-format off
  using Wire = Layout<72,
      Field<"BaseVersion", 8, &ClassPortInfo::base_version>,
      Field<"ClassVersion", 8, &ClassPortInfo::class_version>,
      Field<"CapabilityMask", 16, &ClassPortInfo::capability_mask>,
      Field<"CapabilityMask2", 27, &ClassPortInfo::capability_mask2>,
      Field<"RespTimeValue", 5, &ClassPortInfo::resp_time_value>,
      Octets<"RedirectGID", 16, &ClassPortInfo::redirect_gid>,
      Field<"RedirectTC", 8, &ClassPortInfo::redirect_tclass>,
      Field<"RedirectSL", 4, &ClassPortInfo::redirect_sl>,
      Field<"RedirectFL", 20, &ClassPortInfo::redirect_flow_label>,
      Field<"RedirectLID", 16, &ClassPortInfo::redirect_lid>,
      Field<"RedirectP_Key", 16, &ClassPortInfo::redirect_pkey>,
      Reserved<8>,
      Field<"RedirectQP", 24, &ClassPortInfo::redirect_qp>,
      Field<"RedirectQ_Key", 32, &ClassPortInfo::redirect_qkey>,
      Octets<"TrapGID", 16, &ClassPortInfo::trap_gid>,
      Field<"TrapTC", 8, &ClassPortInfo::trap_tclass>,
      Field<"TrapSL", 4, &ClassPortInfo::trap_sl>,
      Field<"TrapFL", 20, &ClassPortInfo::trap_flow_label>,
      Field<"TrapLID", 16, &ClassPortInfo::trap_lid>,
      Field<"TrapP_Key", 16, &ClassPortInfo::trap_pkey>,
      Field<"TrapHL", 8, &ClassPortInfo::trap_hop_limit>,
      Field<"TrapQP", 24, &ClassPortInfo::trap_qp>,
      Field<"TrapQ_Key", 32, &ClassPortInfo::trap_qkey>>;
  // clang-format on
};

}  // namespace weft::wire
