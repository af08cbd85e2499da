#include "resolver/preload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace weft::resolver {
namespace {

/// The next word of a line; empty at its end.
[[nodiscard]] std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = std::min(line.find_first_not_of(kSpace), line.size());
  const std::size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

[[nodiscard]] Result<Gid> parse_gid(std::string_view text) {
  const auto address = parse_ip_address(text);
  if (!address || !address->is_v6()) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no GID, which is written as fe80::1 is", text);
  }
  return Gid{address->v6_octets()};
}

/// Decimal, or hexadecimal behind 0x.
[[nodiscard]] Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t most) {
  const bool is_hex = text.starts_with("0x");
  const std::string_view digits = is_hex ? text.substr(2) : text;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number, is_hex ? 16 : 10);
  if (error != std::errc{} || end != digits.end() || number > most) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no number from 0 to {}", text, most);
  }
  return number;
}

/// What `path` may be followed by.
struct PathWord {
  std::string_view name;
  std::uint64_t most{};  ///< 0: a GID
  void (*set_number)(Preload::Path& path, std::uint64_t number){};
  void (*set_gid)(Preload::Path& path, const Gid& gid){};
};

constexpr std::uint64_t kMaxLid = 0xBFFF;
constexpr std::uint64_t kSixBits = 63;

// clang-format off
constexpr auto kPathWords = std::to_array<PathWord>({
    {"sgid", 0, nullptr, [](Preload::Path& p, const Gid& gid) { p.asked.sgid = p.path.sgid = gid; }},
    {"dgid", 0, nullptr, [](Preload::Path& p, const Gid& gid) { p.asked.dgid = p.path.dgid = gid; }},
    {"dlid", kMaxLid, [](Preload::Path& p, std::uint64_t n) { p.path.dlid = Lid{static_cast<std::uint32_t>(n)}; }},
    {"slid", kMaxLid, [](Preload::Path& p, std::uint64_t n) { p.path.slid = Lid{static_cast<std::uint32_t>(n)}; }},
    {"pkey", 0xFFFF, [](Preload::Path& p, std::uint64_t n) { p.asked.pkey = p.path.pkey = PKey{static_cast<std::uint16_t>(n)}; }},
    {"sl", 15, [](Preload::Path& p, std::uint64_t n) { p.path.sl = ServiceLevel{static_cast<std::uint8_t>(n)}; }},
    {"mtu", kSixBits, [](Preload::Path& p, std::uint64_t n) { p.path.mtu = static_cast<std::uint8_t>(n); }},
    {"rate", kSixBits, [](Preload::Path& p, std::uint64_t n) { p.path.rate = static_cast<std::uint8_t>(n); }},
    {"lifetime", kSixBits, [](Preload::Path& p, std::uint64_t n) { p.path.packet_life_time = static_cast<std::uint8_t>(n); }},
    {"service", ~std::uint64_t{0}, [](Preload::Path& p, std::uint64_t n) { p.asked.service_id = n; p.path.set_service_id(n); }},
    {"tclass", 0xFF, [](Preload::Path& p, std::uint64_t n) { p.asked.tclass = p.path.tclass = static_cast<std::uint8_t>(n); }},
    {"qos", 0xFFF, [](Preload::Path& p, std::uint64_t n) { p.asked.qos_class = p.path.qos_class = static_cast<std::uint16_t>(n); }},
});
// clang-format on

[[nodiscard]] Result<Preload::Path> parse_path(std::string_view line) {
  Preload::Path path;
  path.path.reversible = true;
  path.path.mtu_selector = path.path.rate_selector = path.path.packet_life_time_selector =
      wire::Selector::Exactly;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto* const known =
        std::ranges::find(kPathWords, word.substr(0, equals), &PathWord::name);
    if (known == kPathWords.end() || equals == word.size()) {
      return fail(ErrorCode::InvalidArgument, "'{}' is nothing that a path has", word);
    }
    const std::string_view value = word.substr(equals + 1);
    if (known->set_gid != nullptr) {
      const auto gid = parse_gid(value);
      if (!gid) {
        return std::unexpected(gid.error());
      }
      known->set_gid(path, *gid);
      continue;
    }
    const auto number = parse_number(value, known->most);
    if (!number) {
      return std::unexpected(number.error());
    }
    known->set_number(path, *number);
  }
  const wire::PathRecord& said = path.path;
  if (said.sgid.is_zero() || said.dgid.is_zero() || said.dlid == Lid{} || said.slid == Lid{}) {
    return fail(ErrorCode::InvalidArgument, "a path needs sgid, dgid, slid and dlid");
  }
  return path;
}

[[nodiscard]] Result<void> take_line(std::string_view line, Preload& preload) {
  const std::string_view first = next_word(line);
  if (first.empty()) {
    return {};
  }
  if (first == "path") {
    auto path = parse_path(line);
    if (!path) {
      return std::unexpected(path.error());
    }
    preload.paths.push_back(std::move(*path));
    return {};
  }
  const auto gid = parse_gid(next_word(line));
  if (!gid) {
    return std::unexpected(gid.error());
  }
  if (!next_word(line).empty()) {
    return fail(ErrorCode::InvalidArgument, "more than a name and its GID");
  }
  if (const auto address = parse_ip_address(first)) {
    preload.addresses[*address] = *gid;
  } else {
    preload.names[std::string{first}] = *gid;
  }
  return {};
}

}  // namespace

Result<Preload> parse_preload(std::string_view text) {
  Preload preload;
  std::size_t number = 0;
  while (!text.empty()) {
    if (++number > kMaxPreloadLines) {
      return fail(ErrorCode::InvalidArgument, "more than {} lines", kMaxPreloadLines);
    }
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (auto taken = take_line(line.substr(0, line.find('#')), preload); !taken) {
      return fail(taken.error().code, "line {}: {}", number, taken.error().reason);
    }
  }
  return preload;
}

}  // namespace weft::resolver
