#pragma once

// Every command of the device server, one row each.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "scsi/unit_state.h"

namespace weft::scsi {

enum class DataDirection : std::uint8_t { None, In, Out };

/// In which asymmetric access states a command is processed (SPC-4 §5.16.2.4 to §5.16.2.7).
enum class AccessClass : std::uint8_t {
  Any,      ///< in all states
  Standby,  ///< not while unavailable or transitioning
  Active,   ///< only active, optimized or not
};

inline constexpr std::size_t kMaxCdbBytes = 32;
inline constexpr std::uint8_t kVariableLength = 0x7F;  ///< operation code of CDBs of 32 octets
inline constexpr std::uint16_t kNoServiceAction = 0xFFFF;
using UsageBitmap = std::array<std::uint8_t, kMaxCdbBytes>;

struct CommandRow {
  std::uint8_t opcode{};
  std::uint16_t service_action{kNoServiceAction};
  std::uint8_t cdb_bytes{};
  DataDirection direction{};
  ReservationClass reservation{};
  AccessClass access{};
  bool needs_medium{};  ///< NOT READY after START STOP UNIT has stopped the unit
  CommandHandler handler{};
  UsageBitmap usage{};  ///< CDB USAGE DATA (SPC-4 §6.35.3): bits that are looked at or ignored
};

[[nodiscard]] std::span<const CommandRow> command_table();

/// The row of a CDB: InvalidCommandOperationCode for an unknown operation code, InvalidFieldInCdb
/// for an unknown service action or a CDB that is too short.
[[nodiscard]] Outcome<const CommandRow*> find_command(ByteSpan cdb);

/// Reserved bits that are set end a command (SPC-4 §4.2.1 permits it), with their position.
[[nodiscard]] Outcome<void> check_reserved_bits(const CommandRow& row, ByteSpan cdb);

/// The CONTROL octet: last of a fixed CDB, octet 1 of one with variable length.
[[nodiscard]] std::uint8_t control_octet(const CommandRow& row, ByteSpan cdb);

/// Of a READ or WRITE command of a unit that keeps tuples; nothing: of any other, and of one that
/// its handler refuses.
[[nodiscard]] std::optional<BlockProtection> protection_of(const UnitState& unit,
                                                           const CommandRow& row, ByteSpan cdb);

// Handlers, by file.
Outcome<void> test_unit_ready(CommandContext&);  // unit_commands.cc
Outcome<void> request_sense(CommandContext&);
Outcome<void> report_luns(CommandContext&);
Outcome<void> read_capacity_10(CommandContext&);
Outcome<void> read_capacity_16(CommandContext&);
Outcome<void> get_lba_status(CommandContext&);
Outcome<void> read_defect_data(CommandContext&);
Outcome<void> mode_sense(CommandContext&);
Outcome<void> mode_select(CommandContext&);
Outcome<void> start_stop_unit(CommandContext&);
Outcome<void> prevent_allow(CommandContext&);
Outcome<void> inquiry(CommandContext&);      // inquiry.cc
Outcome<void> read_blocks(CommandContext&);  // block_commands.cc
Outcome<void> write_blocks(CommandContext&);
Outcome<void> write_and_verify(CommandContext&);
Outcome<void> verify(CommandContext&);
Outcome<void> compare_and_write(CommandContext&);
Outcome<void> or_write(CommandContext&);
Outcome<void> write_atomic(CommandContext&);
Outcome<void> prefetch(CommandContext&);
Outcome<void> write_same(CommandContext&);
Outcome<void> unmap(CommandContext&);
Outcome<void> synchronize_cache(CommandContext&);
Outcome<void> format_unit(CommandContext&);
Outcome<void> sanitize(CommandContext&);       // sanitize.cc
Outcome<void> extended_copy(CommandContext&);  // copy_commands.cc
Outcome<void> receive_copy_results(CommandContext&);
Outcome<void> persistent_reserve_in(CommandContext&);  // access_commands.cc
Outcome<void> persistent_reserve_out(CommandContext&);
Outcome<void> reserve(CommandContext&);
Outcome<void> release(CommandContext&);
Outcome<void> report_target_port_groups(CommandContext&);
Outcome<void> set_target_port_groups(CommandContext&);
Outcome<void> report_supported_commands(CommandContext&);
Outcome<void> report_supported_task_management(CommandContext&);

}  // namespace weft::scsi
