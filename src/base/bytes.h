#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace weft {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

/// Bytes as the object representation of a trivially copyable value (for rings and tests, never for
/// wire formats).
template <class T>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] ByteSpan bytes_of(const T& value) {
  return std::as_bytes(std::span{&value, 1});
}

/// memcpy for spans; the destination must hold the source. An empty source is fine whatever its
/// pointer.
inline void copy_bytes(MutableByteSpan to, ByteSpan from) {
  if (!from.empty()) {
    std::memcpy(to.data(), from.data(), from.size());
  }
}

}  // namespace weft
