#pragma once

// The C library's heap, for programs whose memory devices go on reaching after it was freed.

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace weft::os {

/// All threads have one heap, those that begin after the call. For programs that may come to call
/// keep_freed_memory_mapped().
void use_one_heap();

/// From now on memory that is freed stays mapped where it is, for what is allocated next: glibc
/// neither maps large pieces by themselves nor gives any back. After use_one_heap(). NotSupported:
/// another allocator is in its place (a sanitizer's, or one that is preloaded), of which this
/// cannot be had.
[[nodiscard]] Result<void> keep_freed_memory_mapped();

struct AddressRange {
  std::uint64_t begin{};
  std::uint64_t end{};
};
/// Of the heap as the kernel has it now ("[heap]" of /proc/self/maps); none: there is none.
[[nodiscard]] std::optional<AddressRange> heap_range();

/// Whether all of a piece lies in it. Takes no system call once there is a heap; any thread.
[[nodiscard]] bool is_in_heap(std::uint64_t address, std::uint64_t length);

}  // namespace weft::os
