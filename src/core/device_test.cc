#include "core/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/operations.h"
#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using ::testing::IsEmpty;

constexpr PortCapabilities kRoce{PortCapability::ProtocolRoceUdp};

class DeviceTest : public ::testing::Test {
 protected:
  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
};

TEST_F(DeviceTest, HasANetDeviceForEachPortAndHoldsIt) {
  FakeDriver roce{registry_, kRoce};
  FakeDriver ib{registry_};
  ASSERT_TRUE(roce.register_as("roce"));
  ASSERT_TRUE(ib.register_as("ib"));
  NetDevice eth0{"eth0"};
  NetDevice eth1{"eth1"};
  Device& device = roce.device();
  EXPECT_TRUE(device.set_net_device(&eth0, PortNumber{1}));
  EXPECT_TRUE(device.set_net_device(&eth0, PortNumber{1}));  // the same again
  EXPECT_EQ(eth0.references(), 1U);
  EXPECT_TRUE(device.set_net_device(&eth1, PortNumber{2}));
  EXPECT_TRUE(ib.device().set_net_device(&eth1, PortNumber{1}));
  std::vector<std::string> seen;
  registry_.for_each_roce_net_device([&](Device& of, PortNumber port, NetDevice& net_device) {
    seen.push_back(of.name() + "/" + std::to_string(port.value()) + " " + net_device.name());
  });
  EXPECT_THAT(seen, ElementsAre("roce/1 eth0", "roce/2 eth1"));
  EXPECT_TRUE(device.set_net_device(nullptr, PortNumber{1}));
  EXPECT_EQ(eth0.references(), 0U);
  EXPECT_FALSE(device.net_device(PortNumber{1}));
  EXPECT_EQ(device.set_net_device(&eth0, PortNumber{3}).error().code, ErrorCode::InvalidArgument);
  registry_.unregister_device(device);
  registry_.unregister_device(ib.device());
  EXPECT_EQ(eth1.references(), 0U);
}

TEST_F(DeviceTest, ChangesNothingOfAPortThatItsDriverDoesNot) {
  FakeDriver roce{registry_, kRoce};
  FakeDriver ib{registry_};
  ASSERT_TRUE(roce.register_as("roce"));
  ASSERT_TRUE(ib.register_as("ib"));
  const PortModification cm{.set_capabilities = 1U << 16};
  const PortModification management{.set_capabilities = 1U << 19};
  EXPECT_TRUE(modify_port(roce.device(), PortNumber{1}, cm));
  EXPECT_EQ(modify_port(roce.device(), PortNumber{1}, management).error().code,
            ErrorCode::NotSupported);
  EXPECT_EQ(modify_port(ib.device(), PortNumber{1}, cm).error().code, ErrorCode::NotSupported);
  EXPECT_EQ(modify_device(ib.device(), {}).error().code, ErrorCode::NotSupported);
  registry_.unregister_device(roce.device());
  registry_.unregister_device(ib.device());
}

TEST_F(DeviceTest, RefusesANodeDescriptionThatIsTooLong) {
  static std::string told;
  FakeDriver driver{registry_, kInfinibandPort, [](DeviceInit& init) {
                      init.operations.modify_device = [](Device&,
                                                         const DeviceModification& modification) {
                        told = modification.node_description;
                        return Result<void>{};
                      };
                    }};
  ASSERT_TRUE(driver.register_as("X"));
  DeviceModification modification{.mask = DeviceChange::NodeDescription,
                                  .node_description = std::string(64, 'a')};
  EXPECT_TRUE(modify_device(driver.device(), modification));
  EXPECT_EQ(told.size(), 64U);
  modification.node_description += 'b';
  EXPECT_EQ(modify_device(driver.device(), modification).error().code, ErrorCode::InvalidArgument);
  registry_.unregister_device(driver.device());
}

TEST_F(DeviceTest, TellsASubnetPrefixFromTheFirstGid) {
  FakeDriver driver{registry_};
  driver.gids = {
      Gid{0xFEC0'0000'0000'0001, Guid{5}}
  };
  ASSERT_TRUE(driver.register_as("X"));
  EXPECT_EQ(query_port(driver.device(), PortNumber{1})->subnet_prefix, 0xFEC0'0000'0000'0001U);
  EXPECT_EQ(get_cached_subnet_prefix(driver.device(), PortNumber{1}).value(),
            0xFEC0'0000'0000'0001U);
  registry_.unregister_device(driver.device());
}

TEST_F(DeviceTest, NamesWhatIsLeftOfItsObjectsWhenItIsUnregistered) {
  FakeDriver driver{registry_};
  ASSERT_TRUE(driver.register_as("X"));
  const auto pd = allocate_pd(driver.device(), {}, "krping");
  ASSERT_TRUE(pd);
  EXPECT_EQ(driver.device().resource_count(ResourceKind::Pd), 1U);
  registry_.unregister_device(driver.device());
  EXPECT_EQ(environment_.logged("a PD of krping is left"), 1U);
  ASSERT_TRUE(deallocate_pd(**pd));
  EXPECT_THAT(driver.device().left_resources(), IsEmpty());
}

TEST(Operations, ThatAreMissingAreNamed) {
  const MissingOperations all = missing_operations({});
  EXPECT_THAT(all.mandatory, ElementsAre("query_device", "query_port", "get_port_immutable"));
  EXPECT_EQ(all.kernel_verbs.size(), 14U);
}

}  // namespace
}  // namespace weft::core
