#pragma once

// Text of Login and Text PDUs: key=value pairs, each ended by a null (RFC 7143 §6.1). Value types.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::iscsi {

inline constexpr std::size_t kMaxKeyBytes = 63;      // RFC 7143 §6.1
inline constexpr std::size_t kMaxTextBytes = 65536;  // policy: of one request, over all its PDUs
inline constexpr std::size_t kMaxPairs = 256;        // policy

struct TextPair {
  std::string_view key;
  std::string_view value;
  bool operator==(const TextPair&) const = default;
};
using TextPairs = std::vector<TextPair>;

/// The pairs of a text, which must outlive them. InvalidArgument for a pair without key or equals
/// sign, a key name of other characters, and a text that does not end with a null.
[[nodiscard]] Result<TextPairs> parse_text(std::string_view text);

/// The value of a key, or nothing.
[[nodiscard]] std::optional<std::string_view> find_value(const TextPairs& pairs,
                                                         std::string_view key);

/// A text under construction.
class TextWriter {
 public:
  TextWriter& add(std::string_view key, std::string_view value);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

/// A numerical value: decimal or hexadecimal, of at most 64 bits (RFC 7143 §6.1).
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view value);
/// A binary value: hexadecimal (0x) or base64 (0b), of at most `max_bytes` octets.
[[nodiscard]] Result<std::vector<std::byte>> parse_binary(std::string_view value,
                                                          std::size_t max_bytes);
/// The same octets as a hexadecimal value.
[[nodiscard]] std::string to_binary_value(ByteSpan octets);
/// The values of a list, in order of preference.
[[nodiscard]] std::vector<std::string_view> split_list(std::string_view value);

/// Octets as characters and back.
[[nodiscard]] std::string to_characters(ByteSpan octets);
[[nodiscard]] std::vector<std::byte> to_octets(std::string_view text);

}  // namespace weft::iscsi
