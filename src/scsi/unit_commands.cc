// Commands about the unit as a whole (SPC-4 §6, SBC-3 §5).

#include <algorithm>
#include <limits>
#include <utility>

#include "scsi/command_table.h"

namespace weft::scsi {

Outcome<void> test_unit_ready(CommandContext& /*context*/) { return {}; }

// SPC-4 §6.39: a pending unit attention is returned as parameter data, and cleared.
Outcome<void> request_sense(CommandContext& context) {
  const bool descriptors = (load8(context.cdb, 1) & 0x01) != 0;
  Sense sense{.key = SenseKey::NoSense, .code = SenseCode::None};
  if (context.unit.sanitize == SanitizeState::Running) {  // SBC-3 §4.11.2
    sense = {.key = SenseKey::NotReady,
             .code = SenseCode::SanitizeInProgress,
             .progress = context.unit.sanitize_progress};
  }
  if (const auto code = context.unit.nexuses.at(context.nexus_id).memory->attentions.take()) {
    sense = {.key = SenseKey::UnitAttention, .code = *code};
  }
  const SenseData data(sense,
                       descriptors ? SenseData::Format::Descriptor : SenseData::Format::Fixed);
  context.respond(ParameterData{}.add(data.octets()), load8(context.cdb, 4));
  return {};
}

Outcome<void> report_luns(CommandContext& context) {  // SPC-4 §6.33
  const std::uint8_t select = load8(context.cdb, 2);
  const std::uint32_t allocation_length = load32(context.cdb, 6);
  if (select > 2) {
    return invalid_field_in_cdb(2, 7);
  }
  if (allocation_length < 16) {
    return invalid_field_in_cdb(6, 7);
  }
  ParameterData data(8);
  if (select != 1) {  // 1: well known units only, of which there are none
    for (const Lun lun : context.unit.luns) {
      data.add(8, lun_address(lun));
    }
  }
  data.set(0, 4, data.size() - 8);
  context.unit.nexuses.at(context.nexus_id)
      .memory->attentions.clear(SenseCode::ReportedLunsDataChanged);
  context.respond(data, allocation_length);
  return {};
}

Outcome<void> read_capacity_10(CommandContext& context) {  // SBC-3 §5.15
  if ((load8(context.cdb, 8) & 0x01) != 0 || load32(context.cdb, 2) != 0) {
    return invalid_field_in_cdb(load32(context.cdb, 2) != 0 ? 2 : 8, 0);  // PMI is obsolete
  }
  const BlockGeometry geometry = context.unit.device->geometry();
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  ParameterData data;
  data.add(4, std::min(geometry.blocks - 1, kMost)).add(4, geometry.block_bytes);
  context.respond(data, data.size());
  return {};
}

Outcome<void> read_capacity_16(CommandContext& context) {  // SBC-3 §5.16
  if ((load8(context.cdb, 14) & 0x01) != 0 || load64(context.cdb, 2) != 0) {
    return invalid_field_in_cdb(load64(context.cdb, 2) != 0 ? 2 : 14, 0);
  }
  const BlockGeometry geometry = context.unit.device->geometry();
  const auto type = std::to_underlying(context.unit.options.protection);
  ParameterData data;
  data.add(8, geometry.blocks - 1).add(4, geometry.block_bytes);
  data.add(1, type == 0 ? 0 : (type - 1u) << 1 | 1u);  // P_TYPE, PROT_EN
  data.add(1, geometry.physical_exponent & 0x0F);
  data.add(2, (geometry.can_discard ? 0xC000u : 0) | (geometry.lowest_aligned & 0x3FFFu));
  data.add_zeroes(16);
  context.respond(data, load32(context.cdb, 10));
  return {};
}

Outcome<void> get_lba_status(CommandContext& context) {  // SBC-3 §5.5
  constexpr std::size_t kMaxDescriptors = 64;            // policy: bounds the time under the lock
  const std::uint64_t start = load64(context.cdb, 2);
  const std::uint32_t allocation_length = load32(context.cdb, 10);
  const std::uint64_t blocks = context.unit.device->geometry().blocks;
  if (start >= blocks) {
    return illegal_request(SenseCode::LbaOutOfRange);
  }
  ParameterData data(8);
  std::uint64_t lba = start;
  for (std::size_t i = 0; lba < blocks && i < kMaxDescriptors; ++i) {
    if (i > 0 && data.size() + 16 > allocation_length) {
      break;
    }
    const BlockExtent extent = context.unit.device->extent(lba);
    const std::uint64_t count =
        std::min<std::uint64_t>(extent.blocks, std::numeric_limits<std::uint32_t>::max());
    data.add(8, lba).add(4, count).add(1, extent.mapped ? 0 : 1).add(3, 0);
    lba += count;
  }
  data.set(0, 4, data.size() - 4);
  context.respond(data, allocation_length);
  return {};
}

// SBC-3 §5.17, §5.18: lists that are empty, since a device in software has no defects.
Outcome<void> read_defect_data(CommandContext& context) {
  const bool ten = context.cdb.size() == 10;
  ParameterData data(ten ? 4 : 8);
  data.set(1, 1, load8(context.cdb, ten ? 2 : 1) & 0x1F);  // PLISTV, GLISTV, format, as asked for
  context.respond(data, ten ? load16(context.cdb, 7) : load32(context.cdb, 6));
  return {};
}

Outcome<void> mode_sense(CommandContext& context) {  // SPC-4 §6.11, §6.12
  const ByteSpan cdb = context.cdb;
  const bool ten = cdb.size() == 10;
  const ModeSenseRequest request{.ten = ten,
                                 .long_lba = ten && (load8(cdb, 1) & 0x10) != 0,
                                 .no_descriptors = (load8(cdb, 1) & 0x08) != 0,
                                 .control = static_cast<PageControl>(load8(cdb, 2) >> 6),
                                 .page = static_cast<std::uint8_t>(load8(cdb, 2) & 0x3F),
                                 .subpage = load8(cdb, 3)};
  const auto data = context.unit.pages.sense(request, context.unit.mode_facts());
  if (!data) {
    return std::unexpected(data.error());
  }
  context.respond(*data, ten ? load16(cdb, 7) : load8(cdb, 4));
  return {};
}

Outcome<void> mode_select(CommandContext& context) {  // SPC-4 §6.9, §6.10
  const ByteSpan cdb = context.cdb;
  const bool ten = cdb.size() == 10;
  const std::size_t length = ten ? load16(cdb, 7) : load8(cdb, 4);
  if ((load8(cdb, 1) & 0x01) != 0) {
    return invalid_field_in_cdb(1, 0);  // SP: nothing is saved
  }
  if ((load8(cdb, 1) & 0x10) == 0 && length != 0) {
    return invalid_field_in_cdb(1, 4);  // PF: vendor specific pages
  }
  const auto list = context.parameters(length);
  if (!list) {
    return std::unexpected(list.error());
  }
  const auto changed = context.unit.pages.select(ten, *list, context.unit.mode_facts());
  if (!changed) {
    return std::unexpected(changed.error());
  }
  if (*changed) {
    context.unit.establish_for_others(context.nexus_id, SenseCode::ModeParametersChanged);
  }
  return {};
}

Outcome<void> start_stop_unit(CommandContext& context) {  // SBC-3 §5.28
  const std::uint8_t flags = load8(context.cdb, 4);
  if ((flags & 0xF0) != 0) {
    return invalid_field_in_cdb(4, 7);  // no power conditions
  }
  if ((flags & 0x02) != 0) {
    return invalid_field_in_cdb(4, 1);  // LOEJ: the medium is not removable
  }
  context.unit.stopped = (flags & 0x01) == 0;
  if (context.unit.stopped && (flags & 0x04) == 0) {  // NO_FLUSH
    context.media = MediaCommand{.kind = MediaKind::Flush};
  }
  return {};
}

// SPC-4 §6.14. The medium is not removable, so preventing its removal is done by nothing; what
// prohibits it for a medium changer only is refused.
Outcome<void> prevent_allow(CommandContext& context) {
  return (load8(context.cdb, 4) & 0x02) != 0 ? Outcome<void>{invalid_field_in_cdb(4, 1)}
                                             : Outcome<void>{};
}

}  // namespace weft::scsi
