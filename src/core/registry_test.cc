#include "core/registry.h"
#include "core/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RecordingClient;

class RegistryTest : public ::testing::Test {
 protected:
  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  std::vector<std::string> log_;
};

// T-DEV-1
TEST_F(RegistryTest, TellsClientsInOrderOfRegistrationAndInReverseWhenADeviceGoes) {
  RecordingClient a{"A", log_};
  RecordingClient b{"B", log_};
  RecordingClient c{"C", log_};
  for (Client* const client : std::initializer_list<Client*>{&a, &b, &c}) {
    ASSERT_TRUE(registry_.register_client(*client));
  }
  FakeDriver x{registry_};
  FakeDriver y{registry_};
  ASSERT_TRUE(x.register_as("X"));
  ASSERT_TRUE(y.register_as("Y"));
  EXPECT_THAT(log_, ElementsAre("A+X", "B+X", "C+X", "A+Y", "B+Y", "C+Y"));
  log_.clear();
  registry_.unregister_device(x.device());
  EXPECT_THAT(log_, ElementsAre("C-X", "B-X", "A-X"));
  log_.clear();
  registry_.unregister_device(y.device());
  for (Client* const client : std::initializer_list<Client*>{&a, &b, &c}) {
    registry_.unregister_client(*client);
  }
  EXPECT_THAT(log_, ElementsAre("C-Y", "B-Y", "A-Y"));
}

// T-DEV-2
TEST_F(RegistryTest, TellsALateClientOfAllDevicesBeforeItIsRegistered) {
  FakeDriver x{registry_};
  FakeDriver y{registry_};
  ASSERT_TRUE(x.register_as("X"));
  ASSERT_TRUE(y.register_as("Y"));
  RecordingClient d{"D", log_};
  ASSERT_TRUE(registry_.register_client(d));
  EXPECT_THAT(log_, ElementsAre("D+X", "D+Y"));
  registry_.unregister_client(d);
  EXPECT_THAT(log_, ElementsAre("D+X", "D+Y", "D-X", "D-Y"));
  registry_.unregister_device(x.device());
  registry_.unregister_device(y.device());
  EXPECT_EQ(log_.size(), 4U);
}

// T-DEV-6
TEST_F(RegistryTest, GivesNumberedNamesAgainAndRefusesATakenName) {
  std::vector<std::unique_ptr<FakeDriver>> drivers;
  for (int i = 0; i < 3; ++i) {
    drivers.push_back(std::make_unique<FakeDriver>(registry_));
    ASSERT_TRUE(drivers.back()->register_as("sw%d"));
    EXPECT_EQ(drivers.back()->device().name(), "sw" + std::to_string(i));
    EXPECT_EQ(drivers.back()->device().index(), static_cast<std::uint32_t>(i));
  }
  registry_.unregister_device(drivers[1]->device());
  FakeDriver again{registry_};
  ASSERT_TRUE(again.register_as("sw%d"));
  EXPECT_EQ(again.device().name(), "sw1");
  FakeDriver duplicate{registry_};
  const auto refused = duplicate.register_as("sw2");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::NameTaken);
  EXPECT_FALSE(registry_.get_device_by_index(3));  // nothing of it remained
  EXPECT_TRUE(duplicate.register_as("other"));
  for (Device* const device :
       {&drivers[0]->device(), &drivers[2]->device(), &again.device(), &duplicate.device()}) {
    registry_.unregister_device(*device);
  }
}

TEST_F(RegistryTest, RefusesNamesThatAreNone) {
  FakeDriver driver{registry_};
  for (const char* const name : {"", "a/b", "..", "%s", "a%d%d", "100%"}) {
    const auto refused = driver.register_as(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument) << name;
  }
  EXPECT_FALSE(driver.register_as(std::string(64, 'x')));
}

TEST_F(RegistryTest, RefusesADriverWithoutMandatoryOperationsAndSaysWhichTheyAre) {
  FakeDriver driver{registry_, kInfinibandPort,
                    [](DeviceInit& init) { init.operations.query_port = nullptr; }};
  const auto refused = driver.register_as("X");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(refused.error().reason, HasSubstr("query_port"));
  FakeDriver portless{registry_, kInfinibandPort, [](DeviceInit& init) { init.port_count = 0; }};
  EXPECT_EQ(portless.register_as("Y").error().code, ErrorCode::InvalidArgument);
}

TEST_F(RegistryTest, DoesNotTellClientsThatNeedVerbsOfADeviceWithoutThem) {
  RecordingClient needs{"needs", log_, true};
  RecordingClient other{"other", log_, false};
  ASSERT_TRUE(registry_.register_client(needs));
  ASSERT_TRUE(registry_.register_client(other));
  FakeDriver driver{registry_};  // has no QPs
  ASSERT_TRUE(driver.register_as("X"));
  EXPECT_FALSE(driver.device().has_kernel_verbs());
  EXPECT_THAT(log_, ElementsAre("other+X"));
  registry_.unregister_device(driver.device());
  registry_.unregister_client(needs);
  registry_.unregister_client(other);
}

