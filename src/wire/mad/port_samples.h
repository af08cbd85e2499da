#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/layout_array.h"

/// Sampling of a port's counters over an interval.
namespace weft::wire {

/// SampleStatus (IBTA vol 1 §16.1.3.2).
enum class SampleStatus : std::uint8_t { Done = 0, Started = 1, Running = 2 };

/// PortSamplesControl (IBTA vol 1 §16.1.3.2).
struct PortSamplesControl {
  static constexpr std::string_view kName = "PortSamplesControl";

  std::uint8_t op_code{};
  PortNumber port_select{};
  std::uint8_t tick{};
  std::uint8_t counter_width{};                         ///< 16 + 4 * value bits
  std::array<std::uint8_t, 10> counter_masks_0_to_9{};  ///< which events each counter can count
  std::array<std::uint8_t, 5> counter_masks_10_to_14{};
  std::uint8_t sample_mechanisms{};
  SampleStatus sample_status{};
  std::uint64_t option_mask{};
  std::uint64_t vendor_mask{};
  std::uint32_t sample_start{};     ///< ticks
  std::uint32_t sample_interval{};  ///< ticks
  std::uint16_t tag{};
  std::array<std::uint16_t, 15> counter_selects{};
  std::uint64_t samples_only_option_mask{};
  bool operator==(const PortSamplesControl&) const = default;

  // clang-format off
  using Wire = Layout<192,
      Field<"OpCode", 8, &PortSamplesControl::op_code>,
      Field<"PortSelect", 8, &PortSamplesControl::port_select>,
      Field<"Tick", 8, &PortSamplesControl::tick>,
      Reserved<5>,
      Field<"CounterWidth", 3, &PortSamplesControl::counter_width>,
      Reserved<2>,
      Numbers<"CounterMask", 3, 10, &PortSamplesControl::counter_masks_0_to_9>,
      Reserved<1>,
      Numbers<"CounterMask10", 3, 5, &PortSamplesControl::counter_masks_10_to_14>,
      Field<"SampleMechanisms", 8, &PortSamplesControl::sample_mechanisms>,
      Reserved<6>,
      Field<"SampleStatus", 2, &PortSamplesControl::sample_status>,
      Field<"OptionMask", 64, &PortSamplesControl::option_mask>,
      Field<"VendorMask", 64, &PortSamplesControl::vendor_mask>,
      Field<"SampleStart", 32, &PortSamplesControl::sample_start>,
      Field<"SampleInterval", 32, &PortSamplesControl::sample_interval>,
      Field<"Tag", 16, &PortSamplesControl::tag>,
      Numbers<"CounterSelect", 16, 15, &PortSamplesControl::counter_selects>,
      Reserved<32>,
      Field<"SamplesOnlyOptionMask", 64, &PortSamplesControl::samples_only_option_mask>,
      Reserved<896>>;
  // clang-format on
};

/// PortSamplesResult (IBTA vol 1 §16.1.3.4).
struct PortSamplesResult {
  static constexpr std::string_view kName = "PortSamplesResult";

  std::uint16_t tag{};
  SampleStatus sample_status{};
  std::array<std::uint32_t, 15> counters{};
  bool operator==(const PortSamplesResult&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Field<"Tag", 16, &PortSamplesResult::tag>,
      Reserved<14>,
      Field<"SampleStatus", 2, &PortSamplesResult::sample_status>,
      Numbers<"Counter", 32, 15, &PortSamplesResult::counters>>;
  // clang-format on
};

/// PortSamplesResultExtended (IBTA vol 1 §16.1.4.12).
struct PortSamplesResultExtended {
  static constexpr std::string_view kName = "PortSamplesResultExtended";

  std::uint16_t tag{};
  SampleStatus sample_status{};
  std::uint8_t extended_width{};  ///< 1: 48 bits, 2: 64
  std::array<std::uint64_t, 15> counters{};
  bool operator==(const PortSamplesResultExtended&) const = default;

  // clang-format off
  using Wire = Layout<128,
      Field<"Tag", 16, &PortSamplesResultExtended::tag>,
      Reserved<14>,
      Field<"SampleStatus", 2, &PortSamplesResultExtended::sample_status>,
      Field<"ExtendedWidth", 2, &PortSamplesResultExtended::extended_width>,
      Reserved<30>,
      Numbers<"Counter", 64, 15, &PortSamplesResultExtended::counters>>;
  // clang-format on
};

}  // namespace weft::wire
