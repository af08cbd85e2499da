#include "daemon/ibsim/messages.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace weft::daemon {
namespace {

TEST(IbsimMessages, LieAsInIbsimsHeader) {
  EXPECT_EQ(offsetof(IbsimControl, data), 16U);
  EXPECT_EQ(offsetof(IbsimConnect, node), 12U);
  EXPECT_EQ(offsetof(IbsimVendor, firmware), 16U);
  EXPECT_EQ(offsetof(IbsimPacket, status_be), 16U);
  EXPECT_EQ(offsetof(IbsimPacket, length_be), 24U);
  EXPECT_EQ(offsetof(IbsimPacket, mad), 32U);
}

TEST(IbsimMessages, HaveNumbersOfUmadInNetworkOrder) {
  const IbsimPacket packet{.dlid_be = lid_to_ibsim(Lid{0x0102}), .dqp_be = swapped(1U)};
  const auto bytes = write_ibsim(packet);
  EXPECT_EQ(bytes[0], std::byte{1});
  EXPECT_EQ(bytes[1], std::byte{2});
  EXPECT_EQ(bytes[11], std::byte{1});
  EXPECT_EQ(lid_from_ibsim(packet.dlid_be), Lid{0x0102});
  EXPECT_EQ(lid_from_ibsim(0xFFFF'FFFFU), Lid{0xFFFF});  // what is above 16 bits says nothing
}

TEST(IbsimMessages, HaveOneSize) {
  const std::vector<std::byte> bytes(sizeof(IbsimControl) + 1);
  EXPECT_TRUE(read_ibsim<IbsimControl>(ByteSpan{bytes}.first(sizeof(IbsimControl))));
  EXPECT_FALSE(read_ibsim<IbsimControl>(bytes));
  EXPECT_FALSE(read_ibsim<IbsimControl>(ByteSpan{bytes}.first(sizeof(IbsimControl) - 1)));
  EXPECT_FALSE(read_ibsim<IbsimControl>({}));
}

TEST(IbsimMessages, NameNodesWithUpTo31Letters) {
  IbsimConnect connect;
  set_name(connect, "h1");
  EXPECT_EQ(name_in(connect), "h1");
  set_name(connect, std::string(40, 'x'));
  EXPECT_EQ(name_in(connect), std::string(31, 'x'));
  connect.node.fill('y');  // without an end
  EXPECT_EQ(name_in(connect), std::string(31, 'y'));
}

TEST(IbsimMessages, NameNodesByTheirGuid) {
  EXPECT_EQ(guid_in_ibsim_name("S-0008f10400410015"), Guid{0x0008'F104'0041'0015});
  EXPECT_EQ(guid_in_ibsim_name("H-1"), Guid{1});
  for (const char* const none : {"", "H-", "h1", "H-xyz", "H-00 ", "H-11112222333344445", "X-1"}) {
    EXPECT_FALSE(guid_in_ibsim_name(none)) << none;
  }
}

TEST(IbsimMessages, NameSockets) {
  EXPECT_EQ(ibsim_name("sim", "ctl"), "sim:ctl");
  EXPECT_EQ(ibsim_name("sim", "in", 812), "sim:in812");
}

}  // namespace
}  // namespace weft::daemon
