// Where ibsim's protocol is spoken.

#include "daemon/ibsim/location.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace weft::daemon {
namespace {

TEST(IbsimLocation, IsANameOfSocketsOrAPortOfTheLoopback) {
  EXPECT_TRUE(IbsimLocation::read("sim"));
  EXPECT_TRUE(IbsimLocation::read("127.0.0.1:7070"));
  EXPECT_TRUE(IbsimLocation::read("0.0.0.0:7070")) << "a name of sockets";
}

TEST(IbsimLocation, PortsThatAreNoneAreRefused) {
  for (const char* text : {"127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:7070x"}) {
    EXPECT_FALSE(IbsimLocation::read(text)) << text;
  }
}

TEST(IbsimLocation, ClientsHaveThePortsBehind) {
  const auto place = IbsimLocation::read("127.0.0.1:65535");
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->open_client(0, 1)) << "there is no port 65536";
  EXPECT_FALSE(IbsimLocation::read("127.0.0.1:7070")->open_client(0, 65'536));
}

TEST(IbsimLocation, LocalSocketsSayWhoSends) {
  const auto place = IbsimLocation::read("sim");
  IbsimDatagram datagram;
  datagram.sender = {.pid = 7, .uid = getuid(), .gid = 0};
  EXPECT_EQ(place->sender_of(datagram), 7);
  datagram.sender.uid = getuid() + 1;
  EXPECT_FALSE(place->sender_of(datagram));
  EXPECT_FALSE(IbsimLocation::read("127.0.0.1:7070")->sender_of(datagram)) << "not by UDP";
}

}  // namespace
}  // namespace weft::daemon
