#include "scsi/protection.h"

#include <array>

#include "base/assert.h"
#include "scsi/big_endian.h"

namespace weft::scsi {
namespace {

constexpr std::uint16_t kPolynomial = 0x8BB7;
constexpr std::uint16_t kNoCheckApplication = 0xFFFF;
constexpr std::uint32_t kNoCheckReference = 0xFFFF'FFFF;

constexpr auto kCrcTable = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned octet = 0; octet < table.size(); ++octet) {
    unsigned remainder = octet << 8;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder & 0x8000u) != 0 ? remainder << 1 ^ kPolynomial : remainder << 1;
    }
    table[octet] = static_cast<std::uint16_t>(remainder & 0xFFFFu);
  }
  return table;
}();

bool is_exempt(ProtectionType type, const ProtectionTuple& tuple) {
  return tuple.application_tag == kNoCheckApplication &&
         (type != ProtectionType::Type3 || tuple.reference_tag == kNoCheckReference);
}

}  // namespace

ProtectionTuple load_tuple(ByteSpan octets) {
  return {.guard = load16(octets, 0),
          .application_tag = load16(octets, 2),
          .reference_tag = load32(octets, 4)};
}

void store_tuple(MutableByteSpan octets, const ProtectionTuple& tuple) {
  store_number(octets, 0, 2, tuple.guard);
  store_number(octets, 2, 2, tuple.application_tag);
  store_number(octets, 4, 4, tuple.reference_tag);
}

std::uint16_t crc_t10_dif(ByteSpan data, std::uint16_t seed) {
  unsigned crc = seed;
  for (const std::byte octet : data) {
    const unsigned index = (crc >> 8 ^ std::to_integer<unsigned>(octet)) & 0xFFu;
    crc = (crc << 8 ^ kCrcTable[index]) & 0xFFFFu;
  }
  return static_cast<std::uint16_t>(crc);
}

std::uint16_t ip_checksum(ByteSpan data) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    sum += std::to_integer<std::uint64_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum & 0xFFFF);
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
    store_tuple(
        tuples.subspan(block * kTupleBytes, kTupleBytes),
        {.guard = guard_of(check.guard_kind, content),
         .application_tag = check.expected_application,
         .reference_tag = check.type == ProtectionType::Type3 ? kNoCheckReference : reference});
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
