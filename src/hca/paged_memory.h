#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::hca {

class SignedMemory;

/// Memory in pieces, in the order in which a region shows them. Neighbours become one piece, so
/// that what happens to be contiguous is.
class PagedMemory {
 public:
  void add(std::span<std::byte> memory) {
    if (memory.empty()) {
      return;
    }
    if (!pieces_.empty() && std::to_address(pieces_.back().memory.end()) == memory.data()) {
      std::span<std::byte>& last = pieces_.back().memory;
      last = {last.data(), last.size() + memory.size()};
    } else {
      pieces_.push_back({.offset = length_, .memory = memory});
    }
    length_ += memory.size();
  }

  /// An integrity region's: it has no pieces of its own but shows what that makes of others.
  void show(SignedMemory& memory) { signed_memory_ = &memory; }
  /// Null for all others.
  [[nodiscard]] SignedMemory* signed_memory() const { return signed_memory_; }

  [[nodiscard]] std::uint64_t length() const { return length_; }
  [[nodiscard]] std::size_t piece_count() const { return pieces_.size(); }

  /// The bytes from `offset` on that lie in one piece, at most `length`.
  [[nodiscard]] std::span<std::byte> first_of(std::uint64_t offset, std::uint64_t length) const {
    const auto after = std::ranges::upper_bound(pieces_, offset, {}, &Piece::offset);
    const Piece& piece = *(after - 1);
    const std::uint64_t skip = offset - piece.offset;
    return piece.memory.subspan(skip, std::min<std::uint64_t>(length, piece.memory.size() - skip));
  }

  /// Calls `visit(span)` for each piece of [offset, offset + length), which is inside.
  template <class Visit>
  void visit(std::uint64_t offset, std::uint64_t length, Visit visit) const {
    while (length != 0) {
      const std::span<std::byte> piece = first_of(offset, length);
      visit(piece);
      offset += piece.size();
      length -= piece.size();
    }
  }

 private:
  struct Piece {
    std::uint64_t offset{};
    std::span<std::byte> memory;
  };
  std::vector<Piece> pieces_;
  std::uint64_t length_{};
  SignedMemory* signed_memory_{};
};

}  // namespace weft::hca