TEST_F(RegistryTest, LeavesAClientInactiveOnADeviceThatItsAddRefused) {
  RecordingClient client{"A", log_};
  client.refuses = true;
  ASSERT_TRUE(registry_.register_client(client));
  FakeDriver x{registry_};
  ASSERT_TRUE(x.register_as("X"));
  client.refuses = false;
  FakeDriver y{registry_};
  ASSERT_TRUE(y.register_as("Y"));
  int data = 0;
  EXPECT_FALSE(registry_.set_client_data(x.device(), client, &data));
  EXPECT_TRUE(registry_.set_client_data(y.device(), client, &data));
  registry_.unregister_client(client);
  EXPECT_THAT(log_, ElementsAre("A+X", "A+Y", "A-Y"));
  registry_.unregister_device(x.device());
  registry_.unregister_device(y.device());
}

TEST_F(RegistryTest, KeepsAClientsDataFromItsAddToTheEndOfItsRemove) {
  class Keeper final : public Client {
   public:
    Keeper() : Client("keeper", false) {}
    Result<void> add(Device& device) override {
      return device.registry().set_client_data(device, *this, &value);
    }
    void remove(Device& device, void* data) override {
      EXPECT_EQ(data, &value);
      EXPECT_EQ(device.registry().client_data(device, *this), &value);
      EXPECT_TRUE(device.registry().set_client_data(device, *this, nullptr));
    }
    int value{};
  };
  Keeper keeper;
  FakeDriver driver{registry_};
  ASSERT_TRUE(driver.register_as("X"));
  EXPECT_FALSE(registry_.set_client_data(driver.device(), keeper, &keeper.value));
  ASSERT_TRUE(registry_.register_client(keeper));
  EXPECT_EQ(registry_.client_data(driver.device(), keeper), &keeper.value);
  registry_.unregister_client(keeper);
  EXPECT_EQ(registry_.client_data(driver.device(), keeper), nullptr);
  const auto late = registry_.set_client_data(driver.device(), keeper, &keeper.value);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::InvalidArgument);
  registry_.unregister_device(driver.device());
}

TEST_F(RegistryTest, FindsDevicesByNameNumberAndNetDeviceAndHoldsThem) {
  FakeDriver driver{registry_};
  ASSERT_TRUE(driver.register_as("X"));
  {
    const DeviceReference held = registry_.get_device_by_name("X");
    ASSERT_TRUE(held);
    EXPECT_EQ(held.get(), &driver.device());
    EXPECT_EQ(driver.device().references(), 2U);
  }
  EXPECT_EQ(driver.device().references(), 1U);
  EXPECT_TRUE(registry_.get_device_by_name("X", FakeDriver::kDriverId));
  EXPECT_FALSE(registry_.get_device_by_name("X", FakeDriver::kDriverId + 1));
  EXPECT_FALSE(registry_.get_device_by_name("Z"));
  EXPECT_TRUE(registry_.get_device_by_index(0));
  NetDevice net_device{"eth0"};
  EXPECT_FALSE(registry_.get_device_by_net_device(net_device));
  ASSERT_TRUE(driver.device().set_net_device(&net_device, PortNumber{2}));
  EXPECT_EQ(registry_.get_device_by_net_device(net_device).get(), &driver.device());
  registry_.unregister_device(driver.device());
  EXPECT_FALSE(registry_.get_device_by_name("X"));
  EXPECT_EQ(net_device.references(), 0U);
}

TEST_F(RegistryTest, DoesNotFinishUnregisteringADeviceThatIsHeld) {
  FakeDriver driver{registry_};
  ASSERT_TRUE(driver.register_as("X"));
  DeviceReference held = registry_.get_device_by_name("X");
  bool has_put = false;
  Work putter{environment_, WorkContext::WorkQueue, 0, [&] {
                EXPECT_FALSE(registry_.get_device_by_name("X"));  // it is going
                has_put = true;
                held.reset();
              }};
  putter.queue(Duration::milliseconds(500));
  registry_.unregister_device(driver.device());
  EXPECT_TRUE(has_put);
}

TEST_F(RegistryTest, UnregistersLaterOnAWorkQueueAndADriverWaitsForThat) {
  RecordingClient client{"A", log_};
  ASSERT_TRUE(registry_.register_client(client));
  FakeDriver queued{registry_, kInfinibandPort, FakeDriver::with_deallocation};
  FakeDriver other{registry_, kInfinibandPort, FakeDriver::with_deallocation};
  ASSERT_TRUE(queued.register_as("Q"));
  ASSERT_TRUE(other.register_as("O"));
  registry_.unregister_device_queued(queued.device());
  EXPECT_THAT(log_, ElementsAre("A+Q", "A+O"));  // nothing happened yet
  registry_.unregister_driver(FakeDriver::kDriverId);
  EXPECT_EQ(queued.freed, 1U);
  EXPECT_EQ(other.freed, 1U);
  EXPECT_THAT(log_, ElementsAre("A+Q", "A+O", "A-Q", "A-O"));
  registry_.unregister_client(client);
  EXPECT_THAT(environment_.posted(), IsEmpty());
}

