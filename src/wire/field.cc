#include "wire/field.h"

#include <cstring>

#include "base/assert.h"

namespace weft::wire {
namespace {

/// Loads and stores a native member of 1, 2, 4 or 8 bytes.
template <class Integer>
[[nodiscard]] std::uint64_t load_as(const std::byte* member) {
  Integer value{};
  copy_bytes(std::as_writable_bytes(std::span{&value, 1}), {member, sizeof value});
  return value;
}

[[nodiscard]] std::uint64_t load(const std::byte* member, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return load_as<std::uint8_t>(member);
    case 2:
      return load_as<std::uint16_t>(member);
    case 4:
      return load_as<std::uint32_t>(member);
    default:
      return load_as<std::uint64_t>(member);
  }
}

template <class Integer>
void store_as(std::byte* member, std::uint64_t number) {
  const auto value = static_cast<Integer>(number);
  copy_bytes({member, sizeof value}, bytes_of(value));
}

void store(std::byte* member, std::size_t bytes, std::uint64_t number) {
  switch (bytes) {
    case 1:
      return store_as<std::uint8_t>(member, number);
    case 2:
      return store_as<std::uint16_t>(member, number);
    case 4:
      return store_as<std::uint32_t>(member, number);
    default:
      return store_as<std::uint64_t>(member, number);
  }
}

void write_zeros(std::byte* buffer, const FieldDescriptor& field) {
  for (std::size_t at = field.first_bit(); at < field.end_bit(); ++at) {
    internal::write_bits(buffer, at, 1, 0);
  }
}

}  // namespace

void ib_pack(std::span<const FieldDescriptor> fields, const void* structure,
             MutableByteSpan buffer) {
  const auto* const members = static_cast<const std::byte*>(structure);
  for (const FieldDescriptor& field : fields) {
    WEFT_ASSERT(field.end_bit() <= buffer.size() * 8, "the field lies in the buffer");
    if (field.is_reserved()) {
      write_zeros(buffer.data(), field);
    } else if (field.is_octets()) {
      std::memcpy(&buffer[field.first_bit() / 8], members + field.struct_offset,
                  field.struct_bytes);
    } else {
      internal::write_bits(buffer.data(), field.first_bit(), static_cast<unsigned>(field.size_bits),
                           load(members + field.struct_offset, field.struct_bytes));
    }
  }
}

void ib_unpack(std::span<const FieldDescriptor> fields, ByteSpan buffer, void* structure) {
  auto* const members = static_cast<std::byte*>(structure);
  for (const FieldDescriptor& field : fields) {
    WEFT_ASSERT(field.end_bit() <= buffer.size() * 8, "the field lies in the buffer");
    if (field.is_reserved()) {
      continue;
    }
    if (field.is_octets()) {
      std::memcpy(members + field.struct_offset, &buffer[field.first_bit() / 8],
                  field.struct_bytes);
    } else {
      store(members + field.struct_offset, field.struct_bytes,
            internal::read_bits(buffer.data(), field.first_bit(),
                                static_cast<unsigned>(field.size_bits)));
    }
  }
}

}  // namespace weft::wire
