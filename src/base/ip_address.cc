#include "base/ip_address.h"

#include <bit>
#include <charconv>
#include <iterator>
#include <optional>
#include <system_error>

#include "base/assert.h"

namespace weft {
namespace {

constexpr std::size_t kGroups = 8;  // 16-bit groups of an IPv6 address
using Groups = std::array<std::uint16_t, kGroups>;

[[nodiscard]] unsigned octet_at(std::span<const std::byte> octets, std::size_t at) {
  return std::to_integer<unsigned>(octets[at]);
}

/// Parses all of `text` as a number of at most `max_digits` digits.
[[nodiscard]] std::optional<unsigned> read_number(std::string_view text, int base,
                                                  std::size_t max_digits) {
  unsigned number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number, base);
  const bool is_whole = failure == std::errc{} && stop == end;
  return is_whole && text.size() <= max_digits ? std::optional{number} : std::nullopt;
}

/// Splits off the text up to the next `separator`.
[[nodiscard]] std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view taken = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
  return taken;
}

[[nodiscard]] std::optional<IpAddress> read_v4(std::string_view text) {
  if (std::ranges::count(text, '.') != 3) {
    return std::nullopt;
  }
  IpAddress::V4Octets octets{};
  for (std::byte& octet : octets) {
    const std::string_view part = take_until(text, '.');
    const auto number = read_number(part, 10, 3);
    // A leading zero is ambiguous, since some parsers take 010 as octal (RFC 6943 §3.1.1).
    if (!number || *number > 0xFF || (part.size() > 1 && part.front() == '0')) {
      return std::nullopt;
    }
    octet = static_cast<std::byte>(*number);
  }
  return IpAddress{octets};
}

/// Parses groups separated by colons; the last one of the address may be an IPv4 address. Returns
/// their number; none if malformed or too many.
[[nodiscard]] std::optional<std::size_t> read_groups(std::string_view text, bool is_end,
                                                     Groups& groups) {
  std::size_t count = 0;
  bool is_last = text.empty();
  while (!is_last) {
    is_last = text.find(':') == std::string_view::npos;
    const std::string_view part = take_until(text, ':');
    if (const auto v4 = is_last && is_end ? read_v4(part) : std::nullopt;
        v4 && count + 2 <= kGroups) {
      groups[count++] = static_cast<std::uint16_t>(v4->v4_number() >> 16);
      groups[count++] = static_cast<std::uint16_t>(v4->v4_number());
      continue;
    }
    const auto number = read_number(part, 16, 4);
    if (!number || count == kGroups) {
      return std::nullopt;
    }
    groups[count++] = static_cast<std::uint16_t>(*number);
  }
  return count;
}

[[nodiscard]] std::optional<IpAddress> read_v6(std::string_view text) {
  const std::size_t gap = text.find("::");
  Groups groups{};
  const auto before = read_groups(text.substr(0, gap), gap == std::string_view::npos, groups);
  if (!before) {
    return std::nullopt;
  }
  if (gap == std::string_view::npos) {
    if (*before != kGroups) {
      return std::nullopt;
    }
  } else {
    Groups tail{};
    const auto after = read_groups(text.substr(gap + 2), true, tail);
    if (!after || *before + *after >= kGroups) {
      return std::nullopt;
    }
    std::copy_n(tail.begin(), *after, groups.end() - static_cast<std::ptrdiff_t>(*after));
  }
  IpAddress::V6Octets octets{};
  for (std::size_t i = 0; i < kGroups; ++i) {
    octets[2 * i] = static_cast<std::byte>(groups[i] >> 8);
    octets[2 * i + 1] = static_cast<std::byte>(groups[i]);
  }
  return IpAddress{octets};
}

/// The run of zero groups replaced by `::`: the first of the longest, if longer than one.
struct ZeroRun {
  std::size_t start{kGroups};
  std::size_t length{1};
};

[[nodiscard]] ZeroRun longest_zeros(const Groups& groups) {
  ZeroRun longest;
  for (std::size_t start = 0; start < kGroups; ++start) {
    const auto from = groups.begin() + static_cast<std::ptrdiff_t>(start);
    const auto end = std::find_if(from, groups.end(), [](auto group) { return group != 0; });
    const auto length = static_cast<std::size_t>(end - from);
    if (length > longest.length) {
      longest = {.start = start, .length = length};
    }
  }
  return longest;
}

}  // namespace

IpAddress::V4Octets IpAddress::v4_octets() const {
  WEFT_ASSERT(is_v4(), "the address is of IPv4");
  V4Octets octets{};
  std::copy_n(octets_.begin(), kV4Bytes, octets.begin());
  return octets;
}

