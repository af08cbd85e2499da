#pragma once

// Big-endian numbers in CDBs, parameter lists and parameter data. Value types.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"

namespace weft::scsi {

/// The big-endian number of `octets` octets at `offset`, which the caller has found to be there.
[[nodiscard]] inline std::uint64_t load_number(ByteSpan from, std::size_t offset,
                                               std::size_t octets) {
  WEFT_ASSERT(octets <= 8 && offset <= from.size() && octets <= from.size() - offset,
              "callers check the length of what came before they read fields");
  std::uint64_t value = 0;
  for (const std::byte octet : from.subspan(offset, octets)) {
    value = value << 8 | std::to_integer<std::uint64_t>(octet);
  }
  return value;
}

[[nodiscard]] inline std::uint8_t load8(ByteSpan from, std::size_t offset) {
  return static_cast<std::uint8_t>(load_number(from, offset, 1));
}
[[nodiscard]] inline std::uint16_t load16(ByteSpan from, std::size_t offset) {
  return static_cast<std::uint16_t>(load_number(from, offset, 2));
}
[[nodiscard]] inline std::uint32_t load32(ByteSpan from, std::size_t offset) {
  return static_cast<std::uint32_t>(load_number(from, offset, 4));
}
[[nodiscard]] inline std::uint64_t load64(ByteSpan from, std::size_t offset) {
  return load_number(from, offset, 8);
}

/// Writes the lowest `octets` octets of `value` at `offset`.
inline void store_number(MutableByteSpan to, std::size_t offset, std::size_t octets,
                         std::uint64_t value) {
  WEFT_ASSERT(octets <= 8 && offset <= to.size() && octets <= to.size() - offset,
              "callers size what they fill");
  for (std::size_t i = octets; i-- > 0; value >>= 8) {
    to[offset + i] = static_cast<std::byte>(value & 0xFF);
  }
}

/// Parameter data under construction; grows at its end, and earlier fields (lengths, mostly) may be
/// written afterwards.
class ParameterData {
 public:
  ParameterData() = default;
  explicit ParameterData(std::size_t zeroes) : octets_(zeroes) {}

  ParameterData& add(std::size_t octets, std::uint64_t value) {
    octets_.resize(octets_.size() + octets);
    store_number(octets_, octets_.size() - octets, octets, value);
    return *this;
  }
  ParameterData& add(ByteSpan more) {
    octets_.insert(octets_.end(), more.begin(), more.end());
    return *this;
  }
  ParameterData& add_zeroes(std::size_t count) {
    octets_.resize(octets_.size() + count);
    return *this;
  }
  /// Text of a fixed width, left-aligned and filled with spaces (SPC-4 §4.3.1).
  ParameterData& add_text(std::string_view text, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) {
      octets_.push_back(static_cast<std::byte>(i < text.size() ? text[i] : ' '));
    }
    return *this;
  }
  ParameterData& set(std::size_t offset, std::size_t octets, std::uint64_t value) {
    store_number(octets_, offset, octets, value);
    return *this;
  }

  [[nodiscard]] std::size_t size() const { return octets_.size(); }
  [[nodiscard]] ByteSpan octets() const { return octets_; }

 private:
  std::vector<std::byte> octets_;
};

}  // namespace weft::scsi
