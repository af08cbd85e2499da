#pragma once

#include <cstdint>
#include <string_view>

#include "base/serial.h"
#include "wire/layout.h"

namespace weft::wire {

/// Upper bits of the AETH syndrome (IBTA vol 1 Table 43).
enum class SyndromeKind : std::uint8_t { Ack = 0, RnrNak = 1, Reserved = 2, Nak = 3 };

enum class NakCode : std::uint8_t {
  PsnSequenceError = 0,
  InvalidRequest = 1,
  RemoteAccessError = 2,
  RemoteOperationalError = 3,
  InvalidRdRequest = 4,
};

/// The AETH syndrome: a reserved bit, two bits for the kind, five for the value (credit code, RNR
/// timer code or NAK code).
class Syndrome {
 public:
  using value_type = std::uint8_t;

  constexpr Syndrome() = default;
  constexpr explicit Syndrome(value_type octet) : octet_(octet) {}

  static constexpr Syndrome ack(std::uint8_t credit_code) {
    return Syndrome{static_cast<value_type>(credit_code & 0x1F)};
  }
  static constexpr Syndrome rnr(std::uint8_t timer_code) {
    return Syndrome{static_cast<value_type>(0x20 | (timer_code & 0x1F))};
  }
  static constexpr Syndrome nak(NakCode code) {
    return Syndrome{static_cast<value_type>(0x60 | static_cast<value_type>(code))};
  }

  [[nodiscard]] constexpr SyndromeKind kind() const {
    return static_cast<SyndromeKind>(octet_ >> 5 & 3);
  }
  [[nodiscard]] constexpr std::uint8_t code() const { return octet_ & 0x1F; }
  [[nodiscard]] constexpr value_type value() const { return octet_; }  ///< the whole octet

  friend constexpr bool operator==(Syndrome, Syndrome) = default;

 private:
  value_type octet_{};
};

/// Acknowledge extended transport header (IBTA vol 1 §9.3.5).
struct Aeth {
  static constexpr std::string_view kName = "AETH";

  Syndrome syndrome;
  Msn msn;
  bool operator==(const Aeth&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"Syndrome", 8, &Aeth::syndrome>,
      Field<"MSN", 24, &Aeth::msn>>;
  // clang-format on
};

}  // namespace weft::wire
