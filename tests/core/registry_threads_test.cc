#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "core/registry.h"
#include "core/testing/fake_driver.h"
#include "threaded_environment.h"

namespace weft::core {
namespace {

using testing::FakeDriver;
using testing::ThreadedEnvironment;
using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// A client whose calls take as long as a test says, and which checks what it is promised.
class SlowClient final : public Client {
 public:
  explicit SlowClient(std::string name) : Client(std::move(name), false) {}

  Result<void> add(Device& device) override {
    enter(device);
    note("+" + device.name());
    std::this_thread::sleep_for(add_takes);
    leave(device);
    return {};
  }
  void remove(Device& device, void* /*data*/) override {
    enter(device);
    EXPECT_FALSE(is_unregistered) << "a call after the fence";
    std::this_thread::sleep_for(remove_takes);
    note("-" + device.name());
    leave(device);
  }
  void note(std::string line) {
    const std::lock_guard lock{mutex_};
    lines_.push_back(std::move(line));
  }
  [[nodiscard]] std::vector<std::string> lines() {
    const std::lock_guard lock{mutex_};
    return lines_;
  }

  std::chrono::milliseconds add_takes{};
  std::chrono::milliseconds remove_takes{};
  std::atomic<bool> is_unregistered{};

 private:
  void enter(Device& device) {
    const std::lock_guard lock{mutex_};
    EXPECT_TRUE(inside_.insert(&device).second) << "add and remove of one device overlap";
  }
  void leave(Device& device) {
    const std::lock_guard lock{mutex_};
    inside_.erase(&device);
  }

