// Who may use a unit how: reservations (SPC-4 §6.15, §6.16; SPC-2 §7.16 to §7.19), asymmetric
// access (SPC-4 §6.37, §6.45), and which commands there are (SPC-4 §6.35, §6.36).

#include <algorithm>
#include <utility>

#include "scsi/command_table.h"

namespace weft::scsi {
namespace {

// Command timeouts descriptor without timeouts (SPC-4 §6.35.4).
void add_timeouts(ParameterData& data) { data.add(2, 10).add_zeroes(10); }

// CDB USAGE DATA: the operation code and service action themselves, then the bitmap.
ParameterData usage_data(const CommandRow& row) {
  ParameterData data;
  data.add(1, row.opcode);
  for (std::size_t i = 1; i < row.cdb_bytes; ++i) {
    data.add(1, row.usage[i]);
  }
  if (row.service_action != kNoServiceAction) {
    if (row.opcode == kVariableLength) {
      data.set(7, 1, row.cdb_bytes - 8u).set(8, 2, row.service_action);
    } else {
      data.set(1, 1, (row.usage[1] & 0xE0u) | row.service_action);
    }
  }
  return data;
}

// CDBs of 32 octets are for Type 2 protection alone, whose tags they name (SBC-3 Table 34).
bool has_command(const UnitState& unit, const CommandRow& row) {
  return row.opcode != kVariableLength || unit.options.protection == ProtectionType::Type2;
}

ParameterData all_commands(const UnitState& unit, bool timeouts) {
  ParameterData data(4);
  for (const CommandRow& row : command_table()) {
    if (!has_command(unit, row)) {
      continue;
    }
    const bool has_action = row.service_action != kNoServiceAction;
    data.add(1, row.opcode).add(1, 0).add(2, has_action ? row.service_action : 0);
    data.add(1, 0).add(1, (timeouts ? 2u : 0) | (has_action ? 1u : 0)).add(2, row.cdb_bytes);
    if (timeouts) {
      add_timeouts(data);
    }
  }
  data.set(0, 4, data.size() - 4);
  return data;
}

}  // namespace

Outcome<void> persistent_reserve_in(CommandContext& context) {
  const Reservations& reservations = context.unit.reservations;
  const std::uint16_t allocation_length = load16(context.cdb, 7);
  switch (context.row.service_action) {
    case 0:
      context.respond(reservations.read_keys(), allocation_length);
      break;
    case 1:
      context.respond(reservations.read_reservation(), allocation_length);
      break;
    case 2:
      context.respond(reservations.report_capabilities(context.unit.reservation_facts()),
                      allocation_length);
      break;
    default:
      context.respond(reservations.read_full_status(), allocation_length);
      break;
  }
  return {};
}

Outcome<void> persistent_reserve_out(CommandContext& context) {
  const auto list = context.parameters(load32(context.cdb, 5));
  if (!list) {
    return std::unexpected(list.error());
  }
  UnitState& unit = context.unit;
  const auto change =
      unit.reservations.out(context.nexus,
                            {.action = static_cast<ReserveAction>(context.row.service_action),
                             .scope_and_type = load8(context.cdb, 2),
                             .parameters = *list},
                            unit.reservation_facts());
  if (!change) {
    return std::unexpected(change.error());
  }
  for (const auto& [nexus, code] : change->attentions) {
    unit.establish_for(nexus, code);
  }
  context.aborts = change->aborted;
  if (change->must_be_saved) {
    context.saves = unit.reservations.image();
  }
  return {};
}

Outcome<void> reserve(CommandContext& context) {
  return context.unit.reservations.legacy_reserve(context.nexus);
}

Outcome<void> release(CommandContext& context) {
  return context.unit.reservations.legacy_release(context.nexus);
}

Outcome<void> report_target_port_groups(CommandContext& context) {
  const std::uint8_t format = load8(context.cdb, 1) >> 5;
  if (format > 1) {
    return invalid_field_in_cdb(1, 7);
  }
  context.respond(context.unit.access.report(format == 1), load32(context.cdb, 6));
  return {};
}

Outcome<void> set_target_port_groups(CommandContext& context) {
  const auto list = context.parameters(load32(context.cdb, 6));
  if (!list) {
    return std::unexpected(list.error());
  }
  const auto changed = context.unit.access.set_from(*list);
  if (!changed) {
    return std::unexpected(changed.error());
  }
  if (*changed) {
    context.unit.establish_for_others(context.nexus_id, SenseCode::AccessStateChanged);
  }
  return {};
}

Outcome<void> report_supported_commands(CommandContext& context) {
  const std::uint8_t options = load8(context.cdb, 2);
  const bool timeouts = (options & 0x80) != 0;
  const std::uint32_t allocation_length = load32(context.cdb, 6);
  const std::uint8_t opcode = load8(context.cdb, 3);
  const std::uint16_t action = load16(context.cdb, 4);
  const unsigned which = options & 0x07u;
  if (which == 0) {
    context.respond(all_commands(context.unit, timeouts), allocation_length);
    return {};
  }
  if (which > 3) {
    return invalid_field_in_cdb(2, 2);
  }
  const CommandRow* found = nullptr;
  bool known = false;
  bool has_actions = false;
  for (const CommandRow& row : command_table()) {
    if (row.opcode == opcode && has_command(context.unit, row)) {
      known = true;
      has_actions = row.service_action != kNoServiceAction;
      const bool any_action = which == 1 || (which == 3 && !has_actions);
      found = (any_action || row.service_action == action) && found == nullptr ? &row : found;
    }
  }
  if (known && which != 3 && has_actions != (which == 2)) {
    return invalid_field_in_cdb(2, 2);  // with or without service actions, the other way round
  }
  if (which == 3 && !has_actions && action != 0) {
    found = nullptr;
  }
  ParameterData data;
  data.add(1, 0).add(1, (timeouts && found != nullptr ? 0x80u : 0) | (found != nullptr ? 3u : 1u));
  const ParameterData usage = found != nullptr ? usage_data(*found) : ParameterData{};
  data.add(2, usage.size()).add(usage.octets());
  if (timeouts && found != nullptr) {
    add_timeouts(data);
  }
  context.respond(data, allocation_length);
  return {};
}

Outcome<void> report_supported_task_management(CommandContext& context) {
  const bool extended = (load8(context.cdb, 2) & 0x80) != 0;  // REPD
  ParameterData data;
  // ATS, ATSS, CACAS, CTSS, LURS, QTS, TRS; QAES, QTSS, ITNRS (SPC-4 Table 213).
  data.add(1, 0xFE).add(1, 0x07).add(1, 0).add(1, extended ? 12 : 0);
  if (extended) {
    data.add_zeroes(12);
  }
  context.respond(data, load32(context.cdb, 6));
  return {};
}

}  // namespace weft::scsi
