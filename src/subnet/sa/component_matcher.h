#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/mad/component_mask.h"

namespace weft::subnet {

/// Matches records of type T against a query (IBTA vol 1 §15.2.1.1): the components selected by the
/// mask must be equal. Built once per query, so that matching costs one pack and one comparison per
/// record. Mask bits of reserved components, or beyond the last one, are ignored.
template <wire::WireType T>
class ComponentMatcher {
 public:
  static constexpr std::size_t kBytes = wire::kSizeOf<T>;

  ComponentMatcher(const T& wanted, std::uint64_t mask) : wanted_(wire::pack(wanted)) {
    unsigned index = 0;
    wire::describe<T>([&](std::string_view name, std::size_t first_bit, std::size_t bits) {
      if (index < 64 && (mask >> index & 1) != 0 && !name.empty()) {
        cover(first_bit, bits);
      }
      ++index;
    });
    for (std::size_t i = 0; i < kBytes; ++i) {
      wanted_[i] &= covered_[i];
    }
  }

  [[nodiscard]] bool matches(std::span<const std::byte, kBytes> record) const {
    for (std::size_t i = begin_; i < end_; ++i) {
      if ((record[i] & covered_[i]) != wanted_[i]) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool matches(const T& record) const { return matches(wire::pack(record)); }

 private:
  void cover(std::size_t first_bit, std::size_t bits) {
    for (std::size_t bit = first_bit; bit < first_bit + bits; ++bit) {
      covered_[bit / 8] |= std::byte{0x80} >> bit % 8;
    }
    begin_ = end_ == 0 ? first_bit / 8 : std::min(begin_, first_bit / 8);
    end_ = std::max(end_, (first_bit + bits + 7) / 8);
  }

  std::array<std::byte, kBytes> wanted_;
  std::array<std::byte, kBytes> covered_{};
  std::size_t begin_{};
  std::size_t end_{};
};

}  // namespace weft::subnet
