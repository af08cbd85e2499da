#pragma once

// A stand-in for a cryptographic library, for tests: its hash has no strength, only the property
// that other input gives other output nearly always.

#include <array>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "iscsi/chap.h"

namespace weft::iscsi::testing {

class FakeChapLibrary final : public ChapLibrary {
 public:
  [[nodiscard]] std::vector<std::byte> hash(ChapAlgorithm algorithm,
                                            std::span<const ByteSpan> pieces) override {
    std::uint64_t state = 0xCBF2'9CE4'8422'2325 + static_cast<std::uint64_t>(algorithm);
    for (const ByteSpan piece : pieces) {
      for (const std::byte octet : piece) {
        state = (state ^ std::to_integer<std::uint64_t>(octet)) * 0x100'0000'01B3;
      }
    }
    const ByteSpan octets = bytes_of(state);
    return {octets.begin(), octets.end()};
  }
  void fill_random(MutableByteSpan octets) override {
    for (std::byte& octet : octets) {
      octet = static_cast<std::byte>(random_());
    }
  }

 private:
  Random random_{1};
};

}  // namespace weft::iscsi::testing
