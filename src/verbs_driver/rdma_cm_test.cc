#include "verbs_driver/rdma_cm.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "verbs_driver/testing/scripted_rdmacm.h"
#include "verbs_driver/threaded_environment.h"

namespace weft::verbs_driver {
namespace {

using verbs::RdmaCmEventType;
using Types = std::vector<RdmaCmEventType>;

constexpr Duration kLongest = Duration::seconds(20);  // policy: of anything, on a busy machine
constexpr std::chrono::milliseconds kWhile{50};       // policy: in which what is wrong happens

/// Handlers that do as a test says, and what they have heard of.
class LiveRdmaCmTest : public ::testing::Test, public core::RdmaCmHandler {
 protected:
  using Does = std::function<void(core::RdmaCmId&, std::unique_ptr<core::RdmaCmId>&)>;

  LiveRdmaCmTest() : cm_(*LiveRdmaCm::start(environment_, {}, library_)) {}

  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override {
    Does does;
    {
      const std::lock_guard lock{mutex_};
      heard_[&id].push_back(event.type);
      does = does_[event.type];
    }
    environment_.notify();
    if (does) {
      does(id, request);
    }
    const std::lock_guard lock{mutex_};
    if (request != nullptr) {
      requests_.push_back(std::move(request));
    }
    ++returned_;
  }

  [[nodiscard]] std::unique_ptr<core::RdmaCmId> make_id() { return *cm_->create_id(*this); }
  [[nodiscard]] rdma_cm_id* native(std::size_t number) const { return scripted_.id(number); }
  [[nodiscard]] Types heard(const core::RdmaCmId& id) {
    const std::lock_guard lock{mutex_};
    return heard_[&id];
  }
  bool await(const std::function<bool()>& condition) {
    return environment_.wait_until(condition, environment_.now() + kLongest);
  }
  bool await_events(const core::RdmaCmId& id, std::size_t count) {
    return await([&] { return heard(id).size() >= count; });
  }
  /// The handler of such events blocks until release().
  void block(RdmaCmEventType type) {
    does_[type] = [this](core::RdmaCmId&, std::unique_ptr<core::RdmaCmId>&) { wait(); };
  }
  void wait() {
    environment_.wait_until([this] { return is_released_.load(); }, Instant::never());
  }
  void release() {
    is_released_ = true;
    environment_.notify();
  }

