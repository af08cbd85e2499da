#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/layout.h"

/// Array fields of a Layout. A visitor sees each element as a separate field. If it has a member
/// `element(index)`, this is called before each element, and `no_element()` after the last one.
namespace weft::wire {

namespace internal {

template <class Visitor>
concept WantsElements = requires(Visitor& visitor) {
  visitor.element(std::size_t{});
  visitor.no_element();
};

template <class Visitor, class Visit>
constexpr void for_each_element(Visitor& visitor, std::size_t count, Visit visit) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (WantsElements<Visitor>) {
      visitor.element(i);
    }
    visit(i);
  }
  if constexpr (WantsElements<Visitor>) {
    visitor.no_element();
  }
}

}  // namespace internal

/// A std::array of numbers of at most 64 bits each.
template <Name kFieldName, unsigned kWidth, std::size_t kCount, auto kMember>
struct Numbers {
  static_assert(kWidth >= 1 && kWidth <= 64);
  static constexpr std::size_t kBits = kWidth * kCount;
  static constexpr bool kNeedsWholeBytes = false;
  using Type = typename internal::MemberOf<decltype(kMember)>::Type::value_type;

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to, std::size_t at) {
    static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(from.*kMember)>> == kCount);
    for (const Type& element : from.*kMember) {
      internal::write_bits(to, at, kWidth, internal::to_bits(element));
      at += kWidth;
    }
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from, std::size_t at) {
    for (Type& element : to.*kMember) {
      element = internal::from_bits<Type>(internal::read_bits(from, at, kWidth));
      at += kWidth;
    }
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    internal::for_each_element(visitor, kCount, [&](std::size_t i) {
      visitor.number(kFieldName.view(), kWidth, internal::to_bits((from.*kMember)[i]));
    });
  }
  template <class Struct, class Visitor>
  static void locate(const Struct& in, Visitor& visitor, std::size_t at) {
    internal::for_each_element(visitor, kCount, [&](std::size_t i) {
      visitor.number(kFieldName.view(), at + i * kWidth, kWidth,
                     std::as_bytes(std::span{&(in.*kMember)[i], 1}));
    });
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t at) {
    for (std::size_t i = 0; i < kCount; ++i) {
      visitor(kFieldName.view(), at + i * kWidth, kWidth);
    }
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    for (Type& element : to.*kMember) {
      element = internal::from_bits<Type>(random() & internal::mask_of(kWidth));
    }
  }
};

/// A std::array of structures that have layouts, byte-aligned.
template <std::size_t kCount, auto kMember>
struct Structures {
  using Type = typename internal::MemberOf<decltype(kMember)>::Type::value_type;
  using Inner = typename Type::Wire;
  static constexpr std::size_t kBits = Inner::kSize * 8 * kCount;
  static constexpr bool kNeedsWholeBytes = true;

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to, std::size_t at) {
    static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(from.*kMember)>> == kCount);
    for (const Type& element : from.*kMember) {
      Inner::pack(element, to + at / 8);
      at += Inner::kSize * 8;
    }
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from, std::size_t at) {
    for (Type& element : to.*kMember) {
      Inner::unpack(element, from + at / 8);
      at += Inner::kSize * 8;
    }
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    internal::for_each_element(visitor, kCount,
                               [&](std::size_t i) { Inner::visit((from.*kMember)[i], visitor); });
  }
  template <class Struct, class Visitor>
  static void locate(const Struct& in, Visitor& visitor, std::size_t at) {
    internal::for_each_element(visitor, kCount, [&](std::size_t i) {
      Inner::locate((in.*kMember)[i], visitor, at + i * Inner::kSize * 8);
    });
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t at) {
    for (std::size_t i = 0; i < kCount; ++i) {
      Inner::describe(visitor, at + i * Inner::kSize * 8);
    }
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    for (Type& element : to.*kMember) {
      Inner::randomise(element, random);
    }
  }
};

}  // namespace weft::wire
