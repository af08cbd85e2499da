// PDUs as other implementations send them, and how long their parts are.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "wire/iscsi/login.h"
#include "wire/iscsi/pdu_size.h"
#include "wire/iscsi/scsi_command.h"

namespace weft::wire::iscsi {
namespace {

using Header = std::array<std::uint8_t, kHeaderBytes>;

template <class T>
[[nodiscard]] T as(const Header& octets) {
  return unpack<T>(std::span<const std::byte, kHeaderBytes>{std::as_bytes(std::span{octets})});
}

// The SCSI Command of RFC 7143's CRC example: READ (10) of 2 blocks.
TEST(IscsiPdu, ScsiCommandFromTheRfcsExample) {
  Header octets{0x01, 0xC0};
  octets[16] = 0x14;
  octets[22] = 0x04;
  octets[27] = 0x14;
  octets[31] = 0x18;
  octets[32] = 0x28;
  octets[40] = 0x02;
  const auto command = as<ScsiCommand>(octets);
  EXPECT_EQ(command.opcode, Opcode::ScsiCommand);
  EXPECT_TRUE(command.final && command.read && !command.write && !command.immediate);
  EXPECT_EQ(command.attribute, TaskAttributeCode::Untagged);
  EXPECT_EQ(command.initiator_task_tag, 0x1400'0000U);
  EXPECT_EQ(command.expected_data_transfer_length, 0x400U);
  EXPECT_EQ(command.cmd_sn, 0x14U);
  EXPECT_EQ(command.exp_stat_sn, 0x18U);
  EXPECT_EQ(command.cdb[0], std::byte{0x28});
  const auto packed = pack(command);
  EXPECT_EQ(ByteSpan{packed}[1], std::byte{0xC0});
}

// libiscsi's first Login Request: T=1, CSG=1, NSG=3 after a security stage that it skips.
TEST(IscsiPdu, LoginRequestHasItsFieldsInPlace) {
  const Header octets{0x43, 0x87, 0,    0,    0,    0, 0x01, 0x22, 0x80, 0x12, 0x34,
                      0x56, 0x00, 0x00, 0x00, 0x07, 0, 0,    0,    1,    0,    0x09};
  const auto login = as<LoginRequest>(octets);
  EXPECT_TRUE(login.immediate && login.transit && !login.continues);
  EXPECT_EQ(login.opcode, Opcode::LoginRequest);
  EXPECT_EQ(login.current_stage, LoginStage::LoginOperationalNegotiation);
  EXPECT_EQ(login.next_stage, LoginStage::FullFeature);
  EXPECT_EQ(login.data_segment_length, 0x122U);
  EXPECT_EQ(login.isid, 0x8012'3456'0000U);
  EXPECT_EQ(login.tsih, 7);
  EXPECT_EQ(login.initiator_task_tag, 1U);
  EXPECT_EQ(login.cid, 9);
}

TEST(IscsiPdu, PartsArePaddedAndDigestsFollowThem) {  // RFC 7143 §11.2
  BasicHeader header;
  header.total_ahs_length = 2;
  header.data_segment_length = 5;
  const PduSize size = pdu_size(header, true, true);
  EXPECT_EQ(size.data_offset(), 48U + 8 + 4);
  EXPECT_EQ(size.padding, 3U);
  EXPECT_EQ(size.total(), 48U + 8 + 4 + 5 + 3 + 4);
  header.data_segment_length = 0;
  EXPECT_EQ(pdu_size(header, false, true).total(), 48U + 8) << "no data, no data digest";
}

TEST(IscsiPdu, OpcodesHaveNames) {
  EXPECT_EQ(to_string(Opcode::R2t), "R2T");
  EXPECT_EQ(to_string(static_cast<Opcode>(0x1C)), "reserved opcode");
}

}  // namespace
}  // namespace weft::wire::iscsi
