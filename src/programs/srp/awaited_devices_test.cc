#include "programs/srp/awaited_devices.h"

#include <gtest/gtest.h>

namespace weft::programs::srp {
namespace {

using Names = std::vector<std::string>;

const Error kNone{ErrorCode::NoSuchDevice, "no RDMA device"};

TEST(SrpAwaitedDevices, AreAllThatThereAreUnlessSomeAreNamed) {  // R-SRPT-2
  const AwaitedDevices all{{}};
  EXPECT_EQ(all.missing({"weft0", "weft1"}, {}), (Names{"weft0", "weft1"}));
  EXPECT_EQ(all.missing({"weft0", "weft1"}, {"weft0"}), Names{"weft1"});
  EXPECT_EQ(all.missing({}, {}), Names{});
  const AwaitedDevices named{
      {"weft1", "weft2"}
  };
  EXPECT_EQ(named.missing({"weft0", "weft1"}, {}), (Names{"weft1", "weft2"}));
  EXPECT_EQ(named.missing({"weft0", "weft1"}, {"weft1"}), Names{"weft2"});
  const AwaitedDevices twice{
      {"weft1", "weft1"}
  };
  EXPECT_EQ(twice.missing({}, {}), Names{"weft1"});
}

TEST(SrpAwaitedDevices, ThatOneIsNotThereIsSaidWhenTheWaitingBegins) {
  AwaitedDevices awaited{
      {"weft0", "weft1"}
  };
  const auto first = awaited.add("weft1", kNone);
  EXPECT_EQ(first.reason, "no RDMA device");
  EXPECT_EQ(first.waits_for, "weft1");
  EXPECT_EQ(awaited.add("weft1", {ErrorCode::NoSuchDevice, "of another form"}).reason, "");
  EXPECT_EQ(awaited.add("weft0", kNone).waits_for, "weft0") << "each by itself";
  awaited.remove("weft1");
  EXPECT_EQ(awaited.add("weft0", kNone).waits_for, "");
  const auto gone = awaited.add("weft1", {ErrorCode::NoSuchDevice, "weft1 has gone"});
  EXPECT_EQ(gone.reason, "weft1 has gone");
  EXPECT_EQ(gone.waits_for, "weft1");
}

TEST(SrpAwaitedDevices, WhyOneCannotBeServedIsSaidOnce) {
  AwaitedDevices all{{}};
  EXPECT_EQ(all.add("", kNone).waits_for, "an RDMA device");
  const Error refused{ErrorCode::NotSupported, "it cannot"};
  const auto news = all.add("weft0", refused);
  EXPECT_EQ(news.reason, "it cannot");
  EXPECT_EQ(news.waits_for, "") << "others may be served";
  EXPECT_EQ(all.add("weft0", refused).reason, "");
  EXPECT_EQ(all.add("weft0", {ErrorCode::AddressInUse, "in use"}).reason, "in use");
  all.remove("weft1");
  EXPECT_EQ(all.add("", kNone).waits_for, "an RDMA device") << "there was one meanwhile";
}

}  // namespace
}  // namespace weft::programs::srp
