#pragma once

#include <array>
#include <span>

#include "base/result.h"
#include "compat/ibverbs/abi.h"
#include "hca/types.h"

namespace weft::compat {

/// A scatter/gather list in the engine's form, on the stack.
class SgeList {
 public:
  static constexpr std::size_t kMost = 64;

  [[nodiscard]] Result<void> take(const ibv_sge* sges, int count) {
    if (count < 0 || static_cast<std::size_t>(count) > kMost) {
      return fail(ErrorCode::InvalidArgument, "{} SGEs; no device here takes more than {}", count,
                  kMost);
    }
    count_ = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < count_; ++i) {
      sges_[i] = {.address = sges[i].addr, .length = sges[i].length, .lkey = LKey{sges[i].lkey}};
    }
    return {};
  }
  [[nodiscard]] std::span<const hca::Sge> get() const { return {sges_.data(), count_}; }

 private:
  std::array<hca::Sge, kMost> sges_;
  std::size_t count_{};
};

}  // namespace weft::compat
