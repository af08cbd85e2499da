#include "verbs_driver/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace weft::verbs_driver {

Result<Arena> Arena::reserve(std::size_t bytes) {
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == 0 || at == MAP_FAILED) {
    return fail(ErrorCode::OutOfMemory, "no room for an arena of {} bytes", bytes);
  }
  return Arena{
      {static_cast<std::byte*>(at), whole}
  };
}

Arena::Arena(Arena&& other) noexcept
    : all_(std::exchange(other.all_, {})), pieces_(std::move(other.pieces_)) {}

Arena::~Arena() {
  if (!all_.empty()) {
    munmap(all_.data(), all_.size());
  }
}

bool Arena::contains(std::uint64_t address, std::uint64_t length) const {
  const auto begin = std::bit_cast<std::uint64_t>(all_.data());
  return address >= begin && length <= all_.size() && address - begin <= all_.size() - length;
}

Result<MutableByteSpan> Arena::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > all_.size()) {
    return fail(ErrorCode::OutOfMemory, "{} bytes of an arena of {}", bytes, all_.size());
  }
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::size_t offset = 0;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [at, length] : pieces_) {  // the first gap that is large enough
      if (at - offset >= whole) {
        break;
      }
      offset = at + length;
    }
    if (all_.size() - offset < whole) {
      return fail(ErrorCode::OutOfMemory, "no {} bytes in a row are left of the arena's {}", whole,
                  all_.size());
    }
    pieces_.emplace(offset, whole);
  }
  const MutableByteSpan piece = all_.subspan(offset, whole);
  std::ranges::fill(piece, std::byte{});
  return piece.first(bytes);
}

void Arena::free(MutableByteSpan piece) {
  const std::lock_guard lock{mutex_};
  const auto found = pieces_.find(static_cast<std::size_t>(piece.data() - all_.data()));
  WEFT_ASSERT(found != pieces_.end(), "a piece is given back to the arena that it is of, once");
  pieces_.erase(found);
}

std::size_t Arena::taken_bytes() const {
  const std::lock_guard lock{mutex_};
  std::size_t taken = 0;
  for (const auto& [at, length] : pieces_) {
    taken += length;
  }
  return taken;
}

}  // namespace weft::verbs_driver
