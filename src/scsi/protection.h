#pragma once

// Protection information, T10-PI (SBC-3 §4.22): a tuple of 8 octets beside each logical block.
// Value types and pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "wire/protection_tuple.h"

namespace weft::scsi {

using wire::crc_t10_dif;
using wire::ip_checksum;
using wire::ProtectionTuple;

inline constexpr std::size_t kTupleBytes = wire::kSizeOf<ProtectionTuple>;

/// How a medium is formatted; which tags mean what.
enum class ProtectionType : std::uint8_t { None, Type1, Type2, Type3 };

/// How guards are computed: CRC on media and wires, the checksum of IP between hosts and adapters
/// that have no instruction for the former.
enum class GuardKind : std::uint8_t { Crc, IpChecksum };

[[nodiscard]] ProtectionTuple load_tuple(ByteSpan octets);
void store_tuple(MutableByteSpan octets, const ProtectionTuple& tuple);

[[nodiscard]] std::uint16_t guard_of(GuardKind kind, ByteSpan data);

/// What tuples of consecutive blocks have to be.
struct ProtectionCheck {
  ProtectionType type{ProtectionType::Type1};
  GuardKind guard_kind{GuardKind::Crc};
  std::uint32_t block_bytes{512};
  bool guard{true};
  bool application_tag{};    ///< compare the bits of `application_mask`
  bool reference_tag{true};  ///< never compared with Type 3
  std::uint16_t expected_application{};
  std::uint16_t application_mask{0xFFFF};
  std::uint32_t expected_reference{};  ///< of the first block; each next one has 1 more
  bool operator==(const ProtectionCheck&) const = default;
};

/// How a READ or WRITE command protects its blocks: what a transport's adapter has to know that
/// makes, checks and takes off their tuples in the disk's place (SBC-3 §4.22).
struct BlockProtection {
  bool writes{};
  std::uint64_t lba{};
  std::uint64_t blocks{};
  bool transfers_tuples{};  ///< between initiator and target, each behind its block
  ProtectionCheck check{};
  bool operator==(const BlockProtection&) const = default;

  [[nodiscard]] std::uint64_t block_bytes() const { return blocks * check.block_bytes; }
  [[nodiscard]] std::uint64_t tuple_bytes() const { return blocks * kTupleBytes; }
  [[nodiscard]] std::uint64_t transfer_bytes() const {
    return block_bytes() + (transfers_tuples ? tuple_bytes() : 0);
  }
};

enum class ProtectionFault : std::uint8_t { Guard, ApplicationTag, ReferenceTag };

struct ProtectionError {
  ProtectionFault fault{};
  std::uint64_t block{};  ///< counted from the first
  bool operator==(const ProtectionError&) const = default;
};

/// The first error of data and tuples, which lie apart. Tuples whose tags say so are not checked:
/// FFFFh of Types 1 and 2, all ones of Type 3 (SBC-3 §4.22.2).
[[nodiscard]] std::optional<ProtectionError> check_protection(const ProtectionCheck& check,
                                                              ByteSpan data, ByteSpan tuples);

/// Fills the tuples of `data` as a device does that received none.
void generate_protection(const ProtectionCheck& check, ByteSpan data, MutableByteSpan tuples);

/// Blocks with their tuples behind each, as transferred, from or into two buffers.
void interleave_protection(std::uint32_t block_bytes, ByteSpan data, ByteSpan tuples,
                           MutableByteSpan out);
void separate_protection(std::uint32_t block_bytes, ByteSpan in, MutableByteSpan data,
                         MutableByteSpan tuples);

}  // namespace weft::scsi
