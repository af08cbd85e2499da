#include "sa/carried_interface.h"

#include <gtest/gtest.h>

#include "mad/management_interface.h"

namespace weft::sa {
namespace {

class CarriedInterfaceTest : public ::testing::Test {
 protected:
  static Instant at(std::int64_t seconds) { return Instant{Duration::seconds(seconds)}; }

  mad::ManagementInterface gsi{mad::InterfaceKind::Gsi};
  SaClient sa{gsi};
  CarriedInterface interface{{.port = PortKey{1}}, sa};
  IpAddress address{IpAddress::v4(0x0A4D'0002)};
  Gid gid{kDefaultGidPrefix, Guid{2}};
};

TEST_F(CarriedInterfaceTest, IsOfItsPort) {
  EXPECT_FALSE(interface.is_up());
  EXPECT_TRUE(interface.gid().is_zero());
  LocalPort port;
  port.state = verbs::PortState::Active;
  port.gids = {gid};
  sa.set_port(port, {});
  EXPECT_TRUE(interface.is_up());
  EXPECT_EQ(interface.gid(), gid);
}

TEST_F(CarriedInterfaceTest, AsksOnceAndAgainForWhoWaitsLonger) {  // R-IPOIB-28
  EXPECT_TRUE(interface.solicit(address, at(2), {}));
  EXPECT_TRUE(interface.solicit(address, at(1), {}));
  EXPECT_TRUE(interface.is_due());
  EXPECT_EQ(interface.poll_question()->until, at(2));
  EXPECT_FALSE(interface.poll_question());
  EXPECT_TRUE(interface.solicit(address, at(3), {}));
  EXPECT_EQ(interface.poll_question()->until, at(3));
  EXPECT_FALSE(interface.is_due());
}

TEST_F(CarriedInterfaceTest, TakesAnswersToWhatItHasAskedAlone) {  // R-IPOIB-28
  interface.take_answer(address, gid);
  EXPECT_TRUE(interface.take_found().empty());
  EXPECT_TRUE(interface.solicit(address, at(1), {}));
  interface.take_answer(address, Gid{});
  interface.take_answer(address, Gid{0xFF12'0000'0000'0000, Guid{1}});
  EXPECT_TRUE(interface.take_found().empty());
  interface.take_answer(address, gid);
  interface.take_answer(address, gid);
  const auto found = interface.take_found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].address, address);
  EXPECT_EQ(found[0].gid, gid);
  EXPECT_FALSE(interface.find(address, {}));  // it is the program that remembers
}

TEST_F(CarriedInterfaceTest, AsksNothingThatNobodyWaitsFor) {
  EXPECT_TRUE(interface.solicit(address, at(1), {}));
  interface.stop_soliciting(address);
  EXPECT_FALSE(interface.poll_question());
}

}  // namespace
}  // namespace weft::sa
