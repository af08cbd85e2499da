#include "os/event_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace weft::os {
namespace {

[[nodiscard]] bool is_readable(int fd) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) == 1;
}

TEST(EventQueue, IsReadableWhileItHoldsEvents) {
  EventQueue<int> queue;
  EXPECT_FALSE(is_readable(queue.fd()));
  queue.push(1);
  queue.push(2);
  EXPECT_TRUE(is_readable(queue.fd()));
  EXPECT_EQ(*queue.take(), 1);
  EXPECT_EQ(*queue.take(), 2);
  EXPECT_FALSE(is_readable(queue.fd()));
}

TEST(EventQueue, AnswersTryAgainWhenTheProgramMadeItNonBlocking) {
  EventQueue<int> queue;
  ASSERT_EQ(fcntl(queue.fd(), F_SETFL, fcntl(queue.fd(), F_GETFL) | O_NONBLOCK), 0);
  const auto none = queue.take();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::TryAgain);
}

TEST(EventQueue, PurgesTheEventsOfWhatGoesAway) {
  EventQueue<int> queue;
  queue.push(1);
  queue.push(2);
  queue.push(1);
  EXPECT_EQ(queue.purge([](int event) { return event == 1; }), 2U);
  EXPECT_EQ(*queue.take(), 2);
  EXPECT_FALSE(is_readable(queue.fd())) << "no count stands for what was purged";
}

}  // namespace
}  // namespace weft::os
