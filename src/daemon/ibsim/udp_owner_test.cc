// Lookup of a UDP port's owner in the kernel's table.

#include "daemon/ibsim/udp_owner.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace weft::daemon {
namespace {

const std::string kTable =
    "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode ref pointer drops\n"
    "  541: 0100007F:1F43 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 "
    "4242 2 0000000000000000 0\n"
    " 9001: 00000000:9C41 0100007F:1F43 01 00000000:00000000 00:00000000 00000000   100        0 "
    "4243 2 0000000000000000 0\n";

std::optional<std::uint64_t> find(const std::string& text, std::uint16_t port, uid_t user) {
  std::istringstream table{text};
  return find_udp_socket(table, port, user);
}

TEST(UdpOwner, IsWhoHasThePortBound) {
  EXPECT_EQ(find(kTable, 0x1F43, 1000), 4242U);
  EXPECT_EQ(find(kTable, 0x9C41, 100), 4243U);
  EXPECT_FALSE(find(kTable, 0x9C42, 100)) << "nobody";
  EXPECT_FALSE(find("", 0x9C42, 100));
}

TEST(UdpOwner, IsNobodyWhenItIsAnotherUsers) {
  EXPECT_FALSE(find(kTable, 0x1F43, 100));
  EXPECT_FALSE(find(kTable, 0x9C41, 1000));
}

TEST(UdpOwner, IsNobodyWhenSeveralHaveThePort) {
  EXPECT_FALSE(find(kTable + kTable.substr(kTable.find("  541")), 0x1F43, 1000));
}

TEST(UdpOwner, RowsThatAreCutAreNone) {
  for (std::size_t length = 0; length < kTable.size() - 40; ++length) {
    static_cast<void>(find(kTable.substr(0, length), 0x1F43, 1000));
  }
  EXPECT_FALSE(find("1: x y z\n", 1, 0));
  EXPECT_FALSE(find("1: 0:10000 0 0 0 0 0 0 0 7\n", 0, 0));
}

}  // namespace
}  // namespace weft::daemon
