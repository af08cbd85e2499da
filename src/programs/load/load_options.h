#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace weft::programs::load {

/// What sessions of one process do with a unit.
struct LoadOptions {
  unsigned sessions{1};  ///< each an initiator of its own, all logged in to at once
  unsigned depth{32};    ///< commands under way, of each session
  std::uint32_t bytes{4096};
  unsigned seconds{5};
  bool writes{};
  bool is_sequential{};  ///< otherwise at random
  unsigned fast_fail_seconds{30};
  bool is_json{};
};

/// They outlive the parsing.
void add_load_options(CLI::App& command, LoadOptions& options);

}  // namespace weft::programs::load