  std::mutex mutex_;
  std::set<Device*> inside_;  // devices that a call of this client is about now
  std::vector<std::string> lines_;
};

// T-DEV-3
TEST(RegistryThreads, UnregisterAClientOnlyAfterItsSlowAddAndItsRemove) {
  ThreadedEnvironment environment;
  Registry registry{environment};
  SlowClient client{"D"};
  client.add_takes = 500ms;
  ASSERT_TRUE(registry.register_client(client));
  FakeDriver driver{registry};
  std::thread adder{[&] { EXPECT_TRUE(driver.register_as("X")); }};
  while (client.lines().empty()) {
    std::this_thread::sleep_for(1ms);
  }
  const auto start = std::chrono::steady_clock::now();
  registry.unregister_client(client);
  client.is_unregistered = true;
  EXPECT_GE(std::chrono::steady_clock::now() - start, 400ms);
  EXPECT_THAT(client.lines(), ElementsAre("+X", "-X"));
  adder.join();
  registry.unregister_device(driver.device());
  EXPECT_THAT(client.lines(), ElementsAre("+X", "-X"));
}

// T-DEV-4
TEST(RegistryThreads, UnregisterADeviceOnceThoughEightOfThemDo) {
  ThreadedEnvironment environment;
  Registry registry{environment};
  SlowClient client{"A"};
  client.remove_takes = 20ms;
  ASSERT_TRUE(registry.register_client(client));
  auto driver =
      std::make_unique<FakeDriver>(registry, kInfinibandPort, FakeDriver::with_deallocation);
  ASSERT_TRUE(driver->register_as("X"));
  std::vector<DeviceReference> held;
  for (int i = 0; i < 8; ++i) {
    held.push_back(registry.get_device_by_name("X"));
  }
  std::vector<std::thread> threads;
  for (DeviceReference& reference : held) {
    threads.emplace_back([&] {
      registry.unregister_device_and_put(std::move(reference));
      EXPECT_THAT(client.lines(), ElementsAre("+X", "-X"));  // it is gone for whoever returns
      EXPECT_FALSE(registry.get_device_by_name("X"));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(driver->freed, 1U);
  driver.reset();
  registry.unregister_client(client);
}

// T-DEV-5
TEST(RegistryThreads, UnregisterADriverOnlyWhenItsQueuedUnregistrationIsDone) {
  ThreadedEnvironment environment;
  Registry registry{environment};
  SlowClient client{"A"};
  ASSERT_TRUE(registry.register_client(client));
  FakeDriver going{registry, kInfinibandPort, FakeDriver::with_deallocation};
  ASSERT_TRUE(going.register_as("X"));
  client.remove_takes = 300ms;
  registry.unregister_device_queued(going.device());
  std::this_thread::sleep_for(50ms);  // half done: its remove sleeps
  std::thread creator;
  FakeDriver late{registry, kInfinibandPort, FakeDriver::with_deallocation};
  std::atomic<bool> is_registered{};
  creator = std::thread{[&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(late.register_as("late"));
    is_registered = true;
  }};
  registry.unregister_driver(FakeDriver::kDriverId);
  EXPECT_EQ(going.freed, 1U);
  EXPECT_THAT(client.lines(), ::testing::Contains("-X"));
  creator.join();
  EXPECT_TRUE(is_registered);
  client.remove_takes = {};
  if (late.freed == 0) {  // it may survive
    registry.unregister_driver(FakeDriver::kDriverId);
  }
  EXPECT_EQ(late.freed, 1U);
  registry.unregister_client(client);
}

/// Lets threads that ask for it look a second time at what they wait for only once a test says so:
/// when what they have seen has come to its end, and more has happened.
class LateLooks final : public ThreadedEnvironment {
 public:
  bool wait_until(const std::function<bool()>& condition, Instant deadline) override {
    bool is_first = true;
    return ThreadedEnvironment::wait_until(
        [&] {
          if (!is_late) {
            return condition();
          }
          while (!is_first && !may_look) {
            std::this_thread::yield();
          }
          const bool holds = condition();
          looks += std::exchange(is_first, false) ? 1 : 0;
          return holds;
        },
        deadline);
  }

  inline static thread_local bool is_late{};  ///< this thread asks for it
  std::atomic<int> looks{};                   ///< waits of such threads that have looked once
  std::atomic<bool> may_look{};
};

TEST(RegistryThreads, LookAtNoClientThatAnotherHasRemovedAndWhichIsGone) {
  class Held final : public Client {
   public:
    explicit Held(std::atomic<bool>& may_end) : Client("held", false), may_end_(may_end) {}
    Result<void> add(Device& /*device*/) override { return {}; }
    void remove(Device& /*device*/, void* /*data*/) override {
      while (!may_end_) {
        std::this_thread::yield();
      }
    }

   private:
    std::atomic<bool>& may_end_;
  };
  LateLooks environment;
  Registry registry{environment};
  std::atomic<bool> may_end{};
  auto client = std::make_unique<Held>(may_end);
  ASSERT_TRUE(registry.register_client(*client));
  FakeDriver driver{registry};
  ASSERT_TRUE(driver.register_as("X"));
  std::thread of_client{[&] {
    registry.unregister_client(*client);
    client.reset();
    environment.may_look = true;
  }};
  while (registry.describe().find("removing") == std::string::npos) {
    std::this_thread::yield();
  }
  std::thread of_device{[&] {
    LateLooks::is_late = true;
    registry.unregister_device(driver.device());
  }};
  while (environment.looks != 2) {  // for its turn, and for the client that another removes
    std::this_thread::yield();
  }
  may_end = true;
  of_client.join();
  of_device.join();
  EXPECT_EQ(registry.describe(), "");
}

// Eight threads register, unregister, rename and look for devices and clients at random.
TEST(RegistryThreads, ComeAndGoAtRandomAndEveryPromiseHolds) {
  ThreadedEnvironment environment;
  Registry registry{environment};
  std::atomic<bool> stops{};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      while (!stops) {
        SlowClient client{"client" + std::to_string(id)};
        EXPECT_TRUE(registry.register_client(client));
        std::this_thread::yield();
        registry.unregister_client(client);
        client.is_unregistered = true;
        const std::vector<std::string> lines = client.lines();
        EXPECT_EQ(std::ranges::count_if(lines, [](const auto& l) { return l[0] == '+'; }),
                  std::ranges::count_if(lines, [](const auto& l) { return l[0] == '-'; }));
      }
    });
    threads.emplace_back([&, id] {
      Random random{id};
      while (!stops) {
        FakeDriver driver{registry, kInfinibandPort, FakeDriver::with_deallocation};
        EXPECT_TRUE(driver.register_as("dev%d"));
        if (DeviceReference held =
                registry.get_device_by_index(static_cast<std::uint32_t>(random.below(4)))) {
          EXPECT_FALSE(held->name().empty());
          EXPECT_TRUE(query_port(*held, PortNumber{1}));
        }
        if (random.below(2) == 0) {
          registry.unregister_device_queued(driver.device());
        } else {
          registry.unregister_device(driver.device());
        }
        while (driver.freed == 0) {
          std::this_thread::yield();
        }
      }
    });
  }
  std::this_thread::sleep_for(2s);
  stops = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(registry.describe(), "");
}

}  // namespace
}  // namespace weft::core
