#include "wire/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace weft::wire {
namespace {

using ::testing::HasSubstr;

IbPacket write_packet(std::span<const std::byte> payload) {
  IbPacket packet;
  packet.lrh.slid = Lid{1};
  packet.lrh.dlid = Lid{2};
  packet.transport.bth.opcode = Opcode::RcRdmaWriteOnly;
  packet.transport.bth.pkey = PKey{0xFFFF};
  packet.transport.bth.dest_qp = Qpn{0x12};
  packet.transport.bth.psn = Psn{77};
  packet.transport.reth.dma_length = 3;
  packet.payload = payload;
  return packet;
}

TEST(Print, NamesHeadersAndFieldsAsTheSpecificationDoes) {
  const std::array<std::byte, 3> payload{};
  const PrintedPacket packet = printed(write_packet(payload));
  EXPECT_EQ(packet.summary, "LID 1 -> 2 RC RDMA WRITE Only DestQP 0x12 PSN 77 3 bytes");
  ASSERT_EQ(packet.headers.size(), 3U);
  EXPECT_EQ(packet.headers[0].name, "LRH");
  EXPECT_EQ(packet.headers[1].name, "BTH");
  EXPECT_EQ(packet.headers[2].name, "RETH");
  EXPECT_THAT(to_text(packet), HasSubstr("P_Key=0xffff"));
  EXPECT_THAT(to_text(packet), HasSubstr("PSN=77"));
}

TEST(Print, WritesJsonWithEveryHeader) {
  const std::string json = to_json(printed(write_packet({})));
  EXPECT_THAT(json, HasSubstr("\"header\":\"RETH\""));
  EXPECT_THAT(json, HasSubstr("\"payload_bytes\":0"));
}

}  // namespace
}  // namespace weft::wire
