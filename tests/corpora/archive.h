#pragma once

// Archives of fuzzers' inputs, as scripts/testing/corpora.py writes them: zip files whose entries
// are stored as they are. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::corpora {

struct Input {
  std::string name;
  std::vector<std::uint8_t> octets;
};

/// In their order. Nothing: the archive is of another kind, damaged or not whole.
[[nodiscard]] std::optional<std::vector<Input>> read_archive(std::span<const std::uint8_t> archive);

}  // namespace weft::corpora
