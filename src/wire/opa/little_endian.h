#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "wire/layout.h"

/// What Omni-Path's 16B header needs beyond a Layout: 32-bit words that are little-endian, and
/// numbers whose bits lie in two places. Compile-time only.
namespace weft::wire {

/// `kWidth` bits of a number, from its bit `kShift` on; other Parts of the structure have the rest.
template <Name kFieldName, unsigned kWidth, unsigned kShift, auto kMember>
struct Part {
  static constexpr std::size_t kBits = kWidth;
  static constexpr bool kNeedsWholeBytes = false;
  static constexpr std::uint64_t kMask = internal::mask_of(kWidth) << kShift;
  using Type = typename internal::MemberOf<decltype(kMember)>::Type;

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to, std::size_t at) {
    internal::write_bits(to, at, kWidth, internal::to_bits(from.*kMember) >> kShift);
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from, std::size_t at) {
    set(to, internal::read_bits(from, at, kWidth) << kShift);
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    visitor.number(kFieldName.view(), kWidth, (internal::to_bits(from.*kMember) & kMask) >> kShift);
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    set(to, (random() << kShift) & kMask);
  }

 private:
  template <class Struct>
  static constexpr void set(Struct& to, std::uint64_t bits) {
    to.*kMember =
        internal::from_bits<Type>((internal::to_bits(to.*kMember) & ~kMask) | (bits & kMask));
  }
};

/// A layout whose 32-bit words are little-endian. Fields are listed word by word, from bit 31 down
/// to bit 0. A field has no bit offset in the sense of a Layout, as its octets are not consecutive,
/// so there is no `locate`.
template <std::size_t kBytesOnWire, class... Fields>
struct LittleEndianWords {
  using BigEndian = Layout<kBytesOnWire, Fields...>;
  static constexpr std::size_t kSize = kBytesOnWire;
  static_assert(kSize % 4 == 0);

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to) {
    BigEndian::pack(from, to);
    swap_words(to);
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from) {
    std::array<std::byte, kSize> words{};
    std::copy_n(from, kSize, words.begin());
    swap_words(words.data());
    BigEndian::unpack(to, words.data());
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    BigEndian::visit(from, visitor);
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    BigEndian::randomise(to, random);
  }

 private:
  static constexpr void swap_words(std::byte* words) {
    for (std::size_t at = 0; at < kSize; at += 4) {
      std::swap(words[at], words[at + 3]);
      std::swap(words[at + 1], words[at + 2]);
    }
  }
};

}  // namespace weft::wire
