#include "core/port_cache.h"

#include <gtest/gtest.h>

#include "core/ah.h"
#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using testing::FakeDriver;

constexpr PortCapabilities kRoce{PortCapability::ProtocolRoceUdp};
constexpr PortNumber kPort{1};

[[nodiscard]] Gid gid(std::uint64_t number) { return Gid{kDefaultGidPrefix, Guid{number}}; }

class PortCacheTest : public ::testing::Test {
 protected:
  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
};

// Part of T-PORT-1: the cache's look-ups; the tables are written by a subnet manager elsewhere.
TEST_F(PortCacheTest, FindsPKeysByTheirNumberAndPrefersAFullMember) {
  FakeDriver driver{registry_};
  driver.pkeys = {PKey{0x7FFF}, PKey{0x8001}, PKey{0xFFFF}};
  ASSERT_TRUE(driver.register_as("X"));
  Device& device = driver.device();
  EXPECT_EQ(find_pkey(device, kPort, PKey{0x7FFF}).value(), 2);
  EXPECT_EQ(find_pkey(device, kPort, PKey{0x0001}).value(), 1);
  EXPECT_EQ(find_pkey(device, kPort, PKey{0x1234}).error().code, ErrorCode::NotFound);
  EXPECT_EQ(find_exact_cached_pkey(device, kPort, PKey{0x7FFF}).value(), 0);
  EXPECT_EQ(find_exact_cached_pkey(device, kPort, PKey{0x0001}).error().code, ErrorCode::NotFound);
  registry_.unregister_device(device);
}

TEST_F(PortCacheTest, FindsALimitedMemberWhereNoFullOneIs) {
  FakeDriver driver{registry_};
  driver.pkeys = {PKey{0xFFFF}, PKey{0x0005}, PKey{0x0005}};
  ASSERT_TRUE(driver.register_as("X"));
  EXPECT_EQ(find_pkey(driver.device(), kPort, PKey{0x8005}).value(), 1);
  registry_.unregister_device(driver.device());
}

// T-PORT-2
TEST_F(PortCacheTest, KnowsNoPort0AndNoneBehindTheLast) {
  FakeDriver driver{registry_};  // ports 1 and 2
  driver.gids = {gid(1)};
  ASSERT_TRUE(driver.register_as("X"));
  Device& device = driver.device();
  for (const PortNumber port : {PortNumber{0}, PortNumber{3}}) {
    const auto is_invalid = [](const auto& result) {
      return !result && result.error().code == ErrorCode::InvalidArgument;
    };
    EXPECT_TRUE(is_invalid(query_port(device, port)));
    EXPECT_TRUE(is_invalid(query_gid(device, port, 0)));
    EXPECT_TRUE(is_invalid(get_gid(device, port, 0)));
    EXPECT_TRUE(is_invalid(find_cached_gid(device, port, gid(1))));
    EXPECT_TRUE(is_invalid(query_pkey(device, port, 0)));
    EXPECT_TRUE(is_invalid(find_pkey(device, port, kDefaultPKey)));
    EXPECT_TRUE(is_invalid(find_cached_pkey(device, port, kDefaultPKey)));
    EXPECT_TRUE(is_invalid(get_cached_pkey(device, port, 0)));
    EXPECT_TRUE(is_invalid(find_exact_cached_pkey(device, port, kDefaultPKey)));
    EXPECT_TRUE(is_invalid(get_cached_lmc(device, port)));
    EXPECT_TRUE(is_invalid(get_cached_port_state(device, port)));
    EXPECT_TRUE(is_invalid(get_cached_subnet_prefix(device, port)));
    EXPECT_TRUE(is_invalid(modify_port(device, port, {})));
    EXPECT_TRUE(is_invalid(device.set_net_device(nullptr, port)));
    EXPECT_TRUE(is_invalid(ah_attributes_from_wc(device, port, Wc{}, nullptr)));
  }
  EXPECT_EQ(query_pkey(device, kPort, 4).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(query_gid(device, kPort, 4).error().code, ErrorCode::InvalidArgument);
  registry_.unregister_device(device);
}

// T-PORT-4, of which the null pointer is the kernel API's: tests/kernel/ulp.c.
TEST_F(PortCacheTest, FindsAGidOnInfinibandPortsOnly) {
  FakeDriver ib{registry_};
  ib.gids = {gid(1), gid(2)};
  FakeDriver roce{registry_, kRoce};
  ASSERT_TRUE(ib.register_as("ib"));
  ASSERT_TRUE(roce.register_as("roce"));
  ASSERT_TRUE(roce.device().cache(kPort).add_gid(gid(2), GidType::RoceV2, {}));
  const auto found = find_gid(ib.device(), gid(2));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->port, kPort);
  EXPECT_EQ(found->index, 1);
  EXPECT_EQ(find_gid(ib.device(), gid(3)).error().code, ErrorCode::NotFound);
  EXPECT_EQ(find_gid(roce.device(), gid(2)).error().code, ErrorCode::NotFound);
  EXPECT_TRUE(find_cached_gid(roce.device(), gid(2)));
  registry_.unregister_device(ib.device());
  registry_.unregister_device(roce.device());
}

