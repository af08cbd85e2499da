#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "wire/layout.h"

/// The equivalent of ib_pack and ib_unpack in the kernel: copies fields between a native structure
/// and big-endian bytes according to an array of descriptors (R-PACK-1, R-PACK-2), for structures
/// known at run time only. Structures with a Layout use pack() and unpack(), which the compiler can
/// optimize; their descriptors are generated from the Layout.
namespace weft::wire {

/// Equivalent of struct ib_field. Words have 32 bits; bits are counted from the most significant
/// one of a word.
struct FieldDescriptor {
  std::size_t struct_offset{};  ///< offset in the native structure, in bytes
  std::size_t struct_bytes{};   ///< of the member: 1, 2, 4 or 8, or any for a byte string; 0 when
                                ///< the field is reserved
  std::size_t offset_words{};
  std::size_t offset_bits{};  ///< 0..31
  std::size_t size_bits{};    ///< more than 64: a byte string
  std::string_view name;
  bool is_short_octets{};  ///< a byte string of 64 bits or fewer, such as a MAC address

  [[nodiscard]] constexpr std::size_t first_bit() const { return offset_words * 32 + offset_bits; }
  [[nodiscard]] constexpr std::size_t end_bit() const { return first_bit() + size_bits; }
  [[nodiscard]] constexpr bool is_reserved() const { return struct_bytes == 0; }
  [[nodiscard]] constexpr bool is_octets() const { return is_short_octets || size_bits > 64; }
};

/// True if the descriptors are consistent: no two overlap, byte strings are byte-aligned and as
/// long as their members, numbers fit their members. For static_assert (T-PACK-3).
[[nodiscard]] constexpr bool is_sound(std::span<const FieldDescriptor> fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const FieldDescriptor& field = fields[i];
    const bool is_number_size = field.struct_bytes == 1 || field.struct_bytes == 2 ||
                                field.struct_bytes == 4 || field.struct_bytes == 8;
    const bool fits = field.is_octets()
                          ? field.first_bit() % 8 == 0 && field.size_bits == field.struct_bytes * 8
                          : is_number_size && field.size_bits <= field.struct_bytes * 8;
    if (field.size_bits == 0 || field.offset_bits >= 32 || (!field.is_reserved() && !fits)) {
      return false;
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (field.first_bit() < fields[other].end_bit() &&
          fields[other].first_bit() < field.end_bit()) {
        return false;
      }
    }
  }
  return true;
}

/// Packs the fields of `structure`. Reserved fields become zero; bits outside all fields are
/// unchanged. `fields` must be consistent, `buffer` large enough, and `structure` of the described
/// type.
void ib_pack(std::span<const FieldDescriptor> fields, const void* structure,
             MutableByteSpan buffer);

/// Unpacks the fields into `structure`, except reserved ones.
void ib_unpack(std::span<const FieldDescriptor> fields, ByteSpan buffer, void* structure);

/// The descriptors of a structure with a Layout.
template <WireType T>
[[nodiscard]] std::vector<FieldDescriptor> descriptors_of() {
  static_assert(std::is_trivially_copyable_v<T>);
  struct Collector {
    const std::byte* start;
    std::vector<FieldDescriptor> fields;

    void add(std::string_view name, std::size_t at, std::size_t bits, ByteSpan member,
             bool is_short_octets) {
      fields.push_back(
          {.struct_offset = static_cast<std::size_t>(member.empty() ? 0 : member.data() - start),
           .struct_bytes = member.size(),
           .offset_words = at / 32,
           .offset_bits = at % 32,
           .size_bits = bits,
           .name = name,
           .is_short_octets = is_short_octets});
    }
    void number(std::string_view name, std::size_t at, unsigned bits, ByteSpan member) {
      add(name, at, bits, member, false);
    }
    void octets(std::string_view name, std::size_t at, ByteSpan member) {
      add(name, at, member.size() * 8, member, member.size() <= 8);
    }
    void reserved(std::size_t at, unsigned bits) { add("reserved", at, bits, {}, false); }
  };
  const T value{};
  Collector collector{bytes_of(value).data(), {}};
  locate(value, collector);
  return std::move(collector.fields);
}

}  // namespace weft::wire
