#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace weft {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

/// Total size of several pieces.
[[nodiscard]] inline std::size_t total_bytes(std::span<const ByteSpan> pieces) {
  std::size_t bytes = 0;
  for (const ByteSpan piece : pieces) {
    bytes += piece.size();
  }
  return bytes;
}

/// The object representation of a trivially copyable value, for rings and tests; never for wire
/// formats.
template <class T>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] ByteSpan bytes_of(const T& value) {
  return std::as_bytes(std::span{&value, 1});
}

/// memcpy optimized for small counts unknown at compile time: one or two moves up to 32 bytes,
/// without a call.
[[gnu::always_inline]] inline void copy_few(std::byte* to, const std::byte* from,
                                            std::size_t count) {
  const auto ends = [&]<class Word>(Word) {  // copies head and tail, which may overlap
    Word head;
    Word tail;
    std::memcpy(&head, from, sizeof head);
    std::memcpy(&tail, from + count - sizeof tail, sizeof tail);
    std::memcpy(to, &head, sizeof head);
    std::memcpy(to + count - sizeof tail, &tail, sizeof tail);
  };
  struct Pair {
    std::uint64_t low;
    std::uint64_t high;
  };
  if (count > 2 * sizeof(Pair)) {
    std::memcpy(to, from, count);
  } else if (count >= sizeof(Pair)) {
    ends(Pair{});
  } else if (count >= sizeof(std::uint64_t)) {
    ends(std::uint64_t{});
  } else if (count >= sizeof(std::uint32_t)) {
    ends(std::uint32_t{});
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = from[i];
    }
  }
}

/// memcpy for spans. `to` must be at least as long as `from`; an empty source may have a null
/// pointer.
inline void copy_bytes(MutableByteSpan to, ByteSpan from) {
  copy_few(to.data(), from.data(), from.size());
}

}  // namespace weft
