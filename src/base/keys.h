#pragma once

#include <cstdint>

#include "base/strong.h"

namespace weft {

/// Partition key (IBTA vol 1 §10.9): bit 15 is the membership bit, the low 15 bits are the
/// partition number.
class PKey {
 public:
  using value_type = std::uint16_t;

  constexpr PKey() = default;
  constexpr explicit PKey(value_type value) : value_(value) {}

  [[nodiscard]] constexpr value_type value() const { return value_; }
  [[nodiscard]] constexpr value_type base() const { return value_ & 0x7FFF; }
  [[nodiscard]] constexpr bool is_full_member() const { return (value_ & 0x8000) != 0; }
  [[nodiscard]] constexpr bool is_valid() const { return base() != 0; }

  /// IBTA vol 1 §10.9.3: same valid partition number, and at least one side is a full member.
  [[nodiscard]] constexpr bool matches(PKey other) const {
    return is_valid() && base() == other.base() && (is_full_member() || other.is_full_member());
  }

  friend constexpr bool operator==(PKey, PKey) = default;

 private:
  value_type value_{};
};

inline constexpr PKey kDefaultPKey{0xFFFF};

/// Queue key of datagram QPs, 32 bits. A privileged Q_Key (bit 31 set) in a work request selects
/// the QP's own Q_Key.
using QKey = Strong<struct QKeyTag, std::uint32_t>;

inline constexpr QKey kGsiQKey{0x8001'0000};  ///< IBTA vol 1 §3.5.3: the Q_Key of QP1

/// Local and remote memory keys: index in the upper 24 bits, key in the low 8.
using LKey = Strong<struct LKeyTag, std::uint32_t>;
using RKey = Strong<struct RKeyTag, std::uint32_t>;

}  // namespace weft
