// Where ibsim's protocol is spoken.

#include "daemon/ibsim/place.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace weft::daemon {
namespace {

TEST(IbsimPlace, IsANameOfSocketsOrAPortOfTheLoopback) {
  EXPECT_TRUE(IbsimPlace::read("sim"));
  EXPECT_TRUE(IbsimPlace::read("127.0.0.1:7070"));
  EXPECT_TRUE(IbsimPlace::read("0.0.0.0:7070")) << "a name of sockets";
}

TEST(IbsimPlace, PortsThatAreNoneAreRefused) {
  for (const char* text : {"127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:7070x"}) {
    EXPECT_FALSE(IbsimPlace::read(text)) << text;
  }
}

TEST(IbsimPlace, ClientsHaveThePortsBehind) {
  const auto place = IbsimPlace::read("127.0.0.1:65535");
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->open_client(0, 1)) << "there is no port 65536";
  EXPECT_FALSE(IbsimPlace::read("127.0.0.1:7070")->open_client(0, 65'536));
}

TEST(IbsimPlace, LocalSocketsSayWhoSends) {
  const auto place = IbsimPlace::read("sim");
  IbsimDatagram datagram;
  datagram.sender = {.pid = 7, .uid = getuid(), .gid = 0};
  EXPECT_EQ(place->sender_of(datagram), 7);
  datagram.sender.uid = getuid() + 1;
  EXPECT_FALSE(place->sender_of(datagram));
  EXPECT_FALSE(IbsimPlace::read("127.0.0.1:7070")->sender_of(datagram)) << "not by UDP";
}

}  // namespace
}  // namespace weft::daemon
