#include "wire/srp/information_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "wire/srp/srp_codes.h"
#include "wire/testing/srp_tables.h"

namespace weft::wire {
namespace {

constexpr std::uint16_t kOffset = kSrpDefaultImmediateOffset;

[[nodiscard]] SrpDirectDescriptor piece(std::uint64_t address, std::uint32_t length) {
  return {.address = address, .key = RKey{0x1234}, .length = length};
}

[[nodiscard]] SrpDataBuffer direct(std::uint32_t length) {
  return {
      .format = SrpBufferFormat::Direct, .descriptors = {piece(0x1000, length)}, .length = length};
}

[[nodiscard]] SrpDataBuffer indirect(std::size_t in_unit, std::size_t in_table) {
  SrpDataBuffer buffer{.format = SrpBufferFormat::Indirect};
  for (std::size_t i = 0; i < in_unit; ++i) {
    buffer.descriptors.push_back(piece(0x1000 * (i + 1), 512));
  }
  buffer.table = piece(0x9000, static_cast<std::uint32_t>(16 * in_table));
  buffer.length = 512 * in_table;
  return buffer;
}

void expect_comes_back(const SrpCommandUnit& command) {
  const auto unit = to_unit(command, kOffset);
  const auto judged = srp_tables::decode_unit(unit, kOffset);
  EXPECT_TRUE(judged.faults.empty()) << judged.faults.front();
  const auto parsed = parse_srp_command(unit, kOffset);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->additional_cdb, command.additional_cdb);
  EXPECT_EQ(parsed->data_out, command.data_out);
  EXPECT_EQ(parsed->data_in, command.data_in);
  EXPECT_TRUE(std::ranges::equal(parsed->immediate_data, command.immediate_data));
  EXPECT_EQ(to_unit(*parsed, kOffset), unit);
}

TEST(SrpCommand, EveryFormatComesBackAsItWasBuilt) {
  expect_comes_back({
      .header = {.tag = 1, .lun = 2}
  });
  expect_comes_back({.data_out = direct(512)});
  expect_comes_back({.data_in = direct(4096)});
  expect_comes_back({.data_out = indirect(3, 3), .data_in = direct(512)});
  expect_comes_back({.data_in = indirect(0, 300)});
  expect_comes_back({.additional_cdb = std::vector<std::byte>(16), .data_out = indirect(2, 5)});
  const std::vector<std::byte> data(700, std::byte{0x5A});
  expect_comes_back({
      .additional_cdb = std::vector<std::byte>(16),
      .data_out = {.format = SrpBufferFormat::Immediate, .length = data.size()},
      .immediate_data = data
  });
}

struct Refusal {
  std::string what;
  std::size_t at;      // octet that is changed,
  std::uint8_t value;  // to this
  std::size_t size;    // octets of the unit that are left
  ErrorCode code{ErrorCode::InvalidArgument};
};

TEST(SrpCommand, RefusesListsThatContradictEachOther) {  // part of R-SRPT-17
  SrpCommandUnit command{.data_out = indirect(3, 3)};
  const auto whole = to_unit(command, kOffset);
  ASSERT_EQ(whole.size(), 48U + 20U + 48U);
  const std::vector<Refusal> refusals{
      {"a count above the table's", 6, 4, whole.size()},
      {"a table of no whole descriptors", 63, 0x31, whole.size()},
      {"a table of nothing", 63, 0, whole.size()},
      {"descriptors behind the unit's end", 6, 3, whole.size() - 1},
      {"a head that is cut off", 6, 3, 48 + 19},
      {"an additional CDB behind the end", 31, 0xFC, whole.size()},
      {"data-in of format 3", 5, 0x23, whole.size()},
      {"a format that there is not", 5, 0x40, whole.size()},
      {"a command that is cut off", 0, 2, 47, ErrorCode::Io},
  };
  for (const Refusal& refusal : refusals) {
    auto unit = whole;
    unit[refusal.at] = static_cast<std::byte>(refusal.value);
    unit.resize(refusal.size);
    const auto parsed = parse_srp_command(unit, kOffset);
    ASSERT_FALSE(parsed.has_value()) << refusal.what;
    EXPECT_EQ(parsed.error().code, refusal.code) << refusal.what;
    EXPECT_FALSE(parsed.error().reason.empty());
  }
}

TEST(SrpCommand, ImmediateDataMustLieInTheUnit) {  // part of R-SRPT-17
  const std::vector<std::byte> data(100);
  const SrpCommandUnit command{
      .data_out = {.format = SrpBufferFormat::Immediate, .length = data.size()},
      .immediate_data = data
  };
  const auto unit = to_unit(command, kOffset);
  const auto code = [&](std::size_t octets, std::uint16_t offset) {
    const auto parsed = parse_srp_command(ByteSpan{unit}.first(octets), offset);
    return parsed ? ErrorCode::NoData : parsed.error().code;
  };
  EXPECT_EQ(code(unit.size(), kOffset), ErrorCode::NoData);  // no error
  EXPECT_EQ(code(unit.size() - 1, kOffset), ErrorCode::Io);
  EXPECT_EQ(code(60, kOffset), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(unit.size(), 51), ErrorCode::InvalidArgument);  // in the descriptors
  EXPECT_EQ(code(unit.size(), 0xFFFF), ErrorCode::InvalidArgument);
}

TEST(SrpResponse, CarriesResponseDataBeforeSenseData) {  // R-SRPI-7
  const std::vector<std::byte> sense(18, std::byte{0x70});
  const auto unit = to_unit(SrpResponseUnit{
      .header = {.request_limit_delta = -3, .tag = 5, .status = 2},
      .response_code = SrpResponseCode::Failed,
      .sense = sense
  });
  ASSERT_EQ(unit.size(), 36U + 4U + 18U);
  EXPECT_EQ(unit[39], std::byte{5});
  EXPECT_EQ(unit[40], std::byte{0x70});
  const auto judged = srp_tables::decode_unit(unit);
  EXPECT_TRUE(judged.faults.empty()) << judged.faults.front();
  const auto parsed = parse_srp_response(unit);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->header.request_limit_delta, -3);
  EXPECT_EQ(parsed->response_code, SrpResponseCode::Failed);
  EXPECT_TRUE(std::ranges::equal(parsed->sense, sense));
  EXPECT_FALSE(parse_srp_response(ByteSpan{unit}.first(unit.size() - 1)).has_value());
  EXPECT_FALSE(parse_srp_response(ByteSpan{unit}.first(39)).has_value());
  EXPECT_FALSE(parse_srp_response(ByteSpan{unit}.first(35)).has_value());
}

