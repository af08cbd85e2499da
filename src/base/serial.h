#pragma once

#include <cstdint>

namespace weft {

/// A 24-bit serial number with arithmetic modulo 2^24. There is no `<`, because serial number order
/// is not transitive.
template <class Tag>
class Serial24 {
 public:
  using value_type = std::uint32_t;
  static constexpr value_type kMask = 0xFF'FFFF;

  constexpr Serial24() = default;
  constexpr explicit Serial24(value_type value) : value_(value & kMask) {}

  [[nodiscard]] constexpr value_type value() const { return value_; }

  friend constexpr Serial24 operator+(Serial24 serial, std::uint32_t count) {
    return Serial24{serial.value_ + count};
  }
  friend constexpr Serial24 operator-(Serial24 serial, std::uint32_t count) {
    return Serial24{serial.value_ - count};
  }
  constexpr Serial24& operator++() { return *this = *this + 1; }

  friend constexpr bool operator==(Serial24, Serial24) = default;

 private:
  value_type value_{};
};

/// Signed difference from `from` to `to`, in -2^23 .. 2^23-1 (IBTA vol 1 §9.7.1: half of the space
/// is ahead, half behind).
template <class Tag>
[[nodiscard]] constexpr std::int32_t distance(Serial24<Tag> from, Serial24<Tag> to) {
  const std::uint32_t ahead = (to.value() - from.value()) & Serial24<Tag>::kMask;
  return static_cast<std::int32_t>(ahead << 8) >> 8;
}

template <class Tag>
[[nodiscard]] constexpr bool is_before(Serial24<Tag> a, Serial24<Tag> b) {
  return distance(a, b) > 0;
}

/// Packet sequence number (IBTA vol 1 §9.2.9) and message sequence number (§9.7.7.3).
using Psn = Serial24<struct PsnTag>;
using Msn = Serial24<struct MsnTag>;

}  // namespace weft
