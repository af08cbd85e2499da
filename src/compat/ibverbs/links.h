#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::compat {

/// A function of the C library, and ours that stands in for it.
struct Replacement {
  std::string_view name;
  std::uintptr_t function{};
};

/// Some programs ask the system itself what only we can answer, by functions that lie before ours
/// in their search order. The module around `address` has its links to those functions led to ours,
/// also where the loader bound them at the start and made them read-only. Other modules keep
/// theirs. Any thread; doing it again changes nothing.
void lead_links_of(const void* address, std::span<const Replacement> replacements);

}  // namespace weft::compat
