#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/random.h"
#include "base/result.h"

/// Wire formats, each described once: a structure lists its fields in wire order with their widths
/// in bits, from which the offsets follow. Packing, unpacking, printing, comparison and random
/// values are all derived from this list. Pure, compile-time.
namespace weft::wire {

/// A name of a field or structure, usable as a template argument.
template <std::size_t kLength>
struct Name {
  char text[kLength]{};
  consteval Name(const char (&literal)[kLength]) {
    std::copy_n(literal, kLength, text);
  }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] constexpr std::string_view view() const { return {text, kLength - 1}; }
};

namespace internal {

template <class Member>
struct MemberOf;
template <class Struct, class T>
struct MemberOf<T Struct::*> {
  using Type = T;
};

template <class T>
concept HasValue = requires(const T& strong) {
  typename T::value_type;
  strong.value();
};

template <class T>
concept HasBits = requires(const T& flags) {
  typename T::bits_type;
  flags.bits();
};

/// Converts numbers of any kind (integer, bool, enumeration, strong type, flags) to 64 bits and
/// back.
template <class T>
[[nodiscard]] constexpr std::uint64_t to_bits(const T& value) {
  if constexpr (HasBits<T>) {
    return static_cast<std::uint64_t>(value.bits());
  } else if constexpr (HasValue<T>) {
    return static_cast<std::uint64_t>(value.value());
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

template <class T>
[[nodiscard]] constexpr T from_bits(std::uint64_t bits) {
  if constexpr (HasBits<T>) {
    return T::from_bits(static_cast<typename T::bits_type>(bits));
  } else if constexpr (HasValue<T>) {
    return T{static_cast<typename T::value_type>(bits)};
  } else {
    return static_cast<T>(bits);
  }
}

[[nodiscard]] constexpr std::uint64_t mask_of(unsigned bits) {
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// Reads `width` (<= 64) bits at bit offset `at` in big-endian order; bit 0 is the most significant
/// bit of byte 0.
[[nodiscard]] constexpr std::uint64_t read_bits(const std::byte* bytes, std::size_t at,
                                                unsigned width) {
  const std::size_t last = (at + width - 1) / 8;
  // unused bits of the last octet
  const auto behind = static_cast<unsigned>(7 - (at + width - 1) % 8);
  std::uint64_t value = 0;
  for (std::size_t octet = at / 8; octet != last; ++octet) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[octet]);
  }
  const auto final_octet = std::to_integer<std::uint64_t>(bytes[last]);
  return (value << (8 - behind) | final_octet >> behind) & mask_of(width);
}

constexpr void write_bits(std::byte* bytes, std::size_t at, unsigned width, std::uint64_t value) {
  if (at % 8 == 0 && width % 8 == 0) {  // whole octets: the common case
    for (unsigned left = width; left != 0; left -= 8) {
      bytes[(at + width - left) / 8] = static_cast<std::byte>(value >> (left - 8));
    }
    return;
  }
  unsigned left = width;
  while (left != 0) {
    const auto in_byte = static_cast<unsigned>(at % 8);
    const unsigned take = std::min(left, 8 - in_byte);
    const unsigned shift = 8 - in_byte - take;
    const auto part = static_cast<std::uint8_t>((value >> (left - take) & mask_of(take)) << shift);
    const auto keep = static_cast<std::uint8_t>(~(mask_of(take) << shift));
    bytes[at / 8] =
        static_cast<std::byte>((std::to_integer<std::uint8_t>(bytes[at / 8]) & keep) | part);
    at += take;
    left -= take;
  }
}

template <unsigned kWidth>
concept Whole = kWidth == 8 || kWidth == 16 || kWidth == 32 || kWidth == 64;

/// The integer of so many bits.
template <unsigned kWidth>
using Word = std::conditional_t<
    kWidth == 8, std::uint8_t,
    std::conditional_t<kWidth == 16, std::uint16_t,
                       std::conditional_t<kWidth == 32, std::uint32_t, std::uint64_t>>>;

/// To and from the wire's order of octets.
template <std::integral T>
[[nodiscard]] constexpr T swap_octets(T value) {
  return std::endian::native == std::endian::big ? value : std::byteswap(value);
}

/// As read_bits and write_bits, whose loops cost a header of many fields more than all that is
/// done with it: a field that fills a machine word, as most do, is one load or store.
template <unsigned kWidth>
[[nodiscard]] constexpr std::uint64_t read_field(const std::byte* bytes, std::size_t at) {
  if constexpr (Whole<kWidth>) {
    if (at % 8 == 0) {
      std::array<std::byte, kWidth / 8> octets;
      std::copy_n(bytes + at / 8, octets.size(), octets.begin());
      return swap_octets(std::bit_cast<Word<kWidth>>(octets));
    }
  }
  return read_bits(bytes, at, kWidth);
}

template <unsigned kWidth>
constexpr void write_field(std::byte* bytes, std::size_t at, std::uint64_t value) {
  if constexpr (Whole<kWidth>) {
    if (at % 8 == 0) {
      const auto octets = std::bit_cast<std::array<std::byte, kWidth / 8>>(
          swap_octets(static_cast<Word<kWidth>>(value)));
      std::copy_n(octets.begin(), octets.size(), bytes + at / 8);
      return;
    }
  }
  write_bits(bytes, at, kWidth, value);
}

}  // namespace internal

/// A field that is a number of at most 64 bits.
template <Name kFieldName, unsigned kWidth, auto kMember>
struct Field {
  static_assert(kWidth >= 1 && kWidth <= 64, "wider fields are Octets or Nested");
  static constexpr std::size_t kBits = kWidth;
  static constexpr bool kNeedsWholeBytes = false;
  using Type = typename internal::MemberOf<decltype(kMember)>::Type;

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to, std::size_t at) {
    internal::write_field<kWidth>(to, at, internal::to_bits(from.*kMember));
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from, std::size_t at) {
    to.*kMember = internal::from_bits<Type>(internal::read_field<kWidth>(from, at));
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    visitor.number(kFieldName.view(), kWidth, internal::to_bits(from.*kMember));
  }
  template <class Struct, class Visitor>
  static void locate(const Struct& in, Visitor& visitor, std::size_t at) {
    visitor.number(kFieldName.view(), at, kWidth, std::as_bytes(std::span{&(in.*kMember), 1}));
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t at) {
    visitor(kFieldName.view(), at, kWidth);
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    to.*kMember = internal::from_bits<Type>(random() & internal::mask_of(kWidth));
  }
};

