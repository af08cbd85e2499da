#include "iscsi/text.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace weft::iscsi {
namespace {

[[nodiscard]] bool is_letter(char character) {
  return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z');
}

[[nodiscard]] bool is_key_character(char character) {
  constexpr std::string_view kOthers = "0123456789.-+@_";
  return is_letter(character) || kOthers.contains(character);
}

[[nodiscard]] Result<TextPair> parse_pair(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no key=value pair", text.substr(0, 64));
  }
  const std::string_view key = text.substr(0, equals);
  if (key.empty() || key.size() > kMaxKeyBytes || !is_letter(key.front()) ||
      !std::ranges::all_of(key, is_key_character)) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no name of a key", key.substr(0, 64));
  }
  return TextPair{.key = key, .value = text.substr(equals + 1)};
}

[[nodiscard]] bool has_prefix(std::string_view value, char kind) {
  return value.size() > 2 && value[0] == '0' && (value[1] == kind || value[1] == kind - 'a' + 'A');
}

[[nodiscard]] int hex_digit(char character) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const char lower =
      character >= 'A' && character <= 'F' ? static_cast<char>(character - 'A' + 'a') : character;
  const std::size_t at = kDigits.find(lower);
  return at == kDigits.npos ? -1 : static_cast<int>(at);
}

[[nodiscard]] int base64_digit(char character) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t at = kDigits.find(character);
  return at == kDigits.npos ? -1 : static_cast<int>(at);
}

// A single first digit is an octet of its own.
[[nodiscard]] std::optional<std::vector<std::byte>> from_hex(std::string_view digits) {
  std::vector<std::byte> octets;
  bool has_upper = digits.size() % 2 != 0;
  int upper = 0;
  for (const char character : digits) {
    const int digit = hex_digit(character);
    if (digit < 0) {
      return std::nullopt;
    }
    if (has_upper) {
      octets.push_back(static_cast<std::byte>(upper << 4 | digit));
    }
    upper = digit;
    has_upper = !has_upper;
  }
  return octets;
}

[[nodiscard]] std::optional<std::vector<std::byte>> from_base64(std::string_view digits) {
  if (digits.size() % 4 != 0) {
    return std::nullopt;
  }
  for (int pads = 0; pads < 2 && digits.ends_with('='); ++pads) {
    digits.remove_suffix(1);
  }
  std::vector<std::byte> octets;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char character : digits) {
    const int digit = base64_digit(character);
    if (digit < 0) {
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      octets.push_back(static_cast<std::byte>(bits >> count & 0xFF));
    }
  }
  return octets;
}

}  // namespace

Result<TextPairs> parse_text(std::string_view text) {
  TextPairs pairs;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == text.npos) {
      return fail(ErrorCode::InvalidArgument, "the last pair of a text lacks its null");
    }
    if (end != 0) {  // padding nulls are harmless
      if (pairs.size() == kMaxPairs) {
        return fail(ErrorCode::InvalidArgument, "a text has more than {} pairs", kMaxPairs);
      }
      auto pair = parse_pair(text.substr(0, end));
      if (!pair) {
        return std::unexpected(pair.error());
      }
      pairs.push_back(*pair);
    }
    text.remove_prefix(end + 1);
  }
  return pairs;
}

std::optional<std::string_view> find_value(const TextPairs& pairs, std::string_view key) {
  const auto found = std::ranges::find(pairs, key, &TextPair::key);
  return found == pairs.end() ? std::nullopt : std::optional{found->value};
}

TextWriter& TextWriter::add(std::string_view key, std::string_view value) {
  text_.append(key).append(1, '=').append(value).append(1, '\0');
  return *this;
}

std::optional<std::uint64_t> parse_number(std::string_view value) {
  const bool is_hex = has_prefix(value, 'x');
  if (is_hex) {
    value.remove_prefix(2);
  }
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number, is_hex ? 16 : 10);
  return error == std::errc{} && rest == end ? std::optional{number} : std::nullopt;
}

Result<std::vector<std::byte>> parse_binary(std::string_view value, std::size_t max_bytes) {
  std::optional<std::vector<std::byte>> octets;
  if (value.size() <= max_bytes * 2 + 8) {
    if (has_prefix(value, 'x')) {
      octets = from_hex(value.substr(2));
    } else if (has_prefix(value, 'b')) {
      octets = from_base64(value.substr(2));
    }
  }
  if (!octets || octets->empty() || octets->size() > max_bytes) {
    return fail(ErrorCode::InvalidArgument, "no binary value of 1 to {} octets", max_bytes);
  }
  return *std::move(octets);
}

std::string to_binary_value(ByteSpan octets) {
  std::string text = "0x";
  for (const std::byte octet : octets) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(octet));
  }
  return text;
}

std::vector<std::string_view> split_list(std::string_view value) {
  std::vector<std::string_view> values;
  while (true) {
    const std::size_t comma = value.find(',');
    values.push_back(value.substr(0, comma));
    if (comma == value.npos) {
      return values;
    }
    value.remove_prefix(comma + 1);
  }
}

std::string to_characters(ByteSpan octets) {
  std::string text;
  text.reserve(octets.size());
  for (const std::byte octet : octets) {
    text.push_back(static_cast<char>(octet));
  }
  return text;
}

std::vector<std::byte> to_octets(std::string_view text) {
  std::vector<std::byte> octets;
  octets.reserve(text.size());
  for (const char character : text) {
    octets.push_back(static_cast<std::byte>(character));
  }
  return octets;
}

}  // namespace weft::iscsi
