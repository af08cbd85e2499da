#include "subnet/sa/rates.h"

#include <algorithm>

namespace weft::subnet {

std::optional<RateCode> next_slower(RateCode rate) {
  constexpr RateCode kCodes = 64;  // 6-bit codes
  const std::uint32_t limit = rate_hundreds_of_mbps(rate);
  std::optional<RateCode> best;
  for (RateCode code = 0; code < kCodes; ++code) {
    const std::uint32_t each = rate_hundreds_of_mbps(code);
    if (each != 0 && each < limit && (!best || each > rate_hundreds_of_mbps(*best))) {
      best = code;
    }
  }
  return best;
}

RateCode slower_of(RateCode a, RateCode b) {
  return rate_hundreds_of_mbps(a) <= rate_hundreds_of_mbps(b) ? a : b;
}

std::optional<std::uint8_t> choose_mtu(std::uint8_t of_path, const Constraint& wanted) {
  switch (wanted.selector) {
    case wire::Selector::GreaterThan:
      return of_path > wanted.value ? std::optional{of_path} : std::nullopt;
    case wire::Selector::LessThan:
      return wanted.value > 1
                 ? std::optional{std::min(of_path, static_cast<std::uint8_t>(wanted.value - 1))}
                 : std::nullopt;
    case wire::Selector::Exactly:
      return of_path >= wanted.value ? std::optional{wanted.value} : std::nullopt;
    case wire::Selector::Best:
      break;
  }
  return of_path;
}

std::optional<RateCode> choose_rate(RateCode of_path, const Constraint& wanted) {
  const std::uint32_t path = rate_hundreds_of_mbps(of_path);
  const std::uint32_t path_query = rate_hundreds_of_mbps(wanted.value);
  switch (wanted.selector) {
    case wire::Selector::GreaterThan:
      return path > path_query ? std::optional{of_path} : std::nullopt;
    case wire::Selector::LessThan: {
      const auto slower = next_slower(wanted.value);
      return slower ? std::optional{slower_of(of_path, *slower)} : std::nullopt;
    }
    case wire::Selector::Exactly:
      return path >= path_query ? std::optional{wanted.value} : std::nullopt;
    case wire::Selector::Best:
      break;
  }
  return of_path;
}

std::optional<std::uint8_t> choose_life_time(std::uint8_t of_path, const Constraint& wanted) {
  constexpr std::uint8_t kLongest = 0x3F;
  switch (wanted.selector) {
    case wire::Selector::GreaterThan:
      return wanted.value < kLongest
                 ? std::optional{std::max(of_path, static_cast<std::uint8_t>(wanted.value + 1))}
                 : std::nullopt;
    case wire::Selector::LessThan:
      return of_path < wanted.value ? std::optional{of_path} : std::nullopt;
    case wire::Selector::Exactly:
      return of_path <= wanted.value ? std::optional{wanted.value} : std::nullopt;
    case wire::Selector::Best:
      break;
  }
  return of_path;
}

namespace {

[[nodiscard]] bool satisfies(std::uint32_t value, wire::Selector selector,
                             std::uint32_t path_query) {
  switch (selector) {
    case wire::Selector::GreaterThan:
      return value > path_query;
    case wire::Selector::LessThan:
      return value < path_query;
    case wire::Selector::Exactly:
      return value == path_query;
    case wire::Selector::Best:
      break;
  }
  return true;
}

}  // namespace

bool mtu_satisfies(std::uint8_t mtu, const Constraint& wanted) {
  return satisfies(mtu, wanted.selector, wanted.value);
}

bool rate_satisfies(RateCode rate, const Constraint& wanted) {
  return satisfies(rate_hundreds_of_mbps(rate), wanted.selector,
                   rate_hundreds_of_mbps(wanted.value));
}

}  // namespace weft::subnet
