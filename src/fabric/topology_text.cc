#include "fabric/topology_text.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::fabric::internal {
namespace {

/// Edit distance: insertions, deletions and changes of one letter.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t column = 0; column <= b.size(); ++column) {
    row[column] = column;
  }
  for (std::size_t line = 1; line <= a.size(); ++line) {
    std::size_t diagonal = std::exchange(row[0], line);
    for (std::size_t column = 1; column <= b.size(); ++column) {
      const std::size_t changed = diagonal + (a[line - 1] == b[column - 1] ? 0 : 1);
      diagonal = row[column];
      row[column] = std::min({changed, row[column] + 1, row[column - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known) {
  constexpr std::size_t kLongestCompared = 64;  // policy: longer words are not misspelt keys
  const std::string_view head = wrong.substr(0, kLongestCompared);
  return *std::ranges::min_element(known, {},
                                   [&](std::string_view key) { return edit_distance(head, key); });
}

std::optional<std::uint64_t> read_integer(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number, base);
  return failure == std::errc{} && stop == end ? std::optional{number} : std::nullopt;
}

std::optional<std::size_t> line_of_foreign_octet(std::string_view text) {
  std::size_t line = 1;
  char quote = 0;        // of the current string
  bool is_long = false;  // three quotes, not one
  bool in_comment = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool triple = text.substr(at, 3) == std::string(3, c);
    if (c == '\n') {
      ++line;
      in_comment = false;
      quote = is_long ? quote : char{0};  // only a long string continues
    } else if (in_comment) {
      continue;
    } else if (quote == '"' && c == '\\') {
      ++at;
    } else if (quote != 0) {
      if (c == quote && (!is_long || triple)) {
        at += is_long ? 2 : 0;
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_long = triple;
      at += is_long ? 2 : 0;
    } else if (c == '#') {
      in_comment = true;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return line;
    }
  }
  return std::nullopt;
}

}  // namespace weft::fabric::internal
