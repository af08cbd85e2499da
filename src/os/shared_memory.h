#pragma once

// Memory that processes share: anonymous files, sealed so that nobody can shrink or grow them under
// another's mapping (docs/ARCHITECTURE.md, decision 11).

#include <cstddef>

#include "base/bytes.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::os {

/// A mapping of a whole anonymous file.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* address, std::size_t size) : address_(address), size_(size) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] MutableByteSpan bytes() const { return {address_, size_}; }
  [[nodiscard]] explicit operator bool() const { return address_ != nullptr; }
  /// It stays mapped; the place belongs to somebody else.
  void release() { address_ = nullptr; }

 private:
  std::byte* address_{};
  std::size_t size_{};
};

/// A new anonymous file of `size` zero bytes, sealed against shrinking and growing. `name` shows in
/// /proc/<pid>/maps.
[[nodiscard]] Result<UniqueFd> create_shared_memory(const char* name, std::size_t size);

/// The same, which forbid_new_writers() may seal further.
[[nodiscard]] Result<UniqueFd> create_sealable_memory(const char* name, std::size_t size);

/// From now on nobody writes the file, or maps it to be written; who has it mapped so keeps that.
/// Nor can anybody seal it further.
[[nodiscard]] Result<void> forbid_new_writers(const UniqueFd& file);

/// A new anonymous file holding `contents`, sealed against every change.
[[nodiscard]] Result<UniqueFd> publish_memory(const char* name, ByteSpan contents);

enum class Protection : bool { ReadOnly, ReadWrite };

/// Maps the whole file. Refuses one that is not sealed against shrinking and growing, or is not
/// between `least` and `most` bytes long. Not inherited by a child of fork().
[[nodiscard]] Result<Mapping> map_shared(const UniqueFd& file, Protection protection,
                                         std::size_t least, std::size_t most);

/// The same, and sealed against writing by anybody.
[[nodiscard]] Result<Mapping> map_published(const UniqueFd& file, std::size_t most);

/// A place of private zero pages, which cost nothing until they are written, for map_shared_at().
[[nodiscard]] Result<Mapping> reserve_memory(std::size_t size);

/// As map_shared(), readable and writable, in a reserved place and of just its size, instead of
/// what lies there; others may read there at the same time. Returns that place; for the thread
/// sanitizer (tsan_mapping.h) another, which stays for good.
[[nodiscard]] Result<MutableByteSpan> map_shared_at(MutableByteSpan place, const UniqueFd& file);

/// Zero pages again in a reserved place, which begins and ends with a page.
void clear_reserved(MutableByteSpan place);

}  // namespace weft::os
