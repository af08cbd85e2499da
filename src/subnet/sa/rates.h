#pragma once

#include <cstdint>
#include <optional>

#include "subnet/rate.h"
#include "wire/selector.h"

/// MTU, rate and packet life time as SA records have them (IBTA vol 1 §15.2.5.16).
namespace weft::subnet {

/// A rate's code; the codes are not in the order of the rates.
using RateCode = std::uint8_t;

[[nodiscard]] inline bool is_rate(RateCode rate) { return rate_hundreds_of_mbps(rate) != 0; }

/// The fastest rate that is below this one; none below the slowest.
[[nodiscard]] std::optional<RateCode> next_slower(RateCode rate);

[[nodiscard]] RateCode slower_of(RateCode a, RateCode b);

[[nodiscard]] constexpr bool is_mtu(std::uint8_t mtu) { return mtu >= 1 && mtu <= 5; }

/// A selector with the value beside it; without one of the two, any value will do.
struct Wanted {
  wire::Selector selector{wire::Selector::Best};
  std::uint8_t value{};
};

/// The largest value that fits both the path and the wish: a path takes smaller packets and slower
/// rates than it could. None when the path is not good enough.
[[nodiscard]] std::optional<std::uint8_t> choose_mtu(std::uint8_t of_path, const Wanted& wanted);
[[nodiscard]] std::optional<RateCode> choose_rate(RateCode of_path, const Wanted& wanted);

/// A packet's life time is a bound: one that is longer is as true of the path.
[[nodiscard]] std::optional<std::uint8_t> choose_life_time(std::uint8_t of_path,
                                                           const Wanted& wanted);

/// Whether a group that has the value satisfies the wish: a group's values are what they are.
[[nodiscard]] bool mtu_satisfies(std::uint8_t mtu, const Wanted& wanted);
[[nodiscard]] bool rate_satisfies(RateCode rate, const Wanted& wanted);

}  // namespace weft::subnet
