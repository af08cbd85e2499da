// EXTENDED COPY (LID1) and what tells of it (SPC-4 §5.17, §6.4, §6.24). Copy targets are the unit
// that the command was sent to, and others of its target.

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "scsi/command_table.h"
#include "scsi/copy_targets.h"
#include "scsi/logical_unit.h"
#include "scsi/third_party_copy.h"

namespace weft::scsi {
namespace {

constexpr std::size_t kListHeaderBytes = 16;
constexpr std::size_t kTargetBytes = 32;
constexpr std::size_t kSegmentBytes = 28;
constexpr std::uint32_t kMaxListsInProgress = 255;  // one for each list identifier of a nexus

std::unexpected<Failure> copy_aborted(SenseCode code) {
  return check_condition({.key = SenseKey::CopyAborted, .code = code});
}

std::uint64_t max_segment_bytes(const UnitState& unit) {
  return std::uint64_t{std::numeric_limits<std::uint16_t>::max()} *
         unit.device->geometry().block_bytes;
}

/// The parameter list (SPC-4 Table 103), its lengths checked.
struct CopyList {
  std::uint8_t identifier{};
  std::uint8_t usage{};
  ByteSpan targets;
  ByteSpan segments;
};

Outcome<CopyList> parse_list(ByteSpan list) {
  if (list.size() < kListHeaderBytes) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  const std::size_t targets = load16(list, 2);
  const std::size_t segments = load32(list, 8);
  const std::size_t room = list.size() - kListHeaderBytes;
  const bool fits = targets <= room && segments <= room - targets;
  if (!fits || targets + segments > kMaxCopyListBytes) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  if (load32(list, 12) != 0) {
    return invalid_field_in_parameters(12);  // MAXIMUM INLINE DATA LENGTH is 0
  }
  const CopyList parsed{.identifier = load8(list, 0),
                        .usage = static_cast<std::uint8_t>(load8(list, 1) >> 3 & 3u),
                        .targets = list.subspan(kListHeaderBytes, targets),
                        .segments = list.subspan(kListHeaderBytes + targets, segments)};
  // 11b: no result is kept, and there is no identifier; 01b is reserved (SPC-4 Table 105).
  if (parsed.usage == 1 || (parsed.usage == 3 && parsed.identifier != 0)) {
    return invalid_field_in_parameters(parsed.usage == 1 ? 1 : 0);
  }
  return parsed;
}

/// What a target descriptor names.
struct Reached {
  std::shared_ptr<LogicalUnit> unit;  // null: this one alone is known
  bool is_own{};
  BlockGeometry geometry{};
};

// SPC-4 §6.4.4.2. Designators are those of INQUIRY's page 83h.
Outcome<Reached> reach(const UnitState& unit, ByteSpan target) {
  constexpr std::size_t kRoom = 20;
  if ((load8(target, 1) & 0x1F) != 0) {
    return copy_aborted(SenseCode::IncorrectCopyTargetDeviceType);
  }
  const std::size_t length = load8(target, 7);
  const CopyDesignator designator{
      .code_set = static_cast<std::uint8_t>(load8(target, 4) & 0x0F),
      .association = static_cast<std::uint8_t>(load8(target, 5) >> 4 & 3u),
      .kind = static_cast<std::uint8_t>(load8(target, 5) & 0x0F),
      .octets = target.subspan(8, std::min(length, kRoom))};
  Reached reached;
  reached.is_own = length <= kRoom && designator.names(unit.options);
  if (unit.directory != nullptr && length <= kRoom) {
    reached.unit = unit.directory->find(designator);
  }
  if (!reached.is_own && reached.unit == nullptr) {
    return copy_aborted(SenseCode::CopyTargetDeviceNotReachable);
  }
  reached.geometry = reached.is_own ? unit.device->geometry() : reached.unit->geometry();
  if (load_number(target, 29, 3) != reached.geometry.block_bytes) {
    return invalid_field_in_parameters(kListHeaderBytes + 29);  // DISK BLOCK LENGTH
  }
  return reached;
}

Outcome<std::vector<Reached>> reach_targets(const UnitState& unit, ByteSpan targets) {
  std::vector<Reached> all;
  for (std::size_t at = 0; at < targets.size(); at += kTargetBytes) {
    if (all.size() == kMaxCopyTargets) {
      return illegal_request(SenseCode::TooManyTargetDescriptors);
    }
    if (load8(targets, at) != kIdentification) {
      return illegal_request(SenseCode::UnsupportedTargetDescriptorTypeCode);
    }
    if (targets.size() - at < kTargetBytes) {
      return invalid_field_in_parameters(2);
    }
    auto reached = reach(unit, targets.subspan(at, kTargetBytes));
    if (!reached) {
      return std::unexpected(reached.error());
    }
    // Between blocks of two sizes nothing is copied.
    if (!all.empty() && all.front().geometry.block_bytes != reached->geometry.block_bytes) {
      return invalid_field_in_parameters(kListHeaderBytes + at + 29);
    }
    all.push_back(*std::move(reached));
  }
  return all;
}

bool is_within(std::uint64_t first, std::uint64_t blocks, const Reached& target) {
  const std::uint64_t all = target.geometry.blocks;
  return first <= all && blocks <= all - first;
}

// Copies of no blocks are left out.
Outcome<std::vector<CopySegment>> parse_segments(const CopyList& list,
                                                 std::span<const Reached> targets) {
  std::vector<CopySegment> segments;
  std::size_t count = 0;
  bool unreachable = false;
  bool beyond = false;
  for (std::size_t at = 0; at < list.segments.size(); at += kSegmentBytes, ++count) {
    if (count == kMaxCopySegments) {
      return illegal_request(SenseCode::TooManySegmentDescriptors);
    }
    if (load8(list.segments, at) != kBlockToBlock) {
      return illegal_request(SenseCode::UnsupportedSegmentDescriptorTypeCode);
    }
    const std::size_t offset = kListHeaderBytes + list.targets.size() + at;
    if (list.segments.size() - at < kSegmentBytes ||
        load16(list.segments, at + 2) != kSegmentBytes - 4) {
      return invalid_field_in_parameters(offset + 2);
    }
    const ByteSpan octets = list.segments.subspan(at, kSegmentBytes);
    const CopySegment segment{.source = load64(octets, 12),
                              .destination = load64(octets, 20),
                              .blocks = load16(octets, 10),
                              .source_target = load16(octets, 4),
                              .destination_target = load16(octets, 6)};
    if (std::max(segment.source_target, segment.destination_target) >= targets.size()) {
      unreachable = true;
      continue;
    }
    beyond = beyond || !is_within(segment.source, segment.blocks, targets[segment.source_target]) ||
             !is_within(segment.destination, segment.blocks, targets[segment.destination_target]);
    if (segment.blocks != 0) {
      segments.push_back(segment);
    }
  }
  if (unreachable) {
    return copy_aborted(SenseCode::UnreachableCopyTarget);
  }
  if (beyond) {  // before anything is copied
    return copy_aborted(SenseCode::None);
  }
  return segments;
}

MediaCommand copy_within(const UnitState& unit, std::vector<CopySegment> segments) {
  MediaCommand media{.kind = MediaKind::Copy};
  const BlockGeometry geometry = unit.device->geometry();
  media.check = {.type = unit.options.protection,
                 .block_bytes = geometry.block_bytes,
                 .reference_tag = unit.options.protection == ProtectionType::Type1};
  media.check_medium = true;
  media.force_unit_access = geometry.has_write_cache && !unit.pages.values().write_cache;
  media.segments = std::move(segments);
  return media;
}

MediaCommand copy_between(const UnitState& unit, const NexusName& initiator,
                          std::span<const Reached> targets, std::vector<CopySegment> segments) {
  MediaCommand media{.kind = MediaKind::Copy};
  media.check.block_bytes = targets[segments.front().source_target].geometry.block_bytes;
  for (const Reached& target : targets) {
    media.copy_targets.push_back(
        std::make_shared<CopyTarget>(target.unit, unit.directory->next_nexus(), initiator));
  }
  media.segments = std::move(segments);
  return media;
}

// Within a unit its blocks are locked while all is copied, and tuples go along.
Outcome<MediaCommand> copy_of(const CommandContext& context, std::span<const Reached> targets,
                              std::vector<CopySegment> segments) {
  const auto is_own = [&](std::size_t target) { return targets[target].is_own; };
  bool writes_own = false;
  bool stays = true;
  std::uint64_t blocks = 0;
  for (const CopySegment& segment : segments) {
    const bool ends_here = is_own(segment.destination_target);
    writes_own = writes_own || ends_here;
    stays = stays && ends_here && is_own(segment.source_target);
    blocks += segment.blocks;
  }
  if (writes_own && context.unit.is_write_protected()) {
    return check_condition({.key = SenseKey::DataProtect, .code = SenseCode::WriteProtected});
  }
  const bool is_gone =
      std::ranges::any_of(targets, [](const Reached& target) { return target.unit == nullptr; });
  if (!stays && is_gone) {  // this unit is being removed
    return copy_aborted(SenseCode::CopyTargetDeviceNotReachable);
  }
  MediaCommand media =
      stays ? copy_within(context.unit, std::move(segments))
            : copy_between(context.unit, context.nexus, targets, std::move(segments));
  media.blocks = blocks;
  return media;
}

ParameterData copy_status(const CopyResult& result) {  // SPC-4 Table 237
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  ParameterData data;
  data.add(4, 8).add(1, std::to_underlying(result.status)).add(2, result.segments);
  data.add(1, 1).add(4, std::min(result.bytes_copied / 1024, kMost));  // in KiB
  return data;
}

ParameterData operating_parameters(const UnitState& unit) {  // SPC-4 Table 241
  ParameterData data(44);
  data.set(8, 2, kMaxCopyTargets).set(10, 2, kMaxCopySegments).set(12, 4, kMaxCopyListBytes);
  data.set(16, 4, max_segment_bytes(unit));
  data.set(34, 2, unit.options.max_tasks).set(36, 1, kMaxListsInProgress);
  data.set(37, 1, unit.device->geometry().block_bytes == 512 ? 9 : 12);
  data.set(43, 1, 2).add(1, kBlockToBlock).add(1, kIdentification);
  return data.set(0, 4, data.size() - 4);
}

void add_descriptor(ParameterData& data, std::uint16_t type, ParameterData content) {
  content.add_zeroes((4 - content.size() % 4) % 4);
  data.add(2, type).add(2, content.size()).add(content.octets());
}

}  // namespace

ParameterData third_party_copy(const CommandContext& context) {
  ParameterData data;
  ParameterData commands;  // each with its service actions
  commands.add(1, 7).add(1, 0x83).add(1, 1).add(1, 0x00);
  commands.add(1, 0x84).add(1, 2).add(1, 0x00).add(1, 0x03);
  add_descriptor(data, 0x0001, commands);
  ParameterData limits(28);
  limits.set(4, 2, kMaxCopyTargets).set(6, 2, kMaxCopySegments).set(8, 4, kMaxCopyListBytes);
  add_descriptor(data, 0x0004, limits);
  add_descriptor(data, 0x0008,
                 ParameterData{}.add(1, 2).add(1, kBlockToBlock).add(1, kIdentification));
  ParameterData general(32);
  general.set(0, 4, context.unit.options.max_tasks).set(4, 4, kMaxListsInProgress);
  general.set(8, 4, max_segment_bytes(context.unit));
  general.set(12, 1, context.unit.device->geometry().block_bytes == 512 ? 9 : 12);
  add_descriptor(data, 0x8001, general);
  return data;
}

Outcome<void> extended_copy(CommandContext& context) {
  const std::size_t length = load32(context.cdb, 10);
  const auto parameters = context.parameters(length);
  if (!parameters) {
    return std::unexpected(parameters.error());
  }
  if (length == 0) {
    return {};  // SPC-4 §6.4.1: nothing to copy, and no error
  }
  const auto list = parse_list(*parameters);
  if (!list) {
    return std::unexpected(list.error());
  }
  auto& copies = context.unit.nexuses.at(context.nexus_id).memory->copies;
  const auto former = copies.find(list->identifier);
  if (list->usage != 3 && former != copies.end() &&
      former->second.status == CopyResult::Status::InProgress) {
    return illegal_request(SenseCode::OperationInProgress);
  }
  const auto targets = reach_targets(context.unit, list->targets);
  if (!targets) {
    return std::unexpected(targets.error());
  }
  auto segments = parse_segments(*list, *targets);
  if (!segments) {
    return std::unexpected(segments.error());
  }
  const bool copies_any = !segments->empty();
  auto media = copy_of(context, *targets, *std::move(segments));
  if (!media) {
    return std::unexpected(media.error());
  }
  if (list->usage == 0) {
    copies.insert_or_assign(
        list->identifier,
        CopyResult{
            .status = copies_any ? CopyResult::Status::InProgress : CopyResult::Status::Completed,
            .segments = static_cast<std::uint16_t>(list->segments.size() / kSegmentBytes)});
    context.copy_list = list->identifier;
  } else if (list->usage == 2) {
    copies.erase(list->identifier);  // its last result goes (SPC-4 §5.17.3.3)
  }
  if (copies_any) {
    context.media = *std::move(media);
  }
  return {};
}

Outcome<void> receive_copy_results(CommandContext& context) {
  const std::uint32_t allocation_length = load32(context.cdb, 10);
  if ((load8(context.cdb, 1) & 0x1F) == 0x03) {
    context.respond(operating_parameters(context.unit), allocation_length);
    return {};
  }
  auto& copies = context.unit.nexuses.at(context.nexus_id).memory->copies;
  const auto found = copies.find(load8(context.cdb, 2));
  if (found == copies.end()) {
    return invalid_field_in_cdb(2, 7);
  }
  context.respond(copy_status(found->second), allocation_length);
  if (found->second.status != CopyResult::Status::InProgress) {
    copies.erase(found);  // told once (SPC-4 §6.24.2)
  }
  return {};
}

}  // namespace weft::scsi
