#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "verbs/mtu.h"

namespace weft::wire {

using verbs::Mtu;

/// Credit counts of AETH codes (IBTA vol 1 Table 45, R-RVT-9); code 31 means no limit.
inline constexpr std::array<std::uint16_t, 31> kCreditTable = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
inline constexpr std::uint8_t kUnlimitedCredits = 31;

[[nodiscard]] constexpr std::uint32_t credit_count(std::uint8_t code) {
  return code < kCreditTable.size() ? kCreditTable[code] : 0;
}

/// The largest code whose count does not exceed `free_wqes`. From 2 on, counts are powers of two
/// and the values halfway between them, i.e. two codes per bit of the count.
[[nodiscard]] constexpr std::uint8_t credit_code(std::uint32_t free_wqes) {
  if (free_wqes < 2) {
    return static_cast<std::uint8_t>(free_wqes);
  }
  const auto log2 = static_cast<unsigned>(std::bit_width(free_wqes)) - 1;
  const unsigned code = 2 * log2 + (free_wqes >> (log2 - 1) & 1);
  return static_cast<std::uint8_t>(std::min<std::size_t>(code, kCreditTable.size() - 1));
}

/// RNR NAK timers by code, in microseconds (IBTA vol 1 Table 46, R-RVT-11).
inline constexpr std::array<std::uint32_t, 32> kRnrTimerMicroseconds = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

[[nodiscard]] constexpr Duration rnr_timer(std::uint8_t code) {
  return Duration::microseconds(kRnrTimerMicroseconds[code & 0x1F]);
}

}  // namespace weft::wire
