#pragma once

#include <cstdint>
#include <string_view>

#include "base/keys.h"
#include "wire/layout.h"

namespace weft::wire {

/// Direct data buffer descriptor: one piece of the initiator's memory (SRP r16a §5.6.2).
struct SrpDirectDescriptor {
  static constexpr std::string_view kName = "SRP direct descriptor";

  std::uint64_t address{};
  RKey key{};
  std::uint32_t length{};  ///< octets
  bool operator==(const SrpDirectDescriptor&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"VIRTUAL ADDRESS", 64, &SrpDirectDescriptor::address>,
      Field<"MEMORY HANDLE", 32, &SrpDirectDescriptor::key>,
      Field<"DATA LENGTH", 32, &SrpDirectDescriptor::length>>;
  // clang-format on
};

/// Indirect data buffer descriptor without its partial list: where the whole list of direct
/// descriptors is in the initiator's memory, and how much data they describe (SRP r16a §5.6.3).
struct SrpIndirectDescriptor {
  static constexpr std::string_view kName = "SRP indirect descriptor";

  SrpDirectDescriptor table{};
  std::uint32_t total_length{};  ///< octets of data
  bool operator==(const SrpIndirectDescriptor&) const = default;

  // clang-format off
  using Wire = Layout<20,
      Nested<&SrpIndirectDescriptor::table>,
      Field<"TOTAL DATA LENGTH", 32, &SrpIndirectDescriptor::total_length>>;
  // clang-format on
};

/// Immediate data descriptor (SRP-2): octets of data-out in the IU, from the offset of the login.
struct SrpImmediateDescriptor {
  static constexpr std::string_view kName = "SRP immediate descriptor";

  std::uint32_t length{};
  bool operator==(const SrpImmediateDescriptor&) const = default;

  using Wire = Layout<4, Field<"IMMEDIATE DATA LENGTH", 32, &SrpImmediateDescriptor::length>>;
};

}  // namespace weft::wire