TEST_F(RegistryTest, UndoesTheRegistrationWhenTheDriverCannotBeEnabled) {
  RecordingClient client{"A", log_};
  ASSERT_TRUE(registry_.register_client(client));
  FakeDriver driver{registry_, kInfinibandPort, [](DeviceInit& init) {
                      FakeDriver::with_deallocation(init);
                      init.operations.enable_driver = [](Device&) {
                        return Result<void>{fail(ErrorCode::Io, "no link")};
                      };
                    }};
  const auto refused = driver.register_as("X");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Io);
  EXPECT_EQ(driver.freed, 0U);  // it is the driver's again
  EXPECT_THAT(log_, IsEmpty());
  EXPECT_FALSE(registry_.get_device_by_name("X"));
  registry_.unregister_client(client);
}

TEST_F(RegistryTest, TellsClientsOfANewNameAndRefusesATakenOne) {
  RecordingClient client{"A", log_};
  ASSERT_TRUE(registry_.register_client(client));
  FakeDriver x{registry_};
  FakeDriver y{registry_};
  ASSERT_TRUE(x.register_as("X"));
  ASSERT_TRUE(y.register_as("Y"));
  EXPECT_EQ(registry_.rename_device(x.device(), "Y").error().code, ErrorCode::NameTaken);
  EXPECT_EQ(registry_.rename_device(x.device(), "n%d").error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(registry_.rename_device(x.device(), "X"));
  EXPECT_TRUE(registry_.rename_device(x.device(), "Z"));
  EXPECT_THAT(log_, ElementsAre("A+X", "A+Y", "A=Z"));
  EXPECT_TRUE(registry_.get_device_by_name("Z"));
  EXPECT_THAT(registry_.describe(), HasSubstr("Z: registered"));
  EXPECT_THAT(registry_.describe(), HasSubstr("client A: active"));
  registry_.unregister_device(x.device());
  registry_.unregister_device(y.device());
  registry_.unregister_client(client);
}

// T-DEV-8
TEST_F(RegistryTest, HidesADeviceFromOtherNamespacesInExclusiveMode) {
  static const NetNamespace blue{"blue"};
  FakeDriver driver{registry_, kInfinibandPort, [](DeviceInit& init) { init.net = &blue; }};
  ASSERT_TRUE(driver.register_as("X"));
  const auto names = [&](const NetNamespace* net) {
    std::vector<std::string> seen;
    registry_.for_each_device(net, [&](Device& device) { seen.push_back(device.name()); });
    return seen;
  };
  EXPECT_TRUE(driver.device().is_accessible_from(nullptr));
  EXPECT_THAT(names(nullptr), ElementsAre("X"));
  EXPECT_EQ(registry_.set_namespace_mode(NamespaceMode::Exclusive).error().code, ErrorCode::Busy);
  registry_.unregister_device(driver.device());
  ASSERT_TRUE(registry_.set_namespace_mode(NamespaceMode::Exclusive));
  FakeDriver again{registry_, kInfinibandPort, [](DeviceInit& init) { init.net = &blue; }};
  ASSERT_TRUE(again.register_as("X"));
  EXPECT_FALSE(again.device().is_accessible_from(nullptr));
  EXPECT_TRUE(again.device().is_accessible_from(&blue));
  EXPECT_THAT(names(nullptr), IsEmpty());
  EXPECT_THAT(names(&blue), ElementsAre("X"));
  EXPECT_FALSE(registry_.get_device_by_name("X"));
  EXPECT_TRUE(registry_.get_device_by_name("X", kUnknownDriver, &blue));
  registry_.unregister_device(again.device());
}

TEST_F(RegistryTest, AsksClientsForTheNetDeviceOfAConnectionRequest) {
  NetDevice ib0{"ib0"};
  RecordingClient knows{"ipoib", log_};
  knows.knows_pkey = PKey{0x8001};
  knows.net_device = &ib0;
  RecordingClient knows_not{"other", log_};
  ASSERT_TRUE(registry_.register_client(knows_not));
  ASSERT_TRUE(registry_.register_client(knows));
  FakeDriver ib{registry_};
  FakeDriver roce{registry_, PortCapabilities{PortCapability::ProtocolRoceUdp}};
  ASSERT_TRUE(ib.register_as("ib"));
  ASSERT_TRUE(roce.register_as("roce"));
  const NetDeviceParameters right{.port = PortNumber{1}, .pkey = PKey{0x8001}};
  const NetDeviceParameters wrong{.port = PortNumber{1}, .pkey = PKey{0x8002}};
  {
    const NetDeviceReference found = net_device_by_parameters(ib.device(), right);
    EXPECT_EQ(found.get(), &ib0);
    EXPECT_EQ(ib0.references(), 1U);
  }
  EXPECT_EQ(ib0.references(), 0U);
  EXPECT_FALSE(net_device_by_parameters(ib.device(), wrong));
  EXPECT_FALSE(net_device_by_parameters(roce.device(), right));
  registry_.unregister_device(ib.device());
  registry_.unregister_device(roce.device());
  registry_.unregister_client(knows);
  registry_.unregister_client(knows_not);
}

}  // namespace
}  // namespace weft::core
