#pragma once

#include <array>
#include <cstddef>

#include "base/assert.h"

namespace weft {

/// Up to N values without memory of their own, as std::inplace_vector of C++26. Values that are
/// taken away stay as they were until others replace them, so T has no destructor that matters.
template <class T, std::size_t N>
class InplaceVector {
 public:
  constexpr void push_back(const T& value) {
    WEFT_ASSERT(size_ != N, "whoever adds a value knows how many there can be");
    values_[size_++] = value;
  }
  constexpr void clear() { size_ = 0; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr T* begin() { return values_.data(); }
  [[nodiscard]] constexpr T* end() { return values_.data() + size_; }
  [[nodiscard]] constexpr const T* begin() const { return values_.data(); }
  [[nodiscard]] constexpr const T* end() const { return values_.data() + size_; }
  [[nodiscard]] constexpr const T& front() const { return (*this)[0]; }
  [[nodiscard]] constexpr const T& operator[](std::size_t index) const {
    WEFT_ASSERT(index < size_, "it is one of the values");
    return values_[index];
  }

 private:
  std::array<T, N> values_{};
  std::size_t size_{};
};

}  // namespace weft
