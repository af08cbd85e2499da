#pragma once

// Types of ERF records (Endace's Extensible Record Format) in captures, which `weft capture` writes
// and `weft decode` reads. Values.

#include <cstdint>

namespace weft::cli {

inline constexpr std::uint8_t kErfInfiniBand = 21;
/// Of Omni-Path's 16B packets, for which there is no type: policy, one that is not assigned. (Types
/// 28 and 29 are Omni-Path's of other formats.)
inline constexpr std::uint8_t kErfOmniPath16b = 125;

}  // namespace weft::cli
