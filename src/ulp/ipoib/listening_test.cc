#include "ulp/ipoib/listening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ulp/ipoib/testing_packets.h"

namespace weft::ipoib {
namespace {

using ::testing::ElementsAre;
using testing::igmp;
using testing::ip;
using ::testing::IsEmpty;
using testing::mld;

TEST(IpoibListening, FollowsIgmpOfAllVersions) {  // R-IPOIB-8
  EXPECT_THAT(listenings_of(igmp("12000000e0010203")),
              ElementsAre(Listening{ip("224.1.2.3"), true}));
  EXPECT_THAT(listenings_of(igmp("16000000e0010203")),
              ElementsAre(Listening{ip("224.1.2.3"), true}));
  EXPECT_THAT(listenings_of(igmp("17000000e0010203")),
              ElementsAre(Listening{ip("224.1.2.3"), false}));
  EXPECT_THAT(listenings_of(igmp("2200000000000005"
                                 "02000000e0010201"                  // is exclude {}
                                 "03000000e0010202"                  // to include {}: left
                                 "04000000e0010203"                  // to exclude {}
                                 "05010001e00102040a00000100000000"  // allow one, auxiliary data
                                 "06000001e00102050a000001")),       // block one
              ElementsAre(Listening{ip("224.1.2.1"), true}, Listening{ip("224.1.2.2"), false},
                          Listening{ip("224.1.2.3"), true}, Listening{ip("224.1.2.4"), true},
                          Listening{ip("224.1.2.5"), true}));
}

TEST(IpoibListening, FollowsMldOfBothVersions) {  // R-IPOIB-8
  constexpr auto kGroup = "ff0500000000000000000000000000ab";
  EXPECT_THAT(listenings_of(mld(std::string{"8300000000000000"} + kGroup)),
              ElementsAre(Listening{ip("ff05::ab"), true}));
  EXPECT_THAT(listenings_of(mld(std::string{"8400000000000000"} + kGroup)),
              ElementsAre(Listening{ip("ff05::ab"), false}));
  EXPECT_THAT(listenings_of(mld(std::string{"8f00000000000002"} + "04000000" + kGroup + "03000000" +
                                "ff0200000000000000000001ff000001")),
              ElementsAre(Listening{ip("ff05::ab"), true}, Listening{ip("ff02::1:ff00:1"), false}));
}

TEST(IpoibListening, TakesNothingFromOtherPackets) {
  EXPECT_THAT(listenings_of({}), IsEmpty());
  EXPECT_THAT(listenings_of(igmp("11000000e0010203")), IsEmpty());  // a query
  EXPECT_THAT(listenings_of(igmp("160000000a010203")), IsEmpty());  // no group
  EXPECT_THAT(listenings_of(mld("8000000000000000")), IsEmpty());   // an echo request
  EXPECT_THAT(listenings_of(testing::make_packet(ip("10.0.0.1"), ip("224.0.0.1"))), IsEmpty());
}

TEST(IpoibListening, ReadsNoFurtherThanThePacket) {
  for (const auto& whole : {igmp("2200000000000002"
                                 "02000000e0010201"
                                 "04000000e0010203"),
                            mld("8f00000000000001"
                                "04000000"
                                "ff0500000000000000000000000000ab")}) {
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      EXPECT_LE(listenings_of(ByteSpan{whole}.first(bytes)).size(), 1U);
    }
  }
}

TEST(IpoibListening, SaysWhoAPacketIsFromAndFor) {
  EXPECT_EQ(ends_of(testing::make_packet(ip("10.0.0.1"), ip("10.0.0.2")))->destination,
            ip("10.0.0.2"));
  EXPECT_EQ(ends_of(testing::make_packet(ip("fd00::1"), ip("fd00::2")))->source, ip("fd00::1"));
  const auto packet = testing::make_packet(ip("10.0.0.1"), ip("10.0.0.2"));
  EXPECT_FALSE(ends_of(ByteSpan{packet}.first(99)));
  EXPECT_FALSE(ends_of({}));
}

}  // namespace
}  // namespace weft::ipoib
