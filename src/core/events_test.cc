#include "core/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using verbs::AsyncEventType;

class Recorder final : public EventHandler {
 public:
  Recorder(Device& device, std::function<void(const Event&)> function)
      : EventHandler(device), function_(std::move(function)) {}
  void handle(const Event& event) override { function_(event); }

 private:
  std::function<void(const Event&)> function_;
};

class EventsTest : public ::testing::Test {
 protected:
  EventsTest() {
    if (!driver_.register_as("X")) {
      ADD_FAILURE() << "the device is not registered";
    }
  }
  ~EventsTest() override { registry_.unregister_device(driver_.device()); }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  FakeDriver driver_{registry_};
};

// Part of T-DEV-7 and R-DEV-12: the cache is refreshed before handlers run.
TEST_F(EventsTest, FindTheTablesRefreshedAlready) {
  Device& device = driver_.device();
  std::vector<Lid> seen;
  Recorder handler{device, [&](const Event& event) {
                     seen.push_back(device.cache(event.port).lid());
                     EXPECT_EQ(find_pkey(device, event.port, PKey{0x8005}).value(), 1);
                   }};
  register_event_handler(handler);
  driver_.port.lid = Lid{42};
  driver_.pkeys = {kDefaultPKey, PKey{0x8005}};
  dispatch_event({.device = &device, .type = AsyncEventType::LidChange, .port = PortNumber{1}});
  EXPECT_TRUE(seen.empty());  // not in the driver's thread
  environment_.run_all();
  EXPECT_THAT(seen, ElementsAre(Lid{42}));
  unregister_event_handler(handler);
}

TEST_F(EventsTest, AreToldInTheirOrderToEachHandlerInTheOrderOfRegistration) {
  std::vector<std::pair<char, AsyncEventType>> log;
  Recorder a{driver_.device(), [&](const Event& event) { log.emplace_back('a', event.type); }};
  Recorder b{driver_.device(), [&](const Event& event) { log.emplace_back('b', event.type); }};
  register_event_handler(a);
  register_event_handler(b);
  const auto tell = [&](AsyncEventType type) {
    dispatch_event({.device = &driver_.device(), .type = type, .port = PortNumber{1}});
  };
  tell(AsyncEventType::PortError);
  tell(AsyncEventType::PortActive);
  environment_.run_all();
  EXPECT_THAT(log, ElementsAre(std::pair{'a', AsyncEventType::PortError},
                               std::pair{'b', AsyncEventType::PortError},
                               std::pair{'a', AsyncEventType::PortActive},
                               std::pair{'b', AsyncEventType::PortActive}));
  unregister_event_handler(a);
  tell(AsyncEventType::SmChange);
  environment_.run_all();
  EXPECT_EQ(log.size(), 5U);
  EXPECT_EQ(log.back().first, 'b');
  unregister_event_handler(b);
}

TEST_F(EventsTest, AreNotToldAnyMoreOnceTheHandlerIsUnregistered) {
  unsigned calls = 0;
  Recorder handler{driver_.device(), [&](const Event& /*event*/) { ++calls; }};
  register_event_handler(handler);
  dispatch_event({.device = &driver_.device(), .type = AsyncEventType::DeviceFatal});
  unregister_event_handler(handler);
  environment_.run_all();
  EXPECT_EQ(calls, 0U);
}

TEST_F(EventsTest, OfAPortThatDoesNotExistAreLoggedAndDropped) {
  dispatch_event(
      {.device = &driver_.device(), .type = AsyncEventType::LidChange, .port = PortNumber{9}});
  EXPECT_EQ(environment_.logged("port 9"), 1U);
  EXPECT_FALSE(environment_.run_one());
}

TEST(EventTypes, AreOfTheDeviceItsPortsOrAnObject) {
  EXPECT_TRUE(is_device_event(AsyncEventType::DeviceFatal));
  EXPECT_FALSE(changes_port_tables(AsyncEventType::DeviceFatal));
  for (const AsyncEventType type :
       {AsyncEventType::PortActive, AsyncEventType::PortError, AsyncEventType::LidChange,
        AsyncEventType::PKeyChange, AsyncEventType::SmChange, AsyncEventType::ClientReregister,
        AsyncEventType::GidChange}) {
    EXPECT_TRUE(is_device_event(type) && changes_port_tables(type));
  }
  for (const AsyncEventType type :
       {AsyncEventType::CqError, AsyncEventType::QpFatal, AsyncEventType::SrqLimitReached,
        AsyncEventType::QpLastWqeReached, AsyncEventType::WqFatal, AsyncEventType::SqDrained}) {
    EXPECT_FALSE(is_device_event(type) || changes_port_tables(type));
  }
}

}  // namespace
}  // namespace weft::core
