#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"
#include "wire/mad/mad.h"

namespace weft::wire {

inline constexpr std::size_t kPerfDataAt = 64;
inline constexpr std::size_t kPerfDataBytes = 192;

/// Attributes of performance management (IBTA vol 1 §16.1.3).
enum class PerfAttribute : std::uint16_t {
  ClassPortInfo = 0x0001,
  PortSamplesControl = 0x0010,
  PortSamplesResult = 0x0011,
  PortCounters = 0x0012,
  PortRcvErrorDetails = 0x0015,
  PortXmitDiscardDetails = 0x0016,
  PortCountersExtended = 0x001D,
  PortSamplesResultExtended = 0x001E,
  PortXmitDataSl = 0x0036,
  PortRcvDataSl = 0x0037,
};

/// CapabilityMask of the class's ClassPortInfo (IBTA vol 1 §16.1.3.1).
inline constexpr std::uint16_t kPerfAllPortSelect = 1U << 8;
inline constexpr std::uint16_t kPerfExtendedWidth = 1U << 9;
inline constexpr std::uint16_t kPerfExtendedWidthNoIetf = 1U << 10;
inline constexpr std::uint16_t kPerfPortXmitWait = 1U << 12;

/// CapabilityMask2: PortCountersExtended includes the error counters.
inline constexpr std::uint32_t kPerfAdditionalExtendedCounters = 1U << 1;

/// A MAD of performance management (IBTA vol 1 §16.1.1).
struct PerfMad {
  static constexpr std::string_view kName = "Performance MAD";

  MadHeader header{.mgmt_class = ManagementClass::Perf};
  std::array<std::byte, 192> data{};
  bool operator==(const PerfMad&) const = default;

  // clang-format off
  using Wire = Layout<256,
      Nested<&PerfMad::header>,
      Reserved<320>,
      Octets<"PerfData", 192, &PerfMad::data>>;
  // clang-format on
};

}  // namespace weft::wire
