#pragma once

// Memory that several processes have mapped: how they tell each other which it is
// (docs/ARCHITECTURE.md, decision 10). Reads /proc/self/maps; any thread.

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>

namespace weft::os {

/// A place in a file that is mapped with MAP_SHARED, as the kernel names it to all processes:
/// anonymous shared memory has such a name as well.
struct SharedBacking {
  std::uint64_t device{};
  std::uint64_t inode{};
  std::uint64_t offset{};
  bool operator==(const SharedBacking&) const = default;
};

/// Nothing: part of the range is private, or nowhere.
[[nodiscard]] std::optional<SharedBacking> shared_backing_of(std::span<const std::byte> range);

/// Whether that is worth asking, by a quicker look at the first page, which becomes present.
[[nodiscard]] bool may_be_shared(std::span<const std::byte> range);

/// Where `length` bytes of it are mapped here; null: nowhere, or only to be read.
[[nodiscard]] std::byte* find_mapping(const SharedBacking& backing, std::uint64_t length,
                                      bool for_writing);

/// Whether all of it is a file's that a later program can open: what is written back there outlives
/// this one. Shared memory without a name, and of a file that was deleted, is none.
[[nodiscard]] bool is_file_mapping(std::span<const std::byte> range);

/// The same, of any list of mappings in the kernel's form; for tests.
[[nodiscard]] std::optional<SharedBacking> shared_backing_in(std::istream& maps,
                                                             std::uint64_t address,
                                                             std::uint64_t length);
[[nodiscard]] bool is_file_mapping_in(std::istream& maps, std::uint64_t address,
                                      std::uint64_t length);
[[nodiscard]] std::uint64_t find_mapping_in(std::istream& maps, const SharedBacking& backing,
                                            std::uint64_t length, bool for_writing);

}  // namespace weft::os
