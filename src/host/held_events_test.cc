#include "host/held_events.h"

#include <gtest/gtest.h>

#include <mutex>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

constexpr Instant kDue{Duration::seconds(5)};

class HeldCompletionEvents : public ::testing::Test {
 protected:
  testing::LocalProcess process_;
  CqDriverState& cq_ = *static_cast<CqDriverState*>(process_.cq->driver_data);
  HeldEvents& held_ = process_.parts.held_events;
};

TEST_F(HeldCompletionEvents, AreDueOnce) {
  held_.hold(cq_, kDue);
  EXPECT_EQ(held_.earliest(), kDue);
  held_.deliver_due(kDue - Duration::microseconds(1));
  EXPECT_EQ(held_.earliest(), kDue);
  held_.deliver_due(kDue);
  EXPECT_EQ(held_.earliest(), Instant::never());
}

TEST_F(HeldCompletionEvents, WaitForTheNewestPeriod) {
  held_.hold(cq_, kDue);
  const Instant later = kDue + Duration::milliseconds(1);
  held_.hold(cq_, later);
  EXPECT_EQ(held_.earliest(), kDue) << "one entry a CQ, which is looked at when it is due";
  held_.deliver_due(kDue);
  EXPECT_EQ(held_.earliest(), later);
}

TEST_F(HeldCompletionEvents, WaitWhileAnotherThreadDestroysCqs) {
  held_.hold(cq_, kDue);
  {
    const std::lock_guard owner{process_.parts.progress.maintenance_owner};
    held_.deliver_due(kDue);
    EXPECT_EQ(held_.earliest(), kDue);
    held_.remove(cq_);
  }
  EXPECT_EQ(held_.earliest(), Instant::never());
}

}  // namespace
}  // namespace weft::host
