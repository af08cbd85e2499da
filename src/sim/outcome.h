#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/time.h"

namespace weft::sim {

/// Result of running a scenario.
struct Outcome {
  bool ok{true};
  std::string failure;             ///< first violation found by a checker; empty if ok
  std::uint64_t placed{};          // parts of messages that were placed directly
  std::uint64_t placed_atomics{};  // among them
  std::uint64_t packets{};
  std::uint64_t completions{};
  std::uint64_t delivered{};  ///< UC and UD messages that arrived
  std::uint64_t paths{};      ///< alternate paths loaded by both ends
  std::uint64_t migrations{};
  std::uint64_t lookups{};  ///< SIDR requests answered with a QP
  /// of all packets and completions with their times; equal for equal runs
  std::uint64_t digest{};
  Duration took;  ///< virtual time
};

/// A running digest (FNV-1a).
class Digest {
 public:
  void add(std::uint64_t value) { value_ = (value_ ^ value) * 0x100'0000'01B3; }
  void add(ByteSpan bytes) {
    for (const std::byte octet : bytes) {
      add(std::to_integer<std::uint64_t>(octet));
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_{0xCBF2'9CE4'8422'2325};
};

/// Byte `at` of message `number` of a stream. Messages have distinct contents, so that misplaced
/// data is detected.
[[nodiscard]] constexpr std::byte pattern(std::uint64_t seed, std::uint64_t stream,
                                          std::uint64_t number, std::size_t at) {
  const std::uint64_t mixed =
      (seed + stream * 0x9E37'79B9 + number * 0x85EB'CA6B + at / 4) * 0xFF51'AFD7'ED55'8CCD;
  return static_cast<std::byte>(mixed >> 32 ^ at);
}

}  // namespace weft::sim
