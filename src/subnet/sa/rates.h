#pragma once

#include <cstdint>
#include <optional>

#include "subnet/rate.h"
#include "wire/selector.h"

/// MTU, rate and packet lifetime selectors of SA records (IBTA vol 1 §15.2.5.16).
namespace weft::subnet {

/// PathRecord encoding of a rate. Codes are not in the order of rates.
using RateCode = std::uint8_t;

[[nodiscard]] inline bool is_rate(RateCode rate) { return rate_hundreds_of_mbps(rate) != 0; }

/// The next slower rate; none for the slowest.
[[nodiscard]] std::optional<RateCode> next_slower(RateCode rate);

[[nodiscard]] RateCode slower_of(RateCode a, RateCode b);

[[nodiscard]] constexpr bool is_mtu(std::uint8_t mtu) { return mtu >= 1 && mtu <= 5; }

/// A value with its selector. Best, the default, accepts any value.
struct Constraint {
  wire::Selector selector{wire::Selector::Best};
  std::uint8_t value{};
};

/// The largest value that both the path supports and the selector allows: a path also supports
/// smaller MTUs and lower rates. None if the path does not satisfy the selector.
[[nodiscard]] std::optional<std::uint8_t> choose_mtu(std::uint8_t of_path,
                                                     const Constraint& wanted);
[[nodiscard]] std::optional<RateCode> choose_rate(RateCode of_path, const Constraint& wanted);

/// Packet lifetime is an upper bound, so a longer one also holds for the path.
[[nodiscard]] std::optional<std::uint8_t> choose_life_time(std::uint8_t of_path,
                                                           const Constraint& wanted);

/// True if a group's value satisfies the selector; unlike a path's, it cannot be reduced.
[[nodiscard]] bool mtu_satisfies(std::uint8_t mtu, const Constraint& wanted);
[[nodiscard]] bool rate_satisfies(RateCode rate, const Constraint& wanted);

}  // namespace weft::subnet
