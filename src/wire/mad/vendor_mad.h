#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"
#include "wire/mad/mad.h"
#include "wire/mad/rmpp.h"

namespace weft::wire {

/// True for classes 0x30 to 0x4F, whose MADs have an RMPP header and an OUI.
[[nodiscard]] constexpr bool is_vendor_with_oui(ManagementClass mgmt_class) {
  const auto number = static_cast<std::uint8_t>(mgmt_class);
  return number >= 0x30 && number <= 0x4F;
}

/// A MAD of a vendor's class with an OUI (IBTA vol 1 §16.5.1).
struct VendorMad {
  static constexpr std::string_view kName = "Vendor MAD with OUI";

  MadHeader header{};
  Rmpp rmpp{};
  std::uint32_t oui{};
  std::array<std::byte, 216> data{};
  bool operator==(const VendorMad&) const = default;

  // clang-format off
  using Wire = Layout<256,
      Nested<&VendorMad::header>,
      Nested<&VendorMad::rmpp>,
      Reserved<8>,
      Field<"OUI", 24, &VendorMad::oui>,
      Octets<"VendorData", 216, &VendorMad::data>>;
  // clang-format on
};

}  // namespace weft::wire
