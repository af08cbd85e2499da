#include "ulp/rsocket/stream_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace weft::rsockets {
namespace {

// rc_write_imm_rsockets.pcap, packets 1 and 2: private data of REQ (behind RDMA-CM's header) and
// of REP, of rdma-core's rstream.
constexpr std::array<std::uint8_t, 40> kOfRequest{
    0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7f, 0x4d, 0x00, 0x00,
    0x30, 0x00, 0x00, 0x00, 0x10, 0xb7, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x7f, 0x4d,
    0x05, 0xa1, 0xd0, 0x00, 0x00, 0x00, 0x11, 0xfc, 0x00, 0x08, 0x00, 0x00};
constexpr std::array<std::uint8_t, 40> kOfReply{
    0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7f, 0xb0, 0x18, 0x00,
    0x30, 0x00, 0x00, 0x00, 0x0f, 0xd9, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x7f, 0xb0,
    0x1c, 0x01, 0x10, 0x00, 0x00, 0x00, 0x10, 0xda, 0x00, 0x08, 0x00, 0x00};

[[nodiscard]] ConnectionData read(const std::array<std::uint8_t, 40>& octets) {
  return wire::unpack<ConnectionData>(std::as_bytes(std::span{octets}));
}

TEST(ConnectionData, FromCapture) {
  const ConnectionData request = read(kOfRequest);
  EXPECT_EQ(request.version, kVersion);
  EXPECT_EQ(request.flags, kHasIoMap);
  EXPECT_EQ(request.credits, 384);
  EXPECT_EQ(request.io_map_scale, 0);
  EXPECT_EQ(request.targets, (Target{0x7F4D'0000'3000, 0x10B7, 2}));
  EXPECT_EQ(request.buffer, (Target{0x7F4D'05A1'D000, 0x11FC, 0x8'0000}));
  const ConnectionData reply = read(kOfReply);
  EXPECT_EQ(reply.targets.key, 0xFD9U);
  EXPECT_EQ(reply.buffer.address, 0x7FB0'1C01'1000U);
}

TEST(ConnectionData, RoundTrips) {
  for (const auto& octets : {kOfRequest, kOfReply}) {
    const auto packed = wire::pack(read(octets));
    EXPECT_TRUE(std::ranges::equal(packed, std::as_bytes(std::span{octets})));
  }
}

TEST(Message, HasItsTypeInTheUpperThreeBits) {
  EXPECT_EQ(message(MessageType::Data, 4'096), 4'096U);
  EXPECT_EQ(message(MessageType::Credits, 0x180), 0x8000'0180U);
  EXPECT_EQ(message(MessageType::Control, 2), 0xE000'0002U);
  EXPECT_EQ(type_of(0xC000'0001), MessageType::IoMap);
  EXPECT_EQ(value_of(0xFFFF'FFFF), kMaxValue);
}

TEST(IoMapScale, IsWholeUpTo128AndInStepsOf256Above) {
  EXPECT_EQ(size_of_scale(scale_of_size(0)), 0U);
  EXPECT_EQ(size_of_scale(scale_of_size(128)), 128U);
  EXPECT_EQ(size_of_scale(scale_of_size(1'000)), 768U);
  EXPECT_EQ(size_of_scale(0xFF), 0x7F00U);
}

}  // namespace
}  // namespace weft::rsockets