TEST(SrpResponse, LengthsWithoutTheirFlagAreIgnored) {
  const auto unit = to_unit(SrpRsp{.sense_length = 100, .response_length = 100});
  const auto parsed = parse_srp_response(unit);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->sense.empty());
  EXPECT_FALSE(parsed->response_code.has_value());
}

TEST(SrpAer, CarriesSenseData) {
  const std::vector<std::byte> sense(18, std::byte{0x70});
  const auto unit = to_unit(SrpAerUnit{
      .header = {.tag = 9, .lun = 1},
        .sense = sense
  });
  const auto judged = srp_tables::decode_unit(unit);
  EXPECT_TRUE(judged.faults.empty()) << judged.faults.front();
  const auto parsed = parse_srp_aer(unit);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(std::ranges::equal(parsed->sense, sense));
  EXPECT_FALSE(parse_srp_aer(ByteSpan{unit}.first(53)).has_value());
  EXPECT_FALSE(parse_srp_aer(ByteSpan{unit}.first(35)).has_value());
}

TEST(SrpOpcodes, AreKnownOrRefused) {
  int known = 0;
  for (unsigned i = 0; i < 256; ++i) {
    const std::array<std::byte, 1> unit{static_cast<std::byte>(i)};
    const auto opcode = srp_opcode(unit);
    known += opcode.has_value() ? 1 : 0;
    EXPECT_EQ(opcode.has_value(), srp_tables::table_of(static_cast<std::uint8_t>(i)) != nullptr);
  }
  EXPECT_EQ(known, 12);
  EXPECT_FALSE(srp_opcode({}).has_value());
}

TEST(SrpOpcodes, ReasonsAndFunctionsHaveNames) {
  EXPECT_EQ(name_of(SrpTaskFunction::AbortTask), "ABORT TASK");
  EXPECT_TRUE(name_of(static_cast<SrpTaskFunction>(3)).empty());
  EXPECT_FALSE(name_of(SrpLoginRejReason::RequestIuTooLarge).empty());
  EXPECT_TRUE(name_of(static_cast<SrpResponseCode>(3)).empty());
}

TEST(SrpLogin, BothFormsCarryTheSame) {
  Random random{3};
  for (int i = 0; i < 100; ++i) {
    const auto login = arbitrary<SrpLoginReq>(random);
    EXPECT_EQ(from_rdma_cm(to_rdma_cm(login)), login);
  }
}

}  // namespace
}  // namespace weft::wire
