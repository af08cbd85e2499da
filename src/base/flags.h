#pragma once

#include <type_traits>
#include <utility>

namespace weft {

/// A set of flags, given by an enumeration whose enumerators are single bits.
template <class Flag>
  requires std::is_enum_v<Flag>
class Flags {
 public:
  using bits_type = std::underlying_type_t<Flag>;

  constexpr Flags() = default;
  constexpr Flags(Flag flag)
      : bits_(std::to_underlying(flag)) {
  }  // NOLINT(google-explicit-constructor): a flag is a set of one

  static constexpr Flags from_bits(bits_type bits) {
    Flags flags;
    flags.bits_ = bits;
    return flags;
  }

  [[nodiscard]] constexpr bits_type bits() const { return bits_; }
  [[nodiscard]] constexpr bool has(Flag flag) const {
    return (bits_ & std::to_underlying(flag)) != 0;
  }
  [[nodiscard]] constexpr bool has_all(Flags flags) const {
    return (bits_ & flags.bits_) == flags.bits_;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr Flags without(Flags flags) const {
    return from_bits(static_cast<bits_type>(bits_ & ~flags.bits_));
  }

  constexpr Flags& operator|=(Flags other) {
    bits_ = static_cast<bits_type>(bits_ | other.bits_);
    return *this;
  }
  friend constexpr Flags operator|(Flags a, Flags b) { return a |= b; }
  friend constexpr Flags operator&(Flags a, Flags b) {
    return from_bits(static_cast<bits_type>(a.bits_ & b.bits_));
  }
  friend constexpr bool operator==(Flags, Flags) = default;

 private:
  bits_type bits_{};
};

}  // namespace weft
