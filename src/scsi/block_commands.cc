// Commands that read and write blocks (SBC-3 §5).

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "scsi/command_table.h"

namespace weft::scsi {
namespace {

// RDPROTECT, WRPROTECT, VRPROTECT and the like (SBC-3 Tables 78, 112): 0 to 5 are defined.
struct ProtectField {
  bool transfers;
  bool guard;
  bool application_tag;
  bool reference_tag;
};
constexpr auto kProtectFields = std::to_array<ProtectField>({
    {false, true,  true,  true },
    {true,  true,  true,  true },
    {true,  false, true,  true },
    {true,  false, false, false},
    {true,  true,  false, false},
    {true,  true,  true,  true },
});

// What the CDBs of all lengths have in common.
struct BlockFields {
  std::uint64_t lba{};
  std::uint64_t blocks{};
  std::uint8_t flags{};  // octet 1, or 10 of a CDB of 32 octets
  std::uint16_t flags_octet{1};
  bool has_tags{};  // 32 octets: the expected tags follow
  std::uint32_t reference_tag{};
  std::uint16_t application_tag{};
  std::uint16_t application_mask{};
  [[nodiscard]] std::uint8_t protect() const { return flags >> 5; }
  [[nodiscard]] bool force_unit_access() const { return (flags & 0x08) != 0; }
};

BlockFields parse(ByteSpan cdb) {
  switch (cdb.size()) {
    case 6: {
      const std::uint64_t blocks = load8(cdb, 4);
      return {.lba = load_number(cdb, 1, 3) & 0x1F'FFFF, .blocks = blocks == 0 ? 256 : blocks};
    }
    case 10:
      return {.lba = load32(cdb, 2), .blocks = load16(cdb, 7), .flags = load8(cdb, 1)};
    case 12:
      return {.lba = load32(cdb, 2), .blocks = load32(cdb, 6), .flags = load8(cdb, 1)};
    case 16:
      return {.lba = load64(cdb, 2), .blocks = load32(cdb, 10), .flags = load8(cdb, 1)};
    default:
      return {.lba = load64(cdb, 12),
              .blocks = load32(cdb, 28),
              .flags = load8(cdb, 10),
              .flags_octet = 10,
              .has_tags = true,
              .reference_tag = load32(cdb, 20),
              .application_tag = load16(cdb, 24),
              .application_mask = load16(cdb, 26)};
  }
}

Outcome<void> check_range(const UnitState& unit, const BlockFields& fields) {
  const std::uint64_t blocks = unit.device->geometry().blocks;
  if (fields.lba > blocks || fields.blocks > blocks - fields.lba) {
    return illegal_request(SenseCode::LbaOutOfRange);
  }
  return {};
}

Outcome<void> check_writable(const UnitState& unit) {
  if (unit.is_write_protected()) {
    return check_condition({.key = SenseKey::DataProtect, .code = SenseCode::WriteProtected});
  }
  return {};
}

// SBC-3 §4.22.2: which tags are compared, and with what.
Outcome<void> set_protection(const UnitState& unit, const BlockFields& fields,
                             MediaCommand& media) {
  const ProtectionType type = unit.options.protection;
  if (fields.protect() >= kProtectFields.size() ||
      (type == ProtectionType::None && fields.protect() != 0)) {
    return invalid_field_in_cdb(fields.flags_octet, 7);
  }
  // Type 2: tags come with CDBs of 32 octets, which no other type has (SBC-3 Table 34).
  const bool is_type_2 = type == ProtectionType::Type2;
  if (fields.has_tags ? !is_type_2 : is_type_2 && fields.protect() != 0) {
    return illegal_request(SenseCode::InvalidCommandOperationCode);
  }
  const ProtectField& field = kProtectFields[fields.protect()];
  media.transfers_tuples = field.transfers;
  media.check_medium = true;
  media.check = {
      .type = type,
      .block_bytes = unit.device->geometry().block_bytes,
      .guard = field.guard,
      .application_tag = field.application_tag && fields.has_tags,
      .reference_tag = field.reference_tag && (type != ProtectionType::Type2 || fields.has_tags),
      .expected_application = fields.application_tag,
      .application_mask = fields.application_mask,
      .expected_reference =
          fields.has_tags ? fields.reference_tag : static_cast<std::uint32_t>(fields.lba)};
  return {};
}

struct MediaNeeds {
  bool writes{};
  bool limits_transfer{true};  // by MAXIMUM TRANSFER LENGTH
};

// What every command of blocks begins with.
Outcome<MediaCommand> begin(CommandContext& context, MediaKind kind, const BlockFields& fields,
                            const MediaNeeds& needs) {
  MediaCommand media{.kind = kind, .lba = fields.lba, .blocks = fields.blocks};
  if (const auto outcome = set_protection(context.unit, fields, media); !outcome) {
    return std::unexpected(outcome.error());
  }
  if (const auto outcome = check_range(context.unit, fields); !outcome) {
    return std::unexpected(outcome.error());
  }
  const BlockGeometry geometry = context.unit.device->geometry();
  // A copy manager's blocks pass no transport.
  if (needs.limits_transfer &&
      fields.blocks > context.unit.options.max_transfer_bytes / geometry.block_bytes &&
      !context.unit.nexuses.at(context.nexus_id).is_copy_managers) {
    return invalid_field_in_cdb(static_cast<std::uint16_t>(context.cdb.size() - 3), 7);
  }
  if (needs.writes) {
    if (const auto outcome = check_writable(context.unit); !outcome) {
      return std::unexpected(outcome.error());
    }
    // Without a write cache (WCE 0) every write is durable when it ends (SBC-3 §6.4.5).
    media.force_unit_access =
        fields.force_unit_access() ||
        (geometry.has_write_cache && !context.unit.pages.values().write_cache);
  }
  return media;
}

// Of commands whose data-out is small and says much: a longer one is another than the CDB means.
Outcome<ByteSpan> exact_parameters(CommandContext& context, std::size_t length) {
  if (context.data_out.size() > length) {
    return invalid_field_in_cdb(static_cast<std::uint16_t>(context.cdb.size() - 3), 7);
  }
  return context.parameters(length);
}

// Data-out of as many blocks; then the command goes to the device.
Outcome<void> run(CommandContext& context, MediaCommand media, std::uint64_t blocks_out) {
  const std::size_t wanted = blocks_out * media.transfer_block_bytes();
  const bool may_be_short =
      media.kind == MediaKind::Write || media.kind == MediaKind::WriteAndVerify;
  if (context.stores_short_data && may_be_short && context.data_out.size() < wanted) {
    media.blocks = context.data_out.size() / media.transfer_block_bytes();
    context.wanted_bytes = wanted;
    context.media = std::move(media);
    return {};
  }
  const auto data = context.parameters(wanted);
  if (!data) {
    return std::unexpected(data.error());
  }
  context.media = std::move(media);
  return {};
}

BlockProtection protection_of(const MediaCommand& media) {
  return {.writes = media.kind == MediaKind::Write,
          .lba = media.lba,
          .blocks = media.blocks,
          .transfers_tuples = media.transfers_tuples,
          .check = media.check};
}

// The transport has moved blocks and tuples by what protection_of() said when the command came. If
// it says something else now, as after a FORMAT UNIT before it, the command is to come again.
Outcome<void> take_apart(const CommandContext& context, MediaCommand& media) {
  if (context.apart == nullptr) {
    return {};
  }
  if (protection_of(media) != context.apart->how) {
    return end_with(Status::Busy);
  }
  media.has_tuples_apart = true;
  media.transfers_tuples = false;
  media.fault = context.apart->fault;
  return {};
}

}  // namespace

std::optional<BlockProtection> protection_of(const UnitState& unit, const CommandRow& row,
                                             ByteSpan cdb) {
  const bool reads = row.handler == read_blocks;
  if (unit.options.protection == ProtectionType::None || (!reads && row.handler != write_blocks)) {
    return std::nullopt;
  }
  const BlockFields fields = parse(cdb);
  MediaCommand media{.kind = reads ? MediaKind::Read : MediaKind::Write,
                     .lba = fields.lba,
                     .blocks = fields.blocks};
  if (!set_protection(unit, fields, media)) {
    return std::nullopt;
  }
  return protection_of(media);
}

Outcome<void> read_blocks(CommandContext& context) {
  const BlockFields fields = parse(context.cdb);
  auto media = begin(context, MediaKind::Read, fields, {});
  if (!media) {
    return std::unexpected(media.error());
  }
  if (const auto outcome = take_apart(context, *media); !outcome) {
    return outcome;
  }
  context.wanted_bytes = fields.blocks * media->transfer_block_bytes();
  context.media = *std::move(media);
  return {};
}

Outcome<void> write_blocks(CommandContext& context) {
  const BlockFields fields = parse(context.cdb);
  auto media = begin(context, MediaKind::Write, fields, {.writes = true});
  if (!media) {
    return std::unexpected(media.error());
  }
  if (const auto outcome = take_apart(context, *media); !outcome) {
    return outcome;
  }
  return run(context, *std::move(media), fields.blocks);
}

Outcome<void> write_and_verify(CommandContext& context) {
  const BlockFields fields = parse(context.cdb);
  const unsigned byte_check = fields.flags >> 1 & 3u;
  if (byte_check > 1) {
    return invalid_field_in_cdb(fields.flags_octet, 2);
  }
  // What was just written is compared in any case; that is more than BYTCHK 00b asks for.
  auto media = begin(context, MediaKind::WriteAndVerify, fields, {.writes = true});
  if (!media) {
    return std::unexpected(media.error());
  }
  media->force_unit_access = true;
  return run(context, *std::move(media), fields.blocks);
}

Outcome<void> verify(CommandContext& context) {
  const BlockFields fields = parse(context.cdb);
  constexpr std::array kKinds{MediaKind::VerifyMedium, MediaKind::VerifyData,
                              MediaKind::VerifyMedium, MediaKind::VerifyPattern};
  const unsigned byte_check = fields.flags >> 1 & 3u;
  const bool pattern = byte_check == 3;
  if (byte_check == 2 || (pattern && fields.protect() != 0)) {
    return invalid_field_in_cdb(fields.flags_octet, 2);
  }
  auto media = begin(context, kKinds[byte_check], fields, {.limits_transfer = byte_check == 1});
  if (!media) {
    return std::unexpected(media.error());
  }
  if (byte_check == 0) {
    context.media = *std::move(media);
    return {};
  }
  return run(context, *std::move(media),
             pattern ? std::min<std::uint64_t>(1, fields.blocks) : fields.blocks);
}

Outcome<void> compare_and_write(CommandContext& context) {  // SBC-3 §5.2
  BlockFields fields = parse(context.cdb);
  fields.blocks = load8(context.cdb, 13);
  auto media = begin(context, MediaKind::CompareAndWrite, fields, {.writes = true});
  if (!media) {
    return std::unexpected(media.error());
  }
  if (const auto data =
          exact_parameters(context, 2 * fields.blocks * media->transfer_block_bytes());
      !data) {
    return std::unexpected(data.error());
  }
  context.media = *std::move(media);
  return {};
}

Outcome<void> or_write(CommandContext& context) {  // SBC-3 §5.7
  const BlockFields fields = parse(context.cdb);
  auto media = begin(context, MediaKind::OrWrite, fields, {.writes = true});
  return media ? run(context, *std::move(media), fields.blocks) : std::unexpected(media.error());
}

Outcome<void> write_atomic(CommandContext& context) {  // SBC-4, WRITE ATOMIC (16)
  BlockFields fields = parse(context.cdb);
  fields.blocks = load16(context.cdb, 12);
  const std::uint32_t most = context.unit.device->geometry().atomic_blocks;
  if (most == 0) {
    return illegal_request(SenseCode::InvalidCommandOperationCode);
  }
  if (load16(context.cdb, 10) != 0) {
    return invalid_field_in_cdb(10, 7);  // ATOMIC BOUNDARY: MAXIMUM ATOMIC BOUNDARY SIZE is 0
  }
  auto media = begin(context, MediaKind::Write, fields, {.writes = true});
  if (!media) {
    return std::unexpected(media.error());
  }
  if (fields.blocks > most) {
    return invalid_field_in_cdb(12, 7);
  }
  if (const auto data = context.parameters(fields.blocks * media->transfer_block_bytes()); !data) {
    return std::unexpected(data.error());
  }
  context.media = *std::move(media);
  return {};
}

// SBC-3 §5.9: there is no cache that could have room, so GOOD, and not CONDITION MET.
Outcome<void> prefetch(CommandContext& context) {
  return check_range(context.unit, parse(context.cdb));
}

Outcome<void> write_same(CommandContext& context) {  // SBC-3 §5.50 to §5.52
  BlockFields fields = parse(context.cdb);
  const bool unmaps = (fields.flags & 0x08) != 0;
  const bool no_data = context.cdb.size() > 10 && (fields.flags & 0x01) != 0;  // NDOB
  if (const auto outcome = check_writable(context.unit); !outcome) {
    return outcome;  // before what a read-only disk cannot do either, as UNMAP
  }
  if ((fields.flags & 0x10) != 0) {
    return invalid_field_in_cdb(fields.flags_octet, 4);  // ANCHOR: ANC_SUP is 0
  }
  const BlockGeometry geometry = context.unit.device->geometry();
  if (unmaps && !geometry.can_discard) {
    return invalid_field_in_cdb(fields.flags_octet, 3);
  }
  fields.flags &= 0xE0;  // here bit 3 is no FUA
  if (const auto outcome = check_range(context.unit, fields); !outcome) {
    return outcome;
  }
  if (fields.blocks == 0) {
    fields.blocks = geometry.blocks - fields.lba;  // WSNZ is 0: up to the end
  }
  auto media =
      begin(context, MediaKind::WritePattern, fields, {.writes = true, .limits_transfer = false});
  if (!media) {
    return std::unexpected(media.error());
  }
  media->may_unmap = unmaps;
  const auto data = exact_parameters(context, no_data ? 0 : media->transfer_block_bytes());
  if (!data) {
    return std::unexpected(data.error());
  }
  const bool zeroes =
      std::ranges::all_of(data->first(std::min<std::size_t>(data->size(), geometry.block_bytes)),
                          [](std::byte octet) { return octet == std::byte{0}; });
  // Zeroes with tuples to keep are written like any pattern, unless UNMAP or NDOB drop those.
  if (no_data || (zeroes && (unmaps || media->check.type == ProtectionType::None))) {
    media->kind = MediaKind::WriteZeroes;
  }
  context.media = *std::move(media);
  return {};
}

Outcome<void> unmap(CommandContext& context) {  // SBC-3 §5.36
  constexpr std::size_t kHeader = 8;
  constexpr std::size_t kDescriptor = 16;
  constexpr std::size_t kMaxDescriptors = 256;  // as VPD page B0h says
  const BlockGeometry geometry = context.unit.device->geometry();
  if (!geometry.can_discard) {
    return illegal_request(SenseCode::InvalidCommandOperationCode);
  }
  if ((load8(context.cdb, 1) & 0x01) != 0) {
    return invalid_field_in_cdb(1, 0);  // ANCHOR
  }
  const std::size_t length = load16(context.cdb, 7);
  const auto list = context.parameters(length);
  if (!list) {
    return std::unexpected(list.error());
  }
  if (const auto outcome = check_writable(context.unit); !outcome) {
    return outcome;
  }
  if (length == 0) {
    return {};
  }
  if (length < kHeader) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  const std::size_t bytes = std::min<std::size_t>(load16(*list, 2), length - kHeader);
  MediaCommand media{.kind = MediaKind::Unmap};
  media.check.type = ProtectionType::None;
  if (bytes / kDescriptor > kMaxDescriptors) {
    return invalid_field_in_parameters(2);
  }
  for (std::size_t at = kHeader; at + kDescriptor <= kHeader + bytes; at += kDescriptor) {
    const BlockRange extent{
        .lba = load64(*list, at), .blocks = load32(*list, at + 8), .writes = true};
    if (extent.lba > geometry.blocks || extent.blocks > geometry.blocks - extent.lba) {
      return illegal_request(SenseCode::LbaOutOfRange);
    }
    if (extent.blocks != 0) {
      media.extents.push_back(extent);
    }
  }
  if (!media.extents.empty()) {
    context.media = std::move(media);
  }
  return {};
}

Outcome<void> synchronize_cache(CommandContext& context) {  // SBC-3 §5.29
  if (const auto outcome = check_range(context.unit, parse(context.cdb)); !outcome) {
    return outcome;
  }
  // All of the cache, whichever blocks were named; with IMMED, too: GOOD then comes late, not
  // early.
  context.media = MediaCommand{.kind = MediaKind::Flush};
  return {};
}

// SBC-3 §5.3: no defect lists; the protection type changes, and all blocks become zeroes.
Outcome<void> format_unit(CommandContext& context) {
  const std::uint8_t flags = load8(context.cdb, 1);
  const bool has_list = (flags & 0x10) != 0;
  const bool long_list = (flags & 0x20) != 0;
  if ((flags & 0x0F) != 0) {
    return invalid_field_in_cdb(1, 3);  // CMPLST, DEFECT LIST FORMAT
  }
  if (const auto outcome = check_writable(context.unit); !outcome) {
    return outcome;
  }
  const auto list = context.parameters(!has_list ? 0 : long_list ? 8 : 4);
  if (!list) {
    return std::unexpected(list.error());
  }
  const std::uint8_t usage = has_list ? load8(*list, 0) & 0x07 : 0;
  if (has_list && load_number(*list, long_list ? 4 : 2, long_list ? 4 : 2) != 0) {
    return invalid_field_in_parameters(long_list ? 4 : 2);
  }
  // FMTPINFO and PROTECTION FIELD USAGE (SBC-3 Table 40).
  ProtectionType type{};
  switch ((flags >> 6) << 4 | usage) {
    case 0x00:
      type = ProtectionType::None;
      break;
    case 0x20:
      type = ProtectionType::Type1;
      break;
    case 0x30:
      type = ProtectionType::Type2;
      break;
    case 0x31:
      type = ProtectionType::Type3;
      break;
    default:
      return usage != 0 ? invalid_field_in_parameters(0) : invalid_field_in_cdb(1, 7);
  }
  const BlockGeometry geometry = context.unit.device->geometry();
  if (type != ProtectionType::None && !geometry.keeps_protection) {
    return invalid_field_in_cdb(1, 7);
  }
  // Commands that were parsed before keep their blocks until they end; later ones wait for these.
  context.unit.options.protection = type;
  MediaCommand media{.kind = MediaKind::WriteZeroes, .blocks = geometry.blocks};
  media.check.type = type;
  media.check.block_bytes = geometry.block_bytes;
  media.may_unmap = geometry.can_discard;
  context.media = std::move(media);
  return {};
}

}  // namespace weft::scsi
