#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"

namespace weft::wire {

/// Datagram extended transport header (IBTA vol 1 §9.3.2).
struct Deth {
  static constexpr std::string_view kName = "DETH";

  QKey qkey;
  Qpn src_qp;
  bool operator==(const Deth&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"Q_Key", 32, &Deth::qkey>,
      Reserved<8>,
      Field<"SrcQP", 24, &Deth::src_qp>>;
  // clang-format on
};

}  // namespace weft::wire