/// A reserved field: sent as zero, ignored on receipt.
template <unsigned kWidth>
struct Reserved {
  static constexpr std::size_t kBits = kWidth;
  static constexpr bool kNeedsWholeBytes = false;
  template <class Struct>
  static constexpr void pack(const Struct&, std::byte* to, std::size_t at) {
    for (unsigned done = 0; done < kWidth;) {
      const unsigned part = std::min(64U, kWidth - done);
      internal::write_bits(to, at + done, part, 0);
      done += part;
    }
  }
  template <class Struct>
  static constexpr void unpack(Struct&, const std::byte*, std::size_t) {}
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct&, Visitor&) {}
  template <class Struct, class Visitor>
  static void locate(const Struct&, Visitor& visitor, std::size_t at) {
    visitor.reserved(at, kWidth);
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t at) {
    visitor(std::string_view{}, at, kWidth);
  }
  template <class Struct>
  static constexpr void randomise(Struct&, Random&) {}
};

namespace internal {
template <class T>
concept OctetHolder = requires(const T& holder) { holder.octets(); };

template <class T>
[[nodiscard]] constexpr const auto& octets_of(const T& holder) {
  if constexpr (OctetHolder<T>) {
    return holder.octets();
  } else {
    return holder;
  }
}
}  // namespace internal

/// A field that is a byte string: a std::array<std::byte, n>, or a type such as Gid with `octets()`
/// and a constructor from such an array.
template <Name kFieldName, std::size_t kBytes, auto kMember>
struct Octets {
  static constexpr std::size_t kBits = kBytes * 8;
  static constexpr bool kNeedsWholeBytes = true;
  using Type = typename internal::MemberOf<decltype(kMember)>::Type;

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to, std::size_t at) {
    const auto& octets = internal::octets_of(from.*kMember);
    static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(octets)>> == kBytes);
    std::copy(octets.begin(), octets.end(), to + at / 8);
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from, std::size_t at) {
    std::array<std::byte, kBytes> octets{};
    std::copy_n(from + at / 8, kBytes, octets.begin());
    to.*kMember = Type{octets};
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    visitor.octets(kFieldName.view(),
                   std::span<const std::byte>{internal::octets_of(from.*kMember)});
  }
  template <class Struct, class Visitor>
  static void locate(const Struct& in, Visitor& visitor, std::size_t at) {
    visitor.octets(kFieldName.view(), at,
                   std::span<const std::byte>{internal::octets_of(in.*kMember)});
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t at) {
    visitor(kFieldName.view(), at, kBits);
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    std::array<std::byte, kBytes> octets{};
    for (std::byte& octet : octets) {
      octet = static_cast<std::byte>(random());
    }
    to.*kMember = Type{octets};
  }
};

