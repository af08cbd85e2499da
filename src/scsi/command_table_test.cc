#include "scsi/command_table.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::bytes;
using testing::Bytes;

TEST(CommandTable, RowsAreUniqueAndAsLongAsTheirGroupSays) {  // SPC-4 §4.3.4
  std::set<std::pair<int, int>> seen;
  for (const CommandRow& row : command_table()) {
    EXPECT_TRUE(seen.insert({row.opcode, row.service_action}).second) << int{row.opcode};
    constexpr int kLengths[] = {6, 10, 10, 32, 16, 12};
    EXPECT_EQ(int{row.cdb_bytes}, kLengths[row.opcode >> 5]) << int{row.opcode};
    EXPECT_NE(row.handler, nullptr);
    EXPECT_EQ(row.usage[row.opcode == kVariableLength ? 1 : row.cdb_bytes - 1u], 0x04);
    for (std::size_t i = row.cdb_bytes; i < kMaxCdbBytes; ++i) {
      EXPECT_EQ(row.usage[i], 0) << int{row.opcode};
    }
  }
}

TEST(CommandTable, UnknownCodesActionsAndLengthsAreRefused) {
  const auto code = [](const Bytes& cdb) {
    const auto row = find_command(cdb);
    return row ? SenseCode::None : row.error().sense.code;
  };
  EXPECT_EQ(code({}), SenseCode::InvalidCommandOperationCode);
  EXPECT_EQ(code(Bytes(6)), SenseCode::None);
  EXPECT_EQ(code(Bytes(5)), SenseCode::InvalidFieldInCdb);
  EXPECT_EQ(code(bytes({0x86, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})),
            SenseCode::InvalidCommandOperationCode);  // ACCESS CONTROL IN
  EXPECT_EQ(code(bytes({0x5E, 9, 0, 0, 0, 0, 0, 0, 0, 0})), SenseCode::InvalidFieldInCdb);
  Bytes variable(32);
  store_number(variable, 0, 1, 0x7F);
  store_number(variable, 7, 1, 24);
  store_number(variable, 8, 2, 9);
  EXPECT_EQ(code(variable), SenseCode::None);
  variable.resize(31);
  EXPECT_EQ(code(variable), SenseCode::InvalidFieldInCdb);
}

TEST(CommandTable, ReservedBitsAreFoundWithTheirPosition) {
  const Bytes cdb = bytes({0, 0, 0x10, 0, 0, 0xC4});
  const CommandRow& row = **find_command(cdb);
  const auto outcome = check_reserved_bits(row, cdb);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().sense.field,
            (FieldPointer{.in_cdb = true, .octet = 2, .bit = std::uint8_t{4}}));
  EXPECT_TRUE(check_reserved_bits(row, bytes({0, 0, 0, 0, 0, 0xC4})).has_value());
  EXPECT_EQ(control_octet(row, cdb), 0xC4);
}

}  // namespace
}  // namespace weft::scsi
