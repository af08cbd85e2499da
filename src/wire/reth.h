#pragma once

#include <cstdint>
#include <string_view>

#include "base/keys.h"
#include "wire/layout.h"

namespace weft::wire {

/// RDMA extended transport header (IBTA vol 1 §9.3.3).
struct Reth {
  static constexpr std::string_view kName = "RETH";

  std::uint64_t virtual_address{};
  RKey rkey;
  std::uint32_t dma_length{};  // bytes
  bool operator==(const Reth&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"VA", 64, &Reth::virtual_address>,
      Field<"R_Key", 32, &Reth::rkey>,
      Field<"DMALen", 32, &Reth::dma_length>>;
  // clang-format on
};

}  // namespace weft::wire
