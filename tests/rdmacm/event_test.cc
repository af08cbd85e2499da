// Events: how they wait, what they tell, and what happens when nobody is left to tell them.

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include <cerrno>
#include <thread>

#include "rdmacm_fixture.h"

namespace {

namespace uabi = weft::uabi;
namespace verbs = weft::verbs;

TEST_F(RdmaCm, ADescriptorIsReadableWhileAnEventWaits) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  const std::uint32_t number = number_of_last_id();
  for (int i = 0; i < 3; ++i) {
    daemon_->raise(number, {.type = verbs::RdmaCmEventType::AddressChange});
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(poll(&readable, 1, 5'000), 1);
    pass(RDMA_CM_EVENT_ADDR_CHANGE);
  }
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, ANonBlockingChannelSaysThatNothingIsThere) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(RdmaCm, AWaitingThreadGetsTheEventThatComes) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  std::thread waiter{[&] { pass(RDMA_CM_EVENT_DEVICE_REMOVAL); }};
  usleep(20'000);
  daemon_->raise(number_of_last_id(), {.type = verbs::RdmaCmEventType::DeviceRemoval});
  waiter.join();
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, ManyEventsWaitAndThreadsShareThem) {
  constexpr int kEvents = 1'000;  // more than a socket has room for octets
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  for (int i = 0; i < kEvents; ++i) {
    daemon_->raise(number_of_last_id(),
                   {.type = verbs::RdmaCmEventType::AddressChange, .status = i});
  }
  const auto take_half = [&] {
    for (int i = 0; i < kEvents / 2; ++i) {
      rdma_cm_event* const event = next(RDMA_CM_EVENT_ADDR_CHANGE);
      ASSERT_NE(event, nullptr);
      rdma_ack_cm_event(event);
    }
  };
  std::thread other{take_half};
  take_half();
  other.join();
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, WithoutADaemonEveryCallFails) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  ::testing::internal::CaptureStderr();
  std::thread killer{[&] {
    usleep(20'000);
    daemon_->die();
  }};
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);  // waited, and wakes
  EXPECT_EQ(errno, EIO);
  killer.join();
  EXPECT_EQ(rdma_listen(id, 1), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(rdma_create_event_channel(), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(rdma_destroy_id(id), -1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("weft: no connections any more, the fabric daemon is gone"),
            std::string::npos);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;  // one each
}

TEST_F(RdmaCm, ADestroyedChannelIsRefusedAndItsWaitersSleep) {
  rdma_event_channel* const other = rdma_create_event_channel();
  struct Waiter {
    rdma_event_channel* channel{};
    std::atomic<bool> is_about_to_wait{false};
  } started{.channel = other};
  pthread_t waiter{};
  ASSERT_EQ(pthread_create(
                &waiter, nullptr,
                [](void* own) -> void* {
                  auto& self = *static_cast<Waiter*>(own);
                  rdma_cm_event* event = nullptr;
                  self.is_about_to_wait = true;
                  rdma_get_cm_event(self.channel, &event);
                  ADD_FAILURE() << "returned";
                  return nullptr;
                },
                &started),
            0);
  while (!started.is_about_to_wait) {
    usleep(1'000);
  }
  usleep(100'000);
  rdma_destroy_event_channel(other);
  usleep(20'000);
  EXPECT_EQ(pthread_cancel(waiter), 0);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(waiter, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(other, &id, nullptr, RDMA_PS_TCP), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(RdmaCm, EventsHaveTheNamesOfTheirEnumerators) {
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_CONNECT_RESPONSE), "RDMA_CM_EVENT_CONNECT_RESPONSE");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
}

}  // namespace
