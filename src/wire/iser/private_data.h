#pragma once

// What both ends say of themselves when they connect, as Linux does in the private data of RDMA-CM
// (annex A12 of IBTA vol 1). A peer without it offers neither.

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire::iser {

struct PrivateData {
  static constexpr std::string_view kName = "iSER Private Data";

  bool lacks_zero_based_addresses{true};  ///< ZBVA
  bool lacks_remote_invalidation{};       ///< SEND with invalidate
  bool operator==(const PrivateData&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"ZBVANotSupported", 1, &PrivateData::lacks_zero_based_addresses>,
      Field<"SendWithInvalidateNotSupported", 1, &PrivateData::lacks_remote_invalidation>,
      Reserved<30>>;
  // clang-format on
};

}  // namespace weft::wire::iser
