#pragma once

// Objects of the API in C that were destroyed, in builds that check it (WEFT_CHECKED_OBJECTS): who
// uses one ends the program, which is told the object, the call, and who destroyed it. Elsewhere
// none of this costs anything. Any thread.

#include <cstdint>
#include <source_location>
#include <string>

namespace weft::kernel {

/// A call of the API, by the function of the source that a default argument stands in.
using Call = std::source_location;

#ifdef WEFT_CHECKED_OBJECTS
inline constexpr bool kChecksObjects = true;
#else
inline constexpr bool kChecksObjects = false;
#endif

/// Destroyed objects that are remembered; of older ones nothing is known.
inline constexpr unsigned kMostFreedObjects = 65'536;  // policy

namespace internal {
void note_made(const void* face);
void note_destroyed(const void* face, const char* kind, std::uint64_t number, const char* by);
[[nodiscard]] std::string name_of(const Call& call);
void check_alive(const void* face, const Call& call);
}  // namespace internal

/// An object is at this address from now on.
inline void note_made(const void* face) {
  if constexpr (kChecksObjects) {
    internal::note_made(face);
  }
}

/// Its user has destroyed it: before its memory may be another's. It is named by kind and number,
/// or by its address where it has no number (0).
inline void note_destroyed(const void* face, const char* kind, std::uint64_t number,
                           const Call& call = Call::current()) {
  if constexpr (kChecksObjects) {
    internal::note_destroyed(face, kind, number, internal::name_of(call).c_str());
  }
}
/// The same, by what is no call.
inline void note_destroyed(const void* face, const char* kind, std::uint64_t number,
                           const char* by) {
  if constexpr (kChecksObjects) {
    internal::note_destroyed(face, kind, number, by);
  }
}

/// Before anything of an object is read that a caller gives.
inline void require_alive(const void* face, const Call& call = Call::current()) {
  if constexpr (kChecksObjects) {
    internal::check_alive(face, call);
  }
}

}  // namespace weft::kernel