TEST_F(PortCacheTest, ShowsANewGidAtOnceWhileOthersStillHoldTheOldOne) {
  FakeDriver driver{registry_};
  driver.gids = {gid(1)};
  ASSERT_TRUE(driver.register_as("X"));
  PortCache& cache = driver.device().cache(kPort);
  auto old = cache.gid_at(0);
  ASSERT_TRUE(old);
  driver.gids = {gid(7)};
  ASSERT_TRUE(cache.refresh());
  EXPECT_EQ(cache.gid_at(0).value()->gid(), gid(7));
  EXPECT_EQ((*old)->gid(), gid(1));
  EXPECT_EQ((*old)->references(), 1U);
  EXPECT_EQ(cache.find_gid(gid(1)).error().code, ErrorCode::NotFound);
  driver.gids = {};
  ASSERT_TRUE(cache.refresh());
  EXPECT_EQ(cache.gid_at(0).error().code, ErrorCode::NotFound);
  old->reset();
  registry_.unregister_device(driver.device());
}

TEST_F(PortCacheTest, KeepsTheIndexOfARemovedGidUntilNobodyRefersToIt) {
  FakeDriver driver{registry_, kRoce};
  ASSERT_TRUE(driver.register_as("X"));
  PortCache& cache = driver.device().cache(kPort);
  NetDevice eth0{"eth0"};
  ASSERT_EQ(cache.add_gid(gid(1), GidType::RoceV2, NetDeviceReference{&eth0}).value(), 0U);
  EXPECT_EQ(cache.add_gid(gid(1), GidType::RoceV2, NetDeviceReference{&eth0}).error().code,
            ErrorCode::Exists);
  EXPECT_EQ(cache.add_gid(gid(1), GidType::RoceV1, NetDeviceReference{&eth0}).value(), 1U);
  auto held = cache.find_gid(gid(1), GidType::RoceV2, &eth0);
  ASSERT_TRUE(held);
  ASSERT_TRUE(cache.remove_gid(gid(1), GidType::RoceV2, &eth0));
  EXPECT_FALSE(cache.find_gid(gid(1), GidType::RoceV2));
  EXPECT_TRUE(driver.removed_gids.empty());
  EXPECT_EQ(cache.add_gid(gid(2), GidType::RoceV2, {}).value(), 2U);  // not 0: it is held
  held->reset();
  EXPECT_EQ(driver.removed_gids, std::vector{gid(1)});
  EXPECT_EQ(cache.add_gid(gid(3), GidType::RoceV2, {}).value(), 0U);
  EXPECT_EQ(cache.add_gid(gid(4), GidType::RoceV2, {}).value(), 3U);
  EXPECT_EQ(cache.add_gid(gid(5), GidType::RoceV2, {}).error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(cache.add_gid(Gid{}, GidType::RoceV2, {}).error().code, ErrorCode::InvalidArgument);
  registry_.unregister_device(driver.device());
  EXPECT_EQ(eth0.references(), 0U);
}

TEST_F(PortCacheTest, StaysAsItWasWhenTheDriverFails) {
  static bool fails = false;
  fails = false;
  FakeDriver driver{registry_, kInfinibandPort, [](DeviceInit& init) {
                      init.operations.query_pkey = [](Device&, PortNumber, std::uint32_t) {
                        return fails ? Result<PKey>{fail(ErrorCode::Io, "no answer")}
                                     : Result<PKey>{kDefaultPKey};
                      };
                    }};
  driver.port.lmc = 2;
  ASSERT_TRUE(driver.register_as("X"));
  PortCache& cache = driver.device().cache(kPort);
  const std::uint64_t generation = cache.generation();
  fails = true;
  driver.port.lmc = 3;
  EXPECT_EQ(cache.refresh().error().code, ErrorCode::Io);
  EXPECT_EQ(cache.lmc(), 2);
  EXPECT_EQ(cache.generation(), generation);
  fails = false;
  ASSERT_TRUE(cache.refresh());
  EXPECT_EQ(get_cached_lmc(driver.device(), kPort).value(), 3);
  registry_.unregister_device(driver.device());
}

}  // namespace
}  // namespace weft::core
