#include "scsi/disk_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "scsi/big_endian.h"

namespace weft::scsi {
namespace {

constexpr std::size_t kUnmapHeaderBytes = 8;
constexpr std::size_t kUnmapDescriptorBytes = 16;

[[nodiscard]] Cdb cdb_of(std::uint8_t opcode, std::size_t bytes) {
  Cdb cdb(bytes);
  cdb.front() = std::byte{opcode};
  return cdb;
}

[[nodiscard]] Cdb block_cdb(std::uint8_t opcode, const DiskExtent& extent) {
  Cdb cdb = cdb_of(opcode, 16);
  store_number(cdb, 2, 8, extent.lba);
  store_number(cdb, 10, 4, extent.blocks);
  return cdb;
}

[[nodiscard]] std::string text_of(ByteSpan octets) {
  std::string text;
  for (const std::byte octet : octets) {
    const auto character = static_cast<char>(octet);
    text += character >= ' ' && character <= '~' ? character : '?';
  }
  const std::size_t end = text.find_last_not_of(' ');
  text.resize(end == text.npos ? 0 : end + 1);
  return text;
}

struct SenseWords {
  SenseKey key{};
  SenseCode code{};
};

/// Key and code of either format (SPC-4 §4.5.2, §4.5.3); zeroes if there are none.
[[nodiscard]] SenseWords parse_sense(ByteSpan sense) {
  constexpr std::uint8_t kFirstDescriptorFormat = 0x72;
  if (sense.empty()) {
    return {};
  }
  const bool has_descriptors = (load8(sense, 0) & 0x7F) >= kFirstDescriptorFormat;
  const std::size_t key_at = has_descriptors ? 1 : 2;
  const std::size_t code_at = has_descriptors ? 2 : 12;
  SenseWords made;
  if (sense.size() > key_at) {
    made.key = static_cast<SenseKey>(load8(sense, key_at) & 0x0F);
  }
  if (sense.size() >= code_at + 2) {
    made.code = static_cast<SenseCode>(load16(sense, code_at));
  }
  return made;
}

}  // namespace

Cdb test_unit_ready_cdb() { return cdb_of(0x00, 6); }

Cdb inquiry_cdb() {
  Cdb cdb = cdb_of(0x12, 6);
  store_number(cdb, 3, 2, kInquiryBytes);
  return cdb;
}

Cdb inquiry_cdb(VitalPage page) {
  Cdb cdb = inquiry_cdb();
  cdb[1] = std::byte{1};  // EVPD
  cdb[2] = std::byte{std::to_underlying(page)};
  return cdb;
}

Cdb read_capacity_cdb() {
  Cdb cdb = cdb_of(0x9E, 16);
  cdb[1] = std::byte{0x10};  // service action READ CAPACITY (16)
  store_number(cdb, 10, 4, kCapacityBytes);
  return cdb;
}

Cdb mode_sense_cdb() {
  Cdb cdb = cdb_of(0x5A, 10);
  cdb[1] = std::byte{0x08};  // DBD
  cdb[2] = std::byte{0x3F};
  store_number(cdb, 7, 2, kModeBytes);
  return cdb;
}

namespace {

// A CDB of 32 octets, which names the tags that Type 2 wants (SBC-3 §5.13, §5.44).
[[nodiscard]] Cdb long_cdb(std::uint16_t service_action, std::uint8_t flags,
                           const DiskExtent& extent, const TransferProtection& protection) {
  constexpr std::size_t kBytes = 32;
  Cdb cdb = cdb_of(0x7F, kBytes);
  store_number(cdb, 7, 1, kBytes - 8);  // the additional CDB length
  store_number(cdb, 8, 2, service_action);
  store_number(cdb, 10, 1, flags);
  store_number(cdb, 12, 8, extent.lba);
  store_number(cdb, 20, 4, extent.lba & 0xFFFF'FFFF);
  store_number(cdb, 24, 2, protection.application_tag.value_or(0));
  store_number(cdb, 26, 2, protection.application_tag ? 0xFFFF : 0);
  store_number(cdb, 28, 4, extent.blocks);
  return cdb;
}

// RDPROTECT and WRPROTECT 001b: tuples are transferred, and checked (SBC-3 Tables 78, 112).
constexpr std::uint8_t kTransfersAndChecks = 1 << 5;
constexpr std::uint8_t kForceUnitAccess = 0x08;

}  // namespace

Cdb read_cdb(const DiskExtent& extent, const TransferProtection& protection) {
  if (protection.type == ProtectionType::Type2) {
    return long_cdb(0x0009, kTransfersAndChecks, extent, protection);
  }
  Cdb cdb = block_cdb(0x88, extent);
  store_number(cdb, 1, 1, protection.type == ProtectionType::None ? 0 : kTransfersAndChecks);
  return cdb;
}

Cdb write_cdb(const DiskExtent& extent, bool force_unit_access,
              const TransferProtection& protection) {
  const auto flags = static_cast<std::uint8_t>(
      (protection.type == ProtectionType::None ? 0 : kTransfersAndChecks) |
      (force_unit_access ? kForceUnitAccess : 0));
  if (protection.type == ProtectionType::Type2) {
    return long_cdb(0x000B, flags, extent, protection);
  }
  Cdb cdb = block_cdb(0x8A, extent);
  store_number(cdb, 1, 1, flags);
  return cdb;
}

Cdb synchronize_cache_cdb() { return cdb_of(0x91, 16); }

Cdb unmap_cdb(std::size_t descriptors) {
  Cdb cdb = cdb_of(0x42, 10);
  store_number(cdb, 7, 2, kUnmapHeaderBytes + descriptors * kUnmapDescriptorBytes);
  return cdb;
}

std::vector<std::byte> unmap_parameters(std::span<const DiskExtent> extents) {
  std::vector<std::byte> list(kUnmapHeaderBytes + extents.size() * kUnmapDescriptorBytes);
  store_number(list, 0, 2, list.size() - 2);
  store_number(list, 2, 2, list.size() - kUnmapHeaderBytes);
  std::size_t at = kUnmapHeaderBytes;
  for (const DiskExtent& extent : extents) {
    store_number(list, at, 8, extent.lba);
    store_number(list, at + 8, 4, extent.blocks);
    at += kUnmapDescriptorBytes;
  }
  return list;
}

Cdb write_same_cdb(const DiskExtent& extent, bool unmap) {
  Cdb cdb = block_cdb(0x93, extent);
  cdb[1] = std::byte{static_cast<unsigned char>(unmap ? 0x08 : 0)};
  return cdb;
}

Result<void> take_inquiry(ByteSpan data, DiskProperties& properties) {
  constexpr std::size_t kNamesEnd = 32;
  if (data.size() < kNamesEnd) {
    return fail(ErrorCode::InvalidArgument, "INQUIRY was answered with {} octets", data.size());
  }
  // SPC-4 §6.6.2: qualifier 0, a unit is there; type 0, a disk.
  if (const std::uint8_t peripheral = load8(data, 0); peripheral != 0) {
    return fail(ErrorCode::InvalidArgument, "{}: peripheral qualifier {}, device type {}",
                peripheral >> 5 != 0 ? "there is no such logical unit" : "it is no disk",
                peripheral >> 5, peripheral & 0x1F);
  }
  properties.vendor = text_of(data.subspan(8, 8));
  properties.product = text_of(data.subspan(16, 16));
  return {};
}

Result<void> take_capacity(ByteSpan data, DiskProperties& properties) {
  if (data.size() < kCapacityBytes) {
    return fail(ErrorCode::InvalidArgument, "READ CAPACITY (16) was answered with {} octets",
                data.size());
  }
  const std::uint64_t last = load64(data, 0);
  const std::uint32_t block_bytes = load32(data, 8);
  constexpr std::uint32_t kMaxBlockBytes = 1 << 16;
  const bool fits = block_bytes >= 512 && block_bytes <= kMaxBlockBytes &&
                    (block_bytes & (block_bytes - 1)) == 0 &&
                    last < (std::uint64_t{1} << 62) / block_bytes;
  if (!fits) {
    return fail(ErrorCode::InvalidArgument, "a disk of {} blocks of {} octets is not supported",
                last, block_bytes);
  }
  properties.blocks = last + 1;
  properties.block_bytes = block_bytes;
  const std::uint8_t format = load8(data, 12);  // SBC-3 §5.16.2
  const unsigned type = (format >> 1 & 0x07) + 1U;
  const bool is_known = (format & 0x01) != 0 && type <= std::to_underlying(ProtectionType::Type3);
  properties.protection = is_known ? static_cast<ProtectionType>(type) : ProtectionType::None;
  properties.may_unmap = (load8(data, 14) & 0x80) != 0;
  properties.unmapped_are_zero = (load8(data, 14) & 0x40) != 0;
  return {};
}

Result<void> take_mode(ByteSpan data, DiskProperties& properties) {
  if (data.size() < 4) {
    return fail(ErrorCode::InvalidArgument, "MODE SENSE (10) was answered with {} octets",
                data.size());
  }
  const std::uint8_t specific = load8(data, 3);  // SBC-3 §6.5.1
  properties.write_protected = (specific & 0x80) != 0;
  properties.has_fua = (specific & 0x10) != 0;
  return {};
}

void take_page(VitalPage page, ByteSpan data, DiskProperties& properties) {
  if (data.size() < 4 || load8(data, 1) != std::to_underlying(page)) {
    return;
  }
  switch (page) {
    case VitalPage::BlockLimits:  // SBC-3 §6.6.3
      if (data.size() >= 12) {
        properties.max_transfer_blocks = load32(data, 8);
      }
      if (data.size() >= 24) {
        properties.max_unmap_blocks = load32(data, 20);
      }
      if (data.size() >= 44) {
        properties.max_write_same_blocks = load64(data, 36);
      }
      break;
    case VitalPage::LogicalBlockProvisioning:  // SBC-3 §6.6.4
      if (data.size() >= 6) {
        properties.has_unmap = (load8(data, 5) & 0x80) != 0;
        properties.has_write_same = (load8(data, 5) & 0x40) != 0;
      }
      break;
  }
}

Verdict judge(Status status, ByteSpan sense) {
  switch (status) {
    case Status::Good:
    case Status::ConditionMet:
      return Verdict::Done;
    case Status::Busy:
    case Status::TaskSetFull:
    case Status::AcaActive:
      return Verdict::AgainLater;
    case Status::TaskAborted:
      return Verdict::Again;
    case Status::ReservationConflict:
      return Verdict::Conflict;
    case Status::CheckCondition:
      break;
  }
  const SenseWords told = parse_sense(sense);
  switch (told.key) {
    case SenseKey::NoSense:
      return sense.empty() ? Verdict::Failed : Verdict::Done;
    case SenseKey::UnitAttention:
      return Verdict::Again;
    case SenseKey::AbortedCommand: {
      // Protection that does not match (10xxh) will not match the next time either.
      const bool is_protection = std::to_underlying(told.code) >> 8 == 0x10;
      return is_protection ? Verdict::Failed : Verdict::Again;
    }
    case SenseKey::NotReady: {
      const bool changes = told.code == SenseCode::TransitioningAccessState ||
                           std::to_underlying(told.code) == 0x0401;  // becoming ready
      return changes ? Verdict::AgainLater : Verdict::Failed;
    }
    case SenseKey::DataProtect:
      return told.code == SenseCode::SpaceAllocationFailed ? Verdict::NoSpace : Verdict::Protected;
    case SenseKey::IllegalRequest: {
      const bool is_unknown = told.code == SenseCode::InvalidCommandOperationCode ||
                              told.code == SenseCode::InvalidFieldInCdb;
      return is_unknown ? Verdict::Refused : Verdict::Failed;
    }
    default:
      return Verdict::Failed;
  }
}

std::string describe(Status status, ByteSpan sense) {
  if (status != Status::CheckCondition) {
    return fmt::format("status {:02x}h", std::to_underlying(status));
  }
  const SenseWords told = parse_sense(sense);
  const auto code = std::to_underlying(told.code);
  std::string_view words;  // of those that a user can do something about (SPC-4 Annex F)
  switch (told.code) {
    case SenseCode::GuardCheckFailed:
      words = ": LOGICAL BLOCK GUARD CHECK FAILED";
      break;
    case SenseCode::ApplicationTagCheckFailed:
      words = ": LOGICAL BLOCK APPLICATION TAG CHECK FAILED";
      break;
    case SenseCode::ReferenceTagCheckFailed:
      words = ": LOGICAL BLOCK REFERENCE TAG CHECK FAILED";
      break;
    default:
      break;
  }
  return fmt::format("CHECK CONDITION, sense key {:x}h, code {:04x}h{}",
                     std::to_underlying(told.key), code, words);
}

}  // namespace weft::scsi