  verbs_driver::testing::ScriptedRdmaCm scripted_;
  RdmaCmLibrary library_ = verbs_driver::testing::ScriptedRdmaCm::library();
  ThreadedEnvironment environment_{[](core::LogLevel, std::string_view) {}};
  std::unique_ptr<LiveRdmaCm> cm_;
  std::mutex mutex_;
  std::map<const core::RdmaCmId*, Types> heard_;
  std::map<RdmaCmEventType, Does> does_;
  std::vector<std::unique_ptr<core::RdmaCmId>> requests_;
  unsigned returned_{};
  std::atomic<bool> is_released_{};
};

/// T-CM-13, as users of RDMA-CM see it.
TEST_F(LiveRdmaCmTest, AHandlerThatBlocksKeepsNoOtherIdWaiting) {
  block(RdmaCmEventType::AddressResolved);
  const auto blocked = make_id();
  const auto other = make_id();
  scripted_.tell(native(0), RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_TRUE(await_events(*blocked, 1));
  scripted_.tell(native(1), RDMA_CM_EVENT_ROUTE_RESOLVED);
  scripted_.tell(native(1), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_TRUE(await_events(*other, 2));
  release();
  EXPECT_EQ(heard(*other), (Types{RdmaCmEventType::RouteResolved, RdmaCmEventType::Established}));
}

TEST_F(LiveRdmaCmTest, MoreHandlersBlockThanThereAreThreadsAtFirst) {
  constexpr std::size_t kBlocked = 32;
  block(RdmaCmEventType::AddressResolved);
  std::vector<std::unique_ptr<core::RdmaCmId>> blocked;
  for (std::size_t i = 0; i < kBlocked; ++i) {
    blocked.push_back(make_id());
    scripted_.tell(native(i), RDMA_CM_EVENT_ADDR_RESOLVED);
  }
  for (const auto& id : blocked) {
    EXPECT_TRUE(await_events(*id, 1));
  }
  const auto other = make_id();
  scripted_.tell(native(kBlocked), RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_TRUE(await_events(*other, 1));
  release();
}

/// R-CM-12
TEST_F(LiveRdmaCmTest, EventsOfAnIdComeInOrderAndNeverTwoAtOnce) {
  std::atomic<int> inside{};
  std::atomic<bool> were_two{};
  const Does counts = [&](core::RdmaCmId&, std::unique_ptr<core::RdmaCmId>&) {
    were_two = were_two || ++inside != 1;
    std::this_thread::yield();
    --inside;
  };
  does_[RdmaCmEventType::AddressResolved] = counts;
  does_[RdmaCmEventType::RouteResolved] = counts;
  const auto id = make_id();
  Types expected;
  for (int i = 0; i < 500; ++i) {
    scripted_.tell(native(0), RDMA_CM_EVENT_ADDR_RESOLVED);
    scripted_.tell(native(0), RDMA_CM_EVENT_ROUTE_RESOLVED);
    expected.insert(expected.end(),
                    {RdmaCmEventType::AddressResolved, RdmaCmEventType::RouteResolved});
  }
  EXPECT_TRUE(await_events(*id, expected.size()));
  EXPECT_EQ(heard(*id), expected);
  EXPECT_FALSE(were_two);
}

TEST_F(LiveRdmaCmTest, WhoDestroysAnIdWaitsForItsHandlerAndNothingIsToldAfterwards) {
  block(RdmaCmEventType::AddressResolved);
  auto id = make_id();
  const core::RdmaCmId* const named = id.get();
  scripted_.tell(native(0), RDMA_CM_EVENT_ADDR_RESOLVED);
  scripted_.tell(native(0), RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_TRUE(await_events(*id, 1));
  auto destroyed = std::async(std::launch::async, [&] {
    id.reset();
    const std::lock_guard lock{mutex_};
    return returned_;
  });
  EXPECT_EQ(destroyed.wait_for(kWhile), std::future_status::timeout);
  release();
  EXPECT_EQ(destroyed.get(), 1U) << "it did not wait";
  EXPECT_EQ(scripted_.living(), 0U);
  std::this_thread::sleep_for(kWhile);
  EXPECT_EQ(heard(*named), Types{RdmaCmEventType::AddressResolved});
}

TEST_F(LiveRdmaCmTest, AnIdMayBeDestroyedByItsOwnHandler) {
  auto id = make_id();
  const core::RdmaCmId* const named = id.get();
  does_[RdmaCmEventType::Disconnected] = [&](core::RdmaCmId&, std::unique_ptr<core::RdmaCmId>&) {
    scripted_.tell(native(0), RDMA_CM_EVENT_TIMEWAIT_EXIT);
    id.reset();
  };
  scripted_.tell(native(0), RDMA_CM_EVENT_DISCONNECTED);
  scripted_.tell(native(0), RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_TRUE(await([&] { return scripted_.living() == 0; }));
  cm_.reset();  // waits for the handler
  EXPECT_EQ(returned_, 1U);
  EXPECT_EQ(heard(*named), Types{RdmaCmEventType::Disconnected});
}

TEST_F(LiveRdmaCmTest, AHandlerMayDestroyAnotherIdForWhoseHandlerItWaits) {
  block(RdmaCmEventType::AddressResolved);
  auto blocked = make_id();
  auto other = make_id();
  std::atomic<bool> begins{};
  does_[RdmaCmEventType::RouteResolved] = [&](core::RdmaCmId&, std::unique_ptr<core::RdmaCmId>&) {
    begins = true;
    environment_.notify();
    blocked.reset();
  };
  scripted_.tell(native(0), RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_TRUE(await_events(*blocked, 1));
  scripted_.tell(native(1), RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_TRUE(await([&] { return begins.load(); }));
  std::this_thread::sleep_for(kWhile);
  EXPECT_EQ(scripted_.living(), 2U);
  release();
  EXPECT_TRUE(await([&] { return scripted_.living() == 1; }));
}

TEST_F(LiveRdmaCmTest, EventsOfARequestFollowTheHandlerThatTookIt) {
  std::atomic<const core::RdmaCmId*> came{};
  does_[RdmaCmEventType::ConnectRequest] = [&](core::RdmaCmId&,
                                               std::unique_ptr<core::RdmaCmId>& request) {
    came = request.get();
    environment_.notify();
    wait();
  };
  const auto listener = make_id();
  rdma_cm_id* const id = scripted_.request(native(0));
  scripted_.tell(id, RDMA_CM_EVENT_ESTABLISHED);
  scripted_.tell(id, RDMA_CM_EVENT_DISCONNECTED);
  ASSERT_TRUE(await_events(*listener, 1));
  ASSERT_TRUE(await([&] { return came != nullptr; }));
  std::this_thread::sleep_for(kWhile);
  EXPECT_EQ(heard(*came), Types{});
  release();
  EXPECT_TRUE(await_events(*came, 2));
  EXPECT_EQ(heard(*came), (Types{RdmaCmEventType::Established, RdmaCmEventType::Disconnected}));
  const std::lock_guard lock{mutex_};
  EXPECT_EQ(requests_.size(), 1U);
}

/// As a program does whose session ends while it is still being accepted.
TEST_F(LiveRdmaCmTest, WhoDestroysARequestWaitsForTheHandlerThatTakesIt) {
  std::promise<std::unique_ptr<core::RdmaCmId>> taken;
  does_[RdmaCmEventType::ConnectRequest] = [&](core::RdmaCmId&,
                                               std::unique_ptr<core::RdmaCmId>& request) {
    taken.set_value(std::move(request));
    wait();
  };
  const auto listener = make_id();
  scripted_.request(native(0));
  auto destroyed = std::async(std::launch::async, [&] {
    taken.get_future().get().reset();
    const std::lock_guard lock{mutex_};
    return returned_;
  });
  ASSERT_TRUE(await_events(*listener, 1));
  EXPECT_EQ(destroyed.wait_for(kWhile), std::future_status::timeout);
  release();
  EXPECT_EQ(destroyed.get(), 1U) << "it did not wait";
}

TEST_F(LiveRdmaCmTest, ARequestThatNobodyKeepsOrHearsOfIsDestroyed) {
  auto listener = make_id();
  does_[RdmaCmEventType::ConnectRequest] = [&](core::RdmaCmId&,
                                               std::unique_ptr<core::RdmaCmId>& request) {
    request.reset();
    listener.reset();
  };
  scripted_.request(native(0));
  rdma_cm_id* const second = scripted_.request(native(0));
  scripted_.tell(second, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_TRUE(await([&] { return scripted_.living() == 0; }));
  cm_.reset();
  EXPECT_EQ(returned_, 1U);
}

}  // namespace
}  // namespace weft::verbs_driver
