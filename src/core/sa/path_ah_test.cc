#include "core/sa/path_ah.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using testing::FakeDriver;

constexpr PortNumber kPort{1};
constexpr Gid kOwn{kDefaultGidPrefix, Guid{1}};
constexpr Gid kPeer{kDefaultGidPrefix, Guid{2}};
constexpr NetDevice::MacAddress kMac{std::byte{2}, {}, {}, {}, {}, std::byte{9}};

void with_mac_addresses(DeviceInit& init) {
  init.operations.resolve_mac = [](Device&, const AhAttributes&) {
    return Result<NetDevice::MacAddress>{kMac};
  };
}

[[nodiscard]] wire::PathRecord path_to_peer(std::uint8_t hop_limit) {
  return {.dgid = kPeer,
          .sgid = kOwn,
          .dlid = Lid{7},
          .slid = Lid{0x13},
          .flow_label = 0x12345,
          .hop_limit = hop_limit,
          .tclass = 9,
          .sl = ServiceLevel{3},
          .rate = 6};
}

class PathAh : public ::testing::Test {
 protected:
  PathAh() {
    ib_.gids = {
        Gid{kDefaultGidPrefix, Guid{8}},
        kOwn
    };
    ib_.port.lid = Lid{0x10};
    ib_.port.lmc = 2;
    EXPECT_TRUE(ib_.register_as("ib"));
    EXPECT_TRUE(roce_.register_as("roce"));
    EXPECT_TRUE(roce_.device().cache(kPort).add_gid(kOwn, GidType::RoceV2, {}));
  }
  ~PathAh() override {
    registry_.unregister_device(ib_.device());
    registry_.unregister_device(roce_.device());
  }

  [[nodiscard]] static std::uint32_t references(FakeDriver& driver, std::uint32_t index) {
    return driver.device().cache(kPort).gid_at(index).value()->references() - 1;
  }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  FakeDriver ib_{registry_};
  FakeDriver roce_{
      registry_,
      PortCapabilities{PortCapability::ProtocolRoceUdp} | PortCapability::EthernetAddressHandles,
      with_mac_addresses};
};

TEST_F(PathAh, HoldsTheSourceGidExactlyWhereItHasAGrh) {  // T-SA-6
  const std::uint32_t before = references(ib_, 1);
  auto local = init_ah_attributes_from_path(ib_.device(), kPort, path_to_peer(1));
  ASSERT_TRUE(local) << local.error().reason;
  EXPECT_FALSE(local->address.is_global);
  EXPECT_EQ(references(ib_, 1), before);

  auto global = init_ah_attributes_from_path(ib_.device(), kPort, path_to_peer(2));
  ASSERT_TRUE(global) << global.error().reason;
  EXPECT_EQ(references(ib_, 1), before + 1);
  global->reset();
  EXPECT_EQ(references(ib_, 1), before);

  const std::uint32_t roce_before = references(roce_, 0);
  auto ethernet = init_ah_attributes_from_path(roce_.device(), kPort, path_to_peer(1));
  ASSERT_TRUE(ethernet) << ethernet.error().reason;
  EXPECT_EQ(references(roce_, 0), roce_before + 1);
  EXPECT_EQ(ethernet->destination_mac, kMac);
  ethernet->reset();
  EXPECT_EQ(references(roce_, 0), roce_before);
}

TEST_F(PathAh, HasWhatThePathSays) {
  const auto attributes = init_ah_attributes_from_path(ib_.device(), kPort, path_to_peer(64));
  ASSERT_TRUE(attributes) << attributes.error().reason;
  const verbs::AddressVector expected{
      .dlid = Lid{7},
      .sl = ServiceLevel{3},
      .source_path_bits = 3, // of SLID 0x13, by the LMC of 2
      .static_rate = 6,
      .port = kPort,
      .is_global = true,
      .grh = {.dgid = kPeer,
                  .flow_label = 0x12345,
                  .sgid_index = 1,
                  .hop_limit = 64,
                  .traffic_class = 9}
  };
  EXPECT_EQ(attributes->address, expected);
}

TEST_F(PathAh, IsRefusedAndHoldsNothingWithoutItsPortRateOrSourceGid) {
  const std::uint32_t before = references(ib_, 1);
  const auto refusal = [&](PortNumber port, const wire::PathRecord& path) {
    return init_ah_attributes_from_path(ib_.device(), port, path).error().code;
  };
  for (const PortNumber port : {PortNumber{0}, PortNumber{3}}) {  // T-PORT-2
    EXPECT_EQ(refusal(port, path_to_peer(2)), ErrorCode::InvalidArgument);
  }
  wire::PathRecord path = path_to_peer(2);
  path.rate = 63;
  EXPECT_EQ(refusal(kPort, path), ErrorCode::InvalidArgument);
  path = path_to_peer(2);
  path.sgid = kPeer;
  EXPECT_EQ(refusal(kPort, path), ErrorCode::InvalidArgument);
  EXPECT_EQ(references(ib_, 1), before);
  // A source GID of another device is none of this one.
  EXPECT_EQ(init_ah_attributes_from_path(ib_.device(), kPort, path_to_peer(2),
                                         get_gid(roce_.device(), kPort, 0).value())
                .error()
                .code,
            ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::core
