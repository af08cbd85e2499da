#include "wire/dissect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "wire/testing/golden_captures.h"

namespace weft::wire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::byte> send_bytes() {
  static constexpr std::array<std::byte, 5> kPayload{};
  IbPacket packet;
  packet.lrh.slid = Lid{3};
  packet.lrh.dlid = Lid{4};
  packet.transport.bth.opcode = Opcode::RcSendOnly;
  packet.transport.bth.dest_qp = Qpn{0x20};
  packet.payload = kPayload;
  std::vector<std::byte> bytes;
  serialise(packet, bytes);
  return bytes;
}

TEST(Dissect, FindsHeadersPayloadAndRightCrcs) {
  const auto dissection = dissect_infiniband(send_bytes());
  ASSERT_TRUE(dissection) << dissection.error().reason;
  EXPECT_EQ(dissection->packet.headers.size(), 2U);
  EXPECT_EQ(dissection->packet.payload_bytes, 5U);
  EXPECT_TRUE(dissection->icrc.is_right());
  ASSERT_TRUE(dissection->vcrc);
  EXPECT_TRUE(dissection->vcrc->is_right());
  EXPECT_EQ(summary(*dissection), "LID 3 -> 4 RC SEND Only DestQP 0x20 PSN 0 5 bytes");
}

TEST(Dissect, DescribesEachFieldInALineOfItsOwn) {
  const std::string text = describe(*dissect_infiniband(send_bytes()));
  EXPECT_THAT(text, HasSubstr("\n  BTH, 12 bytes\n    OpCode  RC SEND Only(4)\n    SE      0\n"));
  EXPECT_THAT(text, HasSubstr("\n  payload: 5 bytes\n  ICRC: 0x"));
  EXPECT_THAT(text, EndsWith(", right\n"));
}

TEST(Dissect, JudgesEachCrcOnItsOwn) {
  std::vector<std::byte> bytes = send_bytes();
  bytes[0] ^= std::byte{0x10};  // VL: only the VCRC covers it
  const auto other_lane = dissect_infiniband(bytes);
  ASSERT_TRUE(other_lane);
  EXPECT_TRUE(other_lane->icrc.is_right());
  EXPECT_FALSE(other_lane->vcrc->is_right());
  EXPECT_THAT(summary(*other_lane), EndsWith(", VCRC wrong"));
  EXPECT_THAT(describe(*other_lane), HasSubstr("wrong: 0x"));

  bytes = send_bytes();
  bytes[7] ^= std::byte{1};  // SLID: both cover it
  EXPECT_THAT(summary(*dissect_infiniband(bytes)), EndsWith(", ICRC wrong, VCRC wrong"));
}

TEST(Dissect, SaysWhichFieldOfForeignBytesIsWrong) {
  std::vector<std::byte> bytes = send_bytes();
  EXPECT_THAT(dissect_infiniband(ByteSpan{bytes}.first(7)).error().reason,
              HasSubstr("LRH needs 8 bytes, 7 are left"));
  EXPECT_THAT(dissect_infiniband(ByteSpan{bytes}.first(bytes.size() - 1)).error().reason,
              HasSubstr("LRH PktLen implies"));
  bytes[8] = std::byte{0x15};
  EXPECT_THAT(dissect_infiniband(bytes).error().reason, HasSubstr("BTH opcode 0x15 is reserved"));
}

TEST(Dissect, TellsAnotherProtocolFromAMalformedPacket) {
  std::vector<std::byte> arp(60);
  arp[12] = std::byte{0x08};
  arp[13] = std::byte{0x06};
  EXPECT_EQ(dissect_ethernet(arp).error().code, ErrorCode::NotSupported);
  EXPECT_EQ(dissect_ethernet(ByteSpan{arp}.first(10)).error().code, ErrorCode::Io);

  bool tried = false;
  for_each_frame(golden_captures().front(), [&](ByteSpan frame) {
    if (!tried && is_roce_v2(frame)) {
      tried = true;
      EXPECT_EQ(dissect_ethernet(frame.first(45)).error().code, ErrorCode::Io);
    }
  });
  EXPECT_TRUE(tried);
}

TEST(Dissect, ReadsEveryRoceFrameOfTheGoldenCapturesAndItsMads) {
  std::size_t frames = 0;
  std::size_t connect_requests = 0;
  for (const auto& file : golden_captures()) {
    for_each_frame(file, [&](ByteSpan frame) {
      const auto dissection = dissect_ethernet(frame);
      if (!dissection && dissection.error().code == ErrorCode::NotSupported) {
        return;
      }
      ASSERT_TRUE(dissection) << file << ": " << dissection.error().reason;
      ++frames;
      EXPECT_TRUE(dissection->icrc.is_right());
      EXPECT_FALSE(dissection->vcrc.has_value());
      const std::string line = summary(*dissection);
      connect_requests += line.ends_with("ComMgt Send ConnectRequest") ? 1U : 0U;
      EXPECT_EQ(line.find("too short"), std::string::npos) << line;
    });
  }
  EXPECT_GT(frames, 1000U);
  EXPECT_GT(connect_requests, 5U);
}

TEST(Dissect, SurvivesAnyBytes) {
  Random random{6};
  std::vector<std::byte> good = send_bytes();
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = good;
    for (std::uint64_t changes = 1 + random.below(4); changes != 0; --changes) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random());
    }
    if (const auto dissection = dissect_infiniband(bytes)) {
      EXPECT_FALSE(describe(*dissection).empty());
      EXPECT_FALSE(to_json(*dissection).empty());
    }
    EXPECT_FALSE(dissect_ethernet(bytes));
  }
}

}  // namespace
}  // namespace weft::wire
