#include <rdma/ib_pack.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/bytes.h"
#include "kernel/host.h"
#include "wire/field.h"

namespace weft::kernel {
namespace {

[[nodiscard]] std::vector<wire::FieldDescriptor> descriptors_of(const ib_field* fields, int count) {
  std::vector<wire::FieldDescriptor> made;
  for (int i = 0; i < count; ++i) {
    const ib_field& field = fields[i];
    made.push_back({.struct_offset = field.struct_offset_bytes,
                    .struct_bytes = field.struct_size_bytes,
                    .offset_words = static_cast<std::size_t>(field.offset_words),
                    .offset_bits = static_cast<std::size_t>(field.offset_bits),
                    .size_bits = static_cast<std::size_t>(field.size_bits),
                    .name = field.field_name != nullptr ? field.field_name : ""});
  }
  return made;
}

/// Bytes of the message that fields reach.
[[nodiscard]] std::size_t bytes_of(const std::vector<wire::FieldDescriptor>& fields) {
  constexpr std::size_t kWordBits = 32;
  std::size_t words = 0;
  for (const wire::FieldDescriptor& field : fields) {
    words = std::max(words, (field.end_bit() + kWordBits - 1) / kWordBits);
  }
  return words * sizeof(std::uint32_t);
}

/// Fields that overlap or do not fit their members move nothing, and the log says so.
[[nodiscard]] bool check(const std::vector<wire::FieldDescriptor>& fields) {
  if (wire::is_sound(fields)) {
    return true;
  }
  static_cast<void>(refuse({ErrorCode::InvalidArgument,
                            "fields overlap, or do not fit their members; nothing is packed"}));
  return false;
}

}  // namespace
}  // namespace weft::kernel

void ib_pack(const ib_field* desc, int desc_len, void* structure, void* buf) {
  const auto fields = weft::kernel::descriptors_of(desc, desc_len);
  if (weft::kernel::check(fields)) {
    weft::wire::ib_pack(fields, structure,
                        {static_cast<std::byte*>(buf), weft::kernel::bytes_of(fields)});
  }
}

void ib_unpack(const ib_field* desc, int desc_len, void* buf, void* structure) {
  const auto fields = weft::kernel::descriptors_of(desc, desc_len);
  if (weft::kernel::check(fields)) {
    weft::wire::ib_unpack(
        fields, {static_cast<const std::byte*>(buf), weft::kernel::bytes_of(fields)}, structure);
  }
}