std::uint32_t IpAddress::v4_number() const {
  WEFT_ASSERT(is_v4(), "the address is of IPv4");
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < kV4Bytes; ++i) {
    number = number << 8 | octet_at(octets_, i);
  }
  return number;
}

IpAddress::V6Octets IpAddress::v6_octets() const {
  WEFT_ASSERT(is_v6(), "the address is of IPv6");
  return octets_;
}

bool IpAddress::is_loopback() const {
  return is_v4() ? octet_at(octets_, 0) == 127 : *this == v6(0, 1);
}

bool IpAddress::is_multicast() const {
  const unsigned first = octet_at(octets_, 0);
  return is_v4() ? first >= 0xE0 && first <= 0xEF : first == 0xFF;
}

bool IpAddress::is_link_local() const {
  const unsigned first = octet_at(octets_, 0);
  const unsigned second = octet_at(octets_, 1);
  return is_v4() ? first == 169 && second == 254 : first == 0xFE && (second & 0xC0) == 0x80;
}

bool IpAddress::is_limited_broadcast() const { return *this == v4(0xFFFF'FFFF); }

IpAddress IpAddress::unmapped() const {
  constexpr unsigned kMappedBits = 96;
  if (!is_v6() || common_prefix(*this, v6(0, std::uint64_t{0xFFFF} << 32)) < kMappedBits) {
    return *this;
  }
  V4Octets octets{};
  std::copy_n(octets_.begin() + (kV6Bytes - kV4Bytes), kV4Bytes, octets.begin());
  return IpAddress{octets};
}

unsigned common_prefix(const IpAddress& a, const IpAddress& b) {
  if (a.family() != b.family()) {
    return 0;
  }
  for (std::size_t i = 0; i < a.octets().size(); ++i) {
    const auto differing =
        static_cast<std::uint8_t>(octet_at(a.octets(), i) ^ octet_at(b.octets(), i));
    if (differing != 0) {
      return static_cast<unsigned>(8 * i) + static_cast<unsigned>(std::countl_zero(differing));
    }
  }
  return a.bits();
}

Result<IpAddress> parse_ip_address(std::string_view text) {
  const auto address = text.find(':') == std::string_view::npos ? read_v4(text) : read_v6(text);
  if (!address) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is not an IPv4 or IPv6 address, such as 127.77.0.1 or fd77::1", text);
  }
  return *address;
}

std::string to_string(const IpAddress& address) {
  const std::span<const std::byte> octets = address.octets();
  if (address.is_v4()) {
    return fmt::format("{}.{}.{}.{}", octet_at(octets, 0), octet_at(octets, 1), octet_at(octets, 2),
                       octet_at(octets, 3));
  }
  if (const IpAddress inner = address.unmapped(); inner.is_v4()) {
    return "::ffff:" + to_string(inner);  // RFC 5952 §5
  }
  Groups groups{};
  for (std::size_t i = 0; i < kGroups; ++i) {
    groups[i] =
        static_cast<std::uint16_t>(octet_at(octets, 2 * i) << 8 | octet_at(octets, 2 * i + 1));
  }
  const ZeroRun zeros = longest_zeros(groups);
  std::string text;
  for (std::size_t i = 0; i < kGroups; ++i) {
    if (i == zeros.start) {
      text += "::";
      i += zeros.length - 1;
    } else {
      const bool needs_colon = !text.empty() && text.back() != ':';
      fmt::format_to(std::back_inserter(text), "{}{:x}", needs_colon ? ":" : "", groups[i]);
    }
  }
  return text;
}

Result<InterfaceAddress> parse_interface_address(std::string_view text) {
  constexpr std::uint8_t kUsualV4 = 24;
  constexpr std::uint8_t kUsualV6 = 64;
  const std::size_t slash = text.find('/');
  const auto address = parse_ip_address(text.substr(0, slash));
  if (!address) {
    return std::unexpected(address.error());
  }
  if (slash == std::string_view::npos) {
    return InterfaceAddress{*address, address->is_v4() ? kUsualV4 : kUsualV6};
  }
  const auto bits = read_number(text.substr(slash + 1), 10, 3);
  if (!bits || *bits > address->bits()) {
    return fail(ErrorCode::InvalidArgument, "'{}': the prefix of {} has 0 to {} bits", text,
                to_string(*address), address->bits());
  }
  return InterfaceAddress{*address, static_cast<std::uint8_t>(*bits)};
}

std::string to_string(const InterfaceAddress& address) {
  return fmt::format("{}/{}", to_string(address.address), address.prefix_bits);
}

}  // namespace weft
