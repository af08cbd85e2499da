#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// PortInfoExtended (IBTA vol 1 §14.2.5): forward error correction modes of a link, as bitmaps for
/// each lane speed.
struct PortInfoExtended {
  static constexpr std::string_view kName = "PortInfoExtended";

  std::uint32_t capability_mask{};  ///< bit 0: IsFECModeSupported; if clear, the other fields are 0
  std::uint16_t fec_mode_active{};
  std::uint16_t fdr_fec_mode_supported{};
  std::uint16_t fdr_fec_mode_enabled{};
  std::uint16_t edr_fec_mode_supported{};
  std::uint16_t edr_fec_mode_enabled{};
  std::uint16_t hdr_fec_mode_supported{};
  std::uint16_t hdr_fec_mode_enabled{};
  std::uint16_t ndr_fec_mode_supported{};
  std::uint16_t ndr_fec_mode_enabled{};
  bool operator==(const PortInfoExtended&) const = default;

  // clang-format off
  using Wire = Layout<22,
      Field<"CapMask", 32, &PortInfoExtended::capability_mask>,
      Field<"FECModeActive", 16, &PortInfoExtended::fec_mode_active>,
      Field<"FDRFECModeSupported", 16, &PortInfoExtended::fdr_fec_mode_supported>,
      Field<"FDRFECModeEnabled", 16, &PortInfoExtended::fdr_fec_mode_enabled>,
      Field<"EDRFECModeSupported", 16, &PortInfoExtended::edr_fec_mode_supported>,
      Field<"EDRFECModeEnabled", 16, &PortInfoExtended::edr_fec_mode_enabled>,
      Field<"HDRFECModeSupported", 16, &PortInfoExtended::hdr_fec_mode_supported>,
      Field<"HDRFECModeEnabled", 16, &PortInfoExtended::hdr_fec_mode_enabled>,
      Field<"NDRFECModeSupported", 16, &PortInfoExtended::ndr_fec_mode_supported>,
      Field<"NDRFECModeEnabled", 16, &PortInfoExtended::ndr_fec_mode_enabled>>;
  // clang-format on
};

}  // namespace weft::wire
