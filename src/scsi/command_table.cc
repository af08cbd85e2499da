#include "scsi/command_table.h"

#include <algorithm>
#include <bit>
#include <string_view>

namespace weft::scsi {
namespace {

// Octets from the second on; the first is the operation code.
consteval UsageBitmap usage(std::string_view text) {
  UsageBitmap bitmap{};
  std::size_t octet = 1;
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'A' + 10);
  };
  for (std::size_t at = 0; at < text.size(); at += 3) {
    bitmap[octet++] = static_cast<std::uint8_t>(digit(text[at]) << 4 | digit(text[at + 1]));
  }
  return bitmap;
}

using enum DataDirection;
using R = ReservationClass;
using A = AccessClass;
constexpr std::uint16_t kAny = kNoServiceAction;

// clang-format off
constexpr auto kCommands = std::to_array<CommandRow>({
    // opcode, service action, octets, data, reservations, access states, medium, handler, usage
    {0x00, kAny,  6, None, R::Harmless,      A::Active,  true,  test_unit_ready,  usage("00 00 00 00 04")},
    {0x03, kAny,  6, In,   R::Always,        A::Any,     false, request_sense,    usage("01 00 00 FF 04")},
    {0x04, kAny,  6, Out,  R::Write,         A::Active,  true,  format_unit,      usage("FF 00 00 00 04")},
    {0x08, kAny,  6, In,   R::Read,          A::Active,  true,  read_blocks,      usage("1F FF FF FF 04")},
    {0x0A, kAny,  6, Out,  R::Write,         A::Active,  true,  write_blocks,     usage("1F FF FF FF 04")},
    {0x12, kAny,  6, In,   R::Always,        A::Any,     false, inquiry,          usage("03 FF FF FF 04")},
    {0x15, kAny,  6, Out,  R::Write,         A::Standby, false, mode_select,      usage("11 00 00 FF 04")},
    {0x16, kAny,  6, None, R::LegacyReserve, A::Active,  false, reserve,          usage("00 00 00 00 04")},
    {0x17, kAny,  6, None, R::LegacyReserve, A::Active,  false, release,          usage("00 00 00 00 04")},
    {0x1A, kAny,  6, In,   R::Read,          A::Standby, false, mode_sense,       usage("08 FF FF FF 04")},
    {0x1B, kAny,  6, None, R::Write,         A::Active,  false, start_stop_unit,  usage("01 00 0F F7 04")},
    {0x1E, kAny,  6, None, R::Harmless,      A::Active,  false, prevent_allow,    usage("00 00 00 03 04")},
    {0x25, kAny, 10, In,   R::Harmless,      A::Active,  true,  read_capacity_10, usage("01 FF FF FF FF 00 00 01 04")},
    {0x28, kAny, 10, In,   R::Read,          A::Active,  true,  read_blocks,      usage("FE FF FF FF FF 3F FF FF 04")},
    {0x2A, kAny, 10, Out,  R::Write,         A::Active,  true,  write_blocks,     usage("FE FF FF FF FF 3F FF FF 04")},
    {0x2E, kAny, 10, Out,  R::Write,         A::Active,  true,  write_and_verify, usage("F6 FF FF FF FF 3F FF FF 04")},
    {0x2F, kAny, 10, Out,  R::Read,          A::Active,  true,  verify,           usage("F6 FF FF FF FF 3F FF FF 04")},
    {0x34, kAny, 10, None, R::Read,          A::Active,  true,  prefetch,         usage("02 FF FF FF FF 3F FF FF 04")},
    {0x35, kAny, 10, None, R::Write,         A::Active,  true,  synchronize_cache, usage("06 FF FF FF FF 3F FF FF 04")},
    {0x37, kAny, 10, In,   R::Harmless,      A::Active,  true,  read_defect_data, usage("00 1F 00 00 00 00 FF FF 04")},
    {0x41, kAny, 10, Out,  R::Write,         A::Active,  true,  write_same,       usage("F8 FF FF FF FF 3F FF FF 04")},
    {0x42, kAny, 10, Out,  R::Write,         A::Active,  true,  unmap,            usage("01 00 00 00 00 3F FF FF 04")},
    {0x48, 0x01, 10, Out,  R::Write,         A::Active,  true,  sanitize,         usage("BF 00 00 00 00 00 FF FF 04")},
    {0x48, 0x02, 10, Out,  R::Write,         A::Active,  true,  sanitize,         usage("BF 00 00 00 00 00 FF FF 04")},
    {0x48, 0x1F, 10, Out,  R::Write,         A::Active,  true,  sanitize,         usage("BF 00 00 00 00 00 FF FF 04")},
    {0x55, kAny, 10, Out,  R::Write,         A::Standby, false, mode_select,      usage("11 00 00 00 00 00 FF FF 04")},
    {0x56, kAny, 10, None, R::LegacyReserve, A::Active,  false, reserve,          usage("00 00 00 00 00 00 00 00 04")},
    {0x57, kAny, 10, None, R::LegacyReserve, A::Active,  false, release,          usage("00 00 00 00 00 00 00 00 04")},
    {0x5A, kAny, 10, In,   R::Read,          A::Standby, false, mode_sense,       usage("18 FF FF 00 00 00 FF FF 04")},
    {0x5E, 0x00, 10, In,   R::Management,    A::Standby, false, persistent_reserve_in,  usage("1F 00 00 00 00 00 FF FF 04")},
    {0x5E, 0x01, 10, In,   R::Management,    A::Standby, false, persistent_reserve_in,  usage("1F 00 00 00 00 00 FF FF 04")},
    {0x5E, 0x02, 10, In,   R::Management,    A::Standby, false, persistent_reserve_in,  usage("1F 00 00 00 00 00 FF FF 04")},
    {0x5E, 0x03, 10, In,   R::Management,    A::Standby, false, persistent_reserve_in,  usage("1F 00 00 00 00 00 FF FF 04")},
    {0x5F, 0x00, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x01, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x02, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x03, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x04, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x05, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x06, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x5F, 0x07, 10, Out,  R::Management,    A::Standby, false, persistent_reserve_out, usage("1F FF 00 00 FF FF FF FF 04")},
    {0x7F, 0x09, 32, In,   R::Read,          A::Active,  true,  read_blocks,      usage("04 00 00 00 00 3F 18 FF FF FE 00 FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF")},
    {0x7F, 0x0A, 32, Out,  R::Read,          A::Active,  true,  verify,           usage("04 00 00 00 00 3F 18 FF FF F6 00 FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF")},
    {0x7F, 0x0B, 32, Out,  R::Write,         A::Active,  true,  write_blocks,     usage("04 00 00 00 00 3F 18 FF FF FE 00 FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF")},
    {0x7F, 0x0C, 32, Out,  R::Write,         A::Active,  true,  write_and_verify, usage("04 00 00 00 00 3F 18 FF FF F6 00 FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF")},
    {0x7F, 0x0D, 32, Out,  R::Write,         A::Active,  true,  write_same,       usage("04 00 00 00 00 3F 18 FF FF F9 00 FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF FF")},
    {0x83, 0x00, 16, Out,  R::Write,         A::Active,  true,  extended_copy,    usage("1F 00 00 00 00 00 00 00 00 FF FF FF FF 00 04")},
    {0x84, 0x00, 16, In,   R::Read,          A::Active,  false, receive_copy_results, usage("1F FF 00 00 00 00 00 00 00 FF FF FF FF 00 04")},
    {0x84, 0x03, 16, In,   R::Read,          A::Active,  false, receive_copy_results, usage("1F FF 00 00 00 00 00 00 00 FF FF FF FF 00 04")},
    {0x88, kAny, 16, In,   R::Read,          A::Active,  true,  read_blocks,      usage("FE FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x89, kAny, 16, Out,  R::Write,         A::Active,  true,  compare_and_write, usage("FA FF FF FF FF FF FF FF FF 00 00 00 FF 3F 04")},
    {0x8A, kAny, 16, Out,  R::Write,         A::Active,  true,  write_blocks,     usage("FE FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x8B, kAny, 16, Out,  R::Write,         A::Active,  true,  or_write,         usage("FE FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x8E, kAny, 16, Out,  R::Write,         A::Active,  true,  write_and_verify, usage("F6 FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x8F, kAny, 16, Out,  R::Read,          A::Active,  true,  verify,           usage("F6 FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x90, kAny, 16, None, R::Read,          A::Active,  true,  prefetch,         usage("02 FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x91, kAny, 16, None, R::Write,         A::Active,  true,  synchronize_cache, usage("06 FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x93, kAny, 16, Out,  R::Write,         A::Active,  true,  write_same,       usage("F9 FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x9C, kAny, 16, Out,  R::Write,         A::Active,  true,  write_atomic,     usage("FE FF FF FF FF FF FF FF FF FF FF FF FF 3F 04")},
    {0x9E, 0x10, 16, In,   R::Harmless,      A::Active,  true,  read_capacity_16, usage("1F FF FF FF FF FF FF FF FF FF FF FF FF 01 04")},
    {0x9E, 0x12, 16, In,   R::Read,          A::Active,  true,  get_lba_status,   usage("1F FF FF FF FF FF FF FF FF FF FF FF FF 00 04")},
    {0xA0, kAny, 12, In,   R::Always,        A::Any,     false, report_luns,      usage("00 FF 00 00 00 FF FF FF FF 00 04")},
    {0xA3, 0x0A, 12, In,   R::Harmless,      A::Any,     false, report_target_port_groups, usage("FF 00 00 00 00 FF FF FF FF 00 04")},
    {0xA3, 0x0C, 12, In,   R::Read,          A::Standby, false, report_supported_commands, usage("1F 87 FF FF FF FF FF FF FF 00 04")},
    {0xA3, 0x0D, 12, In,   R::Read,          A::Standby, false, report_supported_task_management, usage("1F 80 00 00 00 FF FF FF FF 00 04")},
    {0xA4, 0x0A, 12, Out,  R::Write,         A::Any,     false, set_target_port_groups, usage("1F 00 00 00 00 FF FF FF FF 00 04")},
    {0xA8, kAny, 12, In,   R::Read,          A::Active,  true,  read_blocks,      usage("FE FF FF FF FF FF FF FF FF 3F 04")},
    {0xAA, kAny, 12, Out,  R::Write,         A::Active,  true,  write_blocks,     usage("FE FF FF FF FF FF FF FF FF 3F 04")},
    {0xAE, kAny, 12, Out,  R::Write,         A::Active,  true,  write_and_verify, usage("F6 FF FF FF FF FF FF FF FF 3F 04")},
    {0xAF, kAny, 12, Out,  R::Read,          A::Active,  true,  verify,           usage("F6 FF FF FF FF FF FF FF FF 3F 04")},
    {0xB7, kAny, 12, In,   R::Harmless,      A::Active,  true,  read_defect_data, usage("1F 00 00 00 00 FF FF FF FF 00 04")},
});
// clang-format on

constexpr std::size_t kOpcodes = 256;

/// Where the rows of each operation code begin; as many as there are rows: it has none. Rows of one
/// code follow each other.
constexpr auto kFirstRow = [] {
  std::array<std::uint8_t, kOpcodes> first{};
  static_assert(kCommands.size() < kOpcodes);
  first.fill(static_cast<std::uint8_t>(kCommands.size()));
  for (std::size_t i = kCommands.size(); i-- > 0;) {
    first[kCommands[i].opcode] = static_cast<std::uint8_t>(i);
  }
  return first;
}();

static_assert(std::ranges::is_sorted(kCommands, {}, &CommandRow::opcode));

std::span<const CommandRow> rows_of(std::uint8_t opcode) {
  const auto from = std::span{kCommands}.subspan(kFirstRow[opcode]);
  return from.first(static_cast<std::size_t>(
      std::ranges::find_if(from, [&](const CommandRow& row) { return row.opcode != opcode; }) -
      from.begin()));
}

// SPC-4 §4.3.4: the group code says how long a CDB is.
std::size_t fixed_length(std::uint8_t opcode) {
  constexpr std::array<std::uint8_t, 8> kLengths{6, 10, 10, 1, 16, 12, 1, 1};
  return opcode == kVariableLength ? 10 : kLengths[opcode >> 5];
}

}  // namespace

std::span<const CommandRow> command_table() { return kCommands; }

Outcome<const CommandRow*> find_command(ByteSpan cdb) {
  if (cdb.empty()) {
    return illegal_request(SenseCode::InvalidCommandOperationCode);
  }
  const std::uint8_t opcode = load8(cdb, 0);
  if (cdb.size() < fixed_length(opcode)) {
    return invalid_field_in_cdb(0, 7);
  }
  const std::span<const CommandRow> rows = rows_of(opcode);
  if (rows.empty()) {
    return illegal_request(SenseCode::InvalidCommandOperationCode);
  }
  std::uint16_t service_action = kNoServiceAction;
  if (rows.front().service_action != kNoServiceAction) {
    service_action = opcode == kVariableLength ? load16(cdb, 8) : load8(cdb, 1) & 0x1F;
  }
  for (const CommandRow& row : rows) {
    if (row.service_action != service_action) {
      continue;
    }
    const bool length_fits = opcode != kVariableLength || load8(cdb, 7) + 8u == row.cdb_bytes;
    if (!length_fits || cdb.size() < row.cdb_bytes) {
      return invalid_field_in_cdb(7, 7);
    }
    return &row;
  }
  return opcode == kVariableLength ? invalid_field_in_cdb(8, 7) : invalid_field_in_cdb(1, 4);
}

Outcome<void> check_reserved_bits(const CommandRow& row, ByteSpan cdb) {
  for (std::size_t i = 1; i < row.cdb_bytes; ++i) {
    // Vendor specific bits of CONTROL are ignored (SAM-5 §5.2).
    const bool control = i == (row.opcode == kVariableLength ? 1u : row.cdb_bytes - 1u);
    const unsigned allowed = row.usage[i] | (control ? 0xC0u : 0);
    const unsigned wrong = load8(cdb, i) & ~allowed & 0xFFu;
    if (wrong != 0) {
      return invalid_field_in_cdb(static_cast<std::uint16_t>(i),
                                  static_cast<std::uint8_t>(std::bit_width(wrong) - 1));
    }
  }
  return {};
}

std::uint8_t control_octet(const CommandRow& row, ByteSpan cdb) {
  return load8(cdb, row.opcode == kVariableLength ? 1 : row.cdb_bytes - 1u);
}

}  // namespace weft::scsi
