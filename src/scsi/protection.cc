#include "scsi/protection.h"

#include "base/assert.h"

namespace weft::scsi {
namespace {

bool is_exempt(ProtectionType type, const ProtectionTuple& tuple) {
  return tuple.application_tag == wire::kNoCheckApplicationTag &&
         (type != ProtectionType::Type3 || tuple.reference_tag == wire::kNoCheckReferenceTag);
}

}  // namespace

ProtectionTuple load_tuple(ByteSpan octets) {
  return wire::unpack<ProtectionTuple>(octets.first<kTupleBytes>());
}

void store_tuple(MutableByteSpan octets, const ProtectionTuple& tuple) {
  wire::pack(tuple, octets.first<kTupleBytes>());
}

std::uint16_t guard_of(GuardKind kind, ByteSpan data) {
  return kind == GuardKind::Crc ? crc_t10_dif(data) : ip_checksum(data);
}

std::optional<ProtectionError> check_protection(const ProtectionCheck& check, ByteSpan data,
                                                ByteSpan tuples) {
  WEFT_ASSERT(data.size() / check.block_bytes == tuples.size() / kTupleBytes,
              "each block has its tuple");
  for (std::uint64_t block = 0; block < tuples.size() / kTupleBytes; ++block) {
    const ProtectionTuple tuple = load_tuple(tuples.subspan(block * kTupleBytes, kTupleBytes));
    if (is_exempt(check.type, tuple)) {
      continue;
    }
    const ByteSpan content = data.subspan(block * check.block_bytes, check.block_bytes);
    if (check.guard && tuple.guard != guard_of(check.guard_kind, content)) {
      return ProtectionError{.fault = ProtectionFault::Guard, .block = block};
    }
    if (check.application_tag &&
        ((tuple.application_tag ^ check.expected_application) & check.application_mask) != 0) {
      return ProtectionError{.fault = ProtectionFault::ApplicationTag, .block = block};
    }
    const auto expected = static_cast<std::uint32_t>(check.expected_reference + block);
    if (check.reference_tag && check.type != ProtectionType::Type3 &&
        tuple.reference_tag != expected) {
      return ProtectionError{.fault = ProtectionFault::ReferenceTag, .block = block};
    }
  }
  return std::nullopt;
}

void generate_protection(const ProtectionCheck& check, ByteSpan data, MutableByteSpan tuples) {
  for (std::uint64_t block = 0; block < tuples.size() / kTupleBytes; ++block) {
    const ByteSpan content = data.subspan(block * check.block_bytes, check.block_bytes);
    const auto reference = static_cast<std::uint32_t>(check.expected_reference + block);
    store_tuple(tuples.subspan(block * kTupleBytes, kTupleBytes),
                {.guard = guard_of(check.guard_kind, content),
                 .application_tag = check.expected_application,
                 .reference_tag =
                     check.type == ProtectionType::Type3 ? wire::kNoCheckReferenceTag : reference});
  }
}

void interleave_protection(std::uint32_t block_bytes, ByteSpan data, ByteSpan tuples,
                           MutableByteSpan out) {
  for (std::size_t block = 0; block < tuples.size() / kTupleBytes; ++block) {
    const MutableByteSpan to = out.subspan(block * (block_bytes + kTupleBytes));
    copy_bytes(to, data.subspan(block * block_bytes, block_bytes));
    copy_bytes(to.subspan(block_bytes), tuples.subspan(block * kTupleBytes, kTupleBytes));
  }
}

void separate_protection(std::uint32_t block_bytes, ByteSpan in, MutableByteSpan data,
                         MutableByteSpan tuples) {
  for (std::size_t block = 0; block < tuples.size() / kTupleBytes; ++block) {
    const ByteSpan from = in.subspan(block * (block_bytes + kTupleBytes));
    copy_bytes(data.subspan(block * block_bytes), from.first(block_bytes));
    copy_bytes(tuples.subspan(block * kTupleBytes), from.subspan(block_bytes, kTupleBytes));
  }
}

}  // namespace weft::scsi