/// A nested structure, byte-aligned. Visitors see its fields as if they were listed here.
template <auto kMember>
struct Nested {
  using Type = typename internal::MemberOf<decltype(kMember)>::Type;
  using Inner = typename Type::Wire;
  static constexpr std::size_t kBits = Inner::kSize * 8;
  static constexpr bool kNeedsWholeBytes = true;

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to, std::size_t at) {
    Inner::pack(from.*kMember, to + at / 8);
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from, std::size_t at) {
    Inner::unpack(to.*kMember, from + at / 8);
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    Inner::visit(from.*kMember, visitor);
  }
  template <class Struct, class Visitor>
  static void locate(const Struct& in, Visitor& visitor, std::size_t at) {
    Inner::locate(in.*kMember, visitor, at);
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t at) {
    Inner::describe(visitor, at);
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    Inner::randomise(to.*kMember, random);
  }
};

/// The list of a structure's fields. Widths must add up to `kBytesOnWire` bytes; byte strings and
/// nested structures must be byte-aligned (T-PACK-3).
template <std::size_t kBytesOnWire, class... Fields>
struct Layout {
  static constexpr std::size_t kSize = kBytesOnWire;

  [[nodiscard]] static constexpr bool tiles() {
    return (Fields::kBits + ... + 0) == kBytesOnWire * 8;
  }
  [[nodiscard]] static constexpr bool is_aligned() {
    std::size_t at = 0;
    bool aligned = true;
    ((aligned = aligned && (!Fields::kNeedsWholeBytes || at % 8 == 0), at += Fields::kBits), ...);
    return aligned;
  }

  template <class Struct>
  static constexpr void pack(const Struct& from, std::byte* to) {
    static_assert(tiles(), "fields must tile the header exactly");
    static_assert(is_aligned(), "byte strings and structures must start at a byte");
    std::size_t at = 0;
    ((Fields::pack(from, to, at), at += Fields::kBits), ...);
  }
  template <class Struct>
  static constexpr void unpack(Struct& to, const std::byte* from) {
    static_assert(tiles(), "fields must tile the header exactly");
    std::size_t at = 0;
    ((Fields::unpack(to, from, at), at += Fields::kBits), ...);
  }
  template <class Struct, class Visitor>
  static constexpr void visit(const Struct& from, Visitor& visitor) {
    (Fields::visit(from, visitor), ...);
  }
  template <class Struct, class Visitor>
  static void locate(const Struct& in, Visitor& visitor, std::size_t start = 0) {
    std::size_t at = start;
    ((Fields::locate(in, visitor, at), at += Fields::kBits), ...);
  }
  template <class Visitor>
  static constexpr void describe(Visitor& visitor, std::size_t start = 0) {
    std::size_t at = start;
    ((Fields::describe(visitor, at), at += Fields::kBits), ...);
  }
  template <class Struct>
  static constexpr void randomise(Struct& to, Random& random) {
    (Fields::randomise(to, random), ...);
  }
};

template <class T>
concept WireType = requires { typename T::Wire; };

template <WireType T>
inline constexpr std::size_t kSizeOf = T::Wire::kSize;

template <WireType T>
constexpr void pack(const T& value, std::span<std::byte, kSizeOf<T>> out) {
  T::Wire::pack(value, out.data());
}

template <WireType T>
[[nodiscard]] constexpr std::array<std::byte, kSizeOf<T>> pack(const T& value) {
  std::array<std::byte, kSizeOf<T>> out{};
  T::Wire::pack(value, out.data());
  return out;
}

template <WireType T>
[[nodiscard]] constexpr T unpack(std::span<const std::byte, kSizeOf<T>> in) {
  T value{};
  T::Wire::unpack(value, in.data());
  return value;
}

/// Unpacks from bytes of any length: fails if there are too few, ignores excess ones.
template <WireType T>
[[nodiscard]] Result<T> parse(std::span<const std::byte> in) {
  if (in.size() < kSizeOf<T>) {
    return fail(ErrorCode::Io, "{} needs {} bytes, {} are left", T::kName, kSizeOf<T>, in.size());
  }
  return unpack<T>(in.first<kSizeOf<T>>());
}

/// Calls visitor.number(name, bits, value) or visitor.octets(name, bytes) for each named field in
/// wire order.
template <WireType T, class Visitor>
constexpr void visit(const T& value, Visitor&& visitor) {
  T::Wire::visit(value, visitor);
}

/// Reports the position of each field in wire order, including reserved ones: visitor.number(name,
/// bit offset, bits, member), visitor.octets(name, bit offset, member) or visitor.reserved(bit
/// offset, bits). `member` is the storage inside `value`.
template <WireType T, class Visitor>
void locate(const T& value, Visitor&& visitor) {
  T::Wire::locate(value, visitor);
}

/// Calls visitor(name, bit offset, bits) for each field in wire order, with array elements as
/// separate fields and empty names for reserved ones. Usable at compile time.
template <WireType T, class Visitor>
constexpr void describe(Visitor&& visitor) {
  T::Wire::describe(visitor);
}

/// A value with random contents in every field.
template <WireType T>
[[nodiscard]] constexpr T arbitrary(Random& random) {
  T value{};
  T::Wire::randomise(value, random);
  return value;
}

}  // namespace weft::wire
