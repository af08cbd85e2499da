#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::compat {

/// A function of the C library and its replacement.
struct Replacement {
  std::string_view name;
  std::uintptr_t function{};
};

/// Redirects links of the module around `address`: some programs ask the operating system what only
/// this library can answer, through functions that precede ours in the symbol search order. The
/// module's links to those functions are redirected, even if the loader bound them at startup and
/// made them read-only. Other modules are unaffected. Any thread; idempotent.
void lead_links_of(const void* address, std::span<const Replacement> replacements);

}  // namespace weft::compat
