#include "archive.h"

#include <cstddef>
#include <utility>

namespace weft::corpora {
namespace {

// PKWARE's APPNOTE.TXT 6.3 §4.3: entries, each behind a local header; the directory; its end.
constexpr std::uint32_t kLocalHeader = 0x0403'4B50;
constexpr std::uint32_t kDirectoryEntry = 0x0201'4B50;
constexpr std::uint32_t kEndOfDirectory = 0x0605'4B50;
constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::size_t kEndOfDirectoryBytes = 22;

/// Little-endian, of two or four octets.
[[nodiscard]] std::uint32_t number(std::span<const std::uint8_t> from, std::size_t at,
                                   std::size_t octets) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < octets; ++i) {
    value |= std::uint32_t{from[at + i]} << (8 * i);
  }
  return value;
}

/// True if the archive ends in the end of a directory of so many entries.
[[nodiscard]] bool is_whole(std::span<const std::uint8_t> archive, std::size_t entries) {
  if (archive.size() < kEndOfDirectoryBytes) {
    return false;
  }
  const auto end = archive.last(kEndOfDirectoryBytes);
  return number(end, 0, 4) == kEndOfDirectory && number(end, 10, 2) == entries;
}

}  // namespace

std::optional<std::vector<Input>> read_archive(std::span<const std::uint8_t> archive) {
  std::vector<Input> inputs;
  auto rest = archive;
  while (rest.size() >= kLocalHeaderBytes && number(rest, 0, 4) == kLocalHeader) {
    const std::uint32_t flags = number(rest, 6, 2);
    const std::uint32_t method = number(rest, 8, 2);
    const std::size_t packed = number(rest, 18, 4);
    const std::size_t size = number(rest, 22, 4);
    const std::size_t name = number(rest, 26, 2);
    const std::size_t begin = kLocalHeaderBytes + name + number(rest, 28, 2);
    if (flags != 0 || method != 0 || packed != size || rest.size() < begin + size) {
      return std::nullopt;
    }
    const auto text = rest.subspan(kLocalHeaderBytes, name);
    const auto octets = rest.subspan(begin, size);
    inputs.push_back({
        .name = {text.begin(),   text.end()  },
          .octets = {octets.begin(), octets.end()}
    });
    rest = rest.subspan(begin + size);
  }
  const bool has_directory =
      rest.size() >= 4 && (number(rest, 0, 4) == kDirectoryEntry || inputs.empty());
  return has_directory && is_whole(rest, inputs.size()) ? std::optional{std::move(inputs)}
                                                        : std::nullopt;
}

}  // namespace weft::corpora
