#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "uabi/messages.h"

namespace weft::uabi {
namespace {

/// And of the octets as many as a batch may have.
TEST(OmniPathMessages, HoldAsManyPacketsAsTheyMay) {
  OmniPathPackets packets;
  packets.packets.assign(
      kMaxOmniPathPackets,
      {std::vector<std::byte>(kMaxOmniPathBatchBytes / kMaxOmniPathPackets, std::byte{1})});
  auto bytes = encode(packets);
  EXPECT_LE(bytes.size(), kMaxMessageBytes);
  EXPECT_TRUE(decode(bytes));
  bytes[12] = static_cast<std::byte>(kMaxOmniPathPackets + 1);  // behind type and `lost`
  bytes.resize(bytes.size() + 4);                               // an empty one
  EXPECT_FALSE(decode(bytes));
}

TEST(OmniPathMessages, HoldAsManyPortsAsTheyMayUnderLongNames) {
  OmniPathPorts ports;
  ports.ports.assign(kMaxOmniPathPorts, {.host = std::string(255, 'h')});
  EXPECT_TRUE(decode(encode(ports)));
}

TEST(OmniPathMessages, KeepPacketsToTheOctet) {
  const std::vector<std::byte> octets{std::byte{1}, std::byte{2}, std::byte{3}};
  const auto decoded = decode(encode(OmniPathPackets{
      5, {{octets}, {}, {std::vector<std::byte>(10'368)}}
  }));
  ASSERT_TRUE(decoded);
  const auto& packets = decoded->get<OmniPathPackets>();
  EXPECT_EQ(packets.lost, 5U);
  ASSERT_EQ(packets.packets.size(), 3U);
  EXPECT_EQ(packets.packets[0].octets, octets);
  EXPECT_TRUE(packets.packets[1].octets.empty());
  EXPECT_EQ(packets.packets[2].octets.size(), 10'368U);
}

}  // namespace
}  // namespace weft::uabi
