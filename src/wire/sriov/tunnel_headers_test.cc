#include "wire/sriov/tunnel_headers.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::wire {
namespace {

template <std::size_t kBytes>
std::array<std::byte, kBytes> octets(const std::array<std::uint8_t, kBytes>& from) {
  std::array<std::byte, kBytes> to{};
  for (std::size_t i = 0; i < kBytes; ++i) {
    to[i] = static_cast<std::byte>(from[i]);
  }
  return to;
}

TEST(TunnelHeaders, SendHeaderHasMlx4sOffsets) {
  TunnelSendHeader header;
  header.address.port = PortNumber{2};
  header.address.pd = 0x010203;
  header.address.is_global = true;
  header.address.source_path_bits = 5;
  header.address.dlid = Lid{0x1234};
  header.address.gid_index = 7;
  header.address.static_rate = 3;
  header.address.hop_limit = 0x40;
  header.address.sl = ServiceLevel{0xA};
  header.address.traffic_class = 0xBC;
  header.address.flow_label = 0xD'EF01;
  header.address.dgid = Gid{kDefaultGidPrefix, Guid{0x0011'2233'4455'6677}};
  header.remote_qpn = Qpn{1};
  header.qkey = kGsiQKey;
  header.pkey_index = 0x0102;
  const auto expected = octets<56>({
      0x02, 0x01, 0x02, 0x03, 0, 0x85, 0x12, 0x34, 0,    7,    3,    0x40, 0xAB, 0xCD,
      0xEF, 0x01, 0xFE, 0x80, 0, 0,    0,    0,    0,    0,    0x00, 0x11, 0x22, 0x33,
      0x44, 0x55, 0x66, 0x77, 0, 0,    0,    1,    0x80, 0x01, 0,    0,    0,    0,
      0,    0,    0,    0,    0, 0,    0x01, 0x02, 0,    0,    0,    0,    0,    0,
  });
  EXPECT_EQ(pack(header), expected);
  EXPECT_EQ(unpack<TunnelSendHeader>(expected), header);
}

TEST(TunnelHeaders, ReceiveHeaderHasMlx4sOffsets) {
  TunnelReceiveHeader header;
  header.flags = 0x80;
  header.source_qpn = Qpn{0x010203};
  header.is_global = true;
  header.path_bits = 1;
  header.pkey_index = 4;
  header.sl = ServiceLevel{9};
  header.slid = Lid{0x00AB};
  const auto expected = octets<16>({0x80, 1, 2, 3, 0x81, 0, 0, 4, 0x90, 0, 0x00, 0xAB, 0, 0, 0, 0});
  EXPECT_EQ(pack(header), expected);
  EXPECT_EQ(unpack<TunnelReceiveHeader>(expected), header);
}

TEST(TunnelHeaders, BothDirectionsFillABuffer) {
  TunnelSend send;
  send.mad[0] = std::byte{1};
  EXPECT_EQ(pack(send)[56], std::byte{1});
  TunnelReceive receive;
  receive.mad[0] = std::byte{1};
  EXPECT_EQ(pack(receive)[16], std::byte{0x60});  // IPVer of the GRH
  EXPECT_EQ(pack(receive)[56], std::byte{1});
}

}  // namespace
}  // namespace weft::wire
