#include "programs/control/control.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::programs {
namespace {

using Names = std::vector<std::string>;

TEST(Control, ServicesOfAHostAreFoundByTheirNames) {
  const std::string sockets =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 11 @weft-srp-target.7:a/f/h1\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 12 @weft-srp-target.7:a/f/h1\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 13 @weft-srp-attach.9:a/f/h1\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 14 @weft-srp-target.8:a/f/h11\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 15 @weft-srp-target.6:b/f/h1\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 16 @weft-resolver:a/f/h1\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 17 /run/@weft-srp-no:a/f/h1\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 18\n";
  EXPECT_EQ(services_named("srp-", "a/f/h1", sockets), (Names{"srp-attach.9", "srp-target.7"}));
  EXPECT_EQ(services_named("srp-target.", "a/f/h11", sockets), Names{"srp-target.8"});
  EXPECT_EQ(services_named("resolver", "a/f/h1", sockets), Names{"resolver"});
  EXPECT_TRUE(services_named("srp-", "a/f/h2", sockets).empty());
  EXPECT_TRUE(services_named("srp-", "", sockets).empty()) << "on no host";
}

}  // namespace
}  // namespace weft::programs
