#include "programs/iscsi/transport.h"

#include <gtest/gtest.h>

namespace weft::programs::iscsi {
namespace {

TEST(HostAndPort, AreBothThere) {
  const auto parsed = parse_host_and_port("127.0.0.1:3260");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->host, "127.0.0.1");
  EXPECT_EQ(parsed->port, 3260);
  EXPECT_EQ(parse_host_and_port("[::1]:0")->host, "::1");
}

TEST(HostAndPort, RefusesWhatIsNoPort) {
  for (const char* const text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999",
                                 "127.0.0.1:-1", "127.0.0.1:1x"}) {
    EXPECT_FALSE(parse_host_and_port(text)) << text;
  }
}

}  // namespace
}  // namespace weft::programs::iscsi
