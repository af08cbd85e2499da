#include "host/application_poller.h"

#include <gtest/gtest.h>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using hca::WrOpcode;
using testing::LocalProcess;

class PollingProgram : public ::testing::Test {
 protected:
  PollingProgram() {
    process_.connect(a_, b_.number());
    process_.connect(b_, a_.number());
  }
  void poll(unsigned times) {
    for (unsigned i = 0; i < times; ++i) {
      process_.parts.poller.poll(*static_cast<CqDriverState*>(process_.cq->driver_data));
    }
  }

  LocalProcess process_;
  hca::Qp& a_ = process_.make_qp();
  hca::Qp& b_ = process_.make_qp();
};

TEST_F(PollingProgram, NeedsNoThread) {
  process_.receive(b_);
  process_.post(a_, WrOpcode::Send);
  poll(2);
  EXPECT_EQ(process_.completions().size(), 2U);
}

TEST_F(PollingProgram, LeavesRequestsToAThreadThatIsHot) {
  Lane& lane = process_.lane_of(a_);
  lane.turns.begin_hot();
  process_.post(a_, WrOpcode::RdmaWrite);
  poll(station::PollingTurns::kPollsBetweenScans - 1);
  EXPECT_TRUE(lane.in(hca::Flow::Request).has_record());
  poll(1);
  EXPECT_FALSE(lane.in(hca::Flow::Request).has_record()) << "it looks after so many empty polls";
}

TEST_F(PollingProgram, TakesNothingOfLanesWhoseQpsCompleteElsewhere) {
  hca::CompletionQueue* const other = *process_.engine().create_cq(16, {});
  process_.parts.qps.add_cq(*other);
  process_.post(a_, WrOpcode::RdmaWrite);
  process_.parts.poller.poll(*static_cast<CqDriverState*>(other->driver_data));
  EXPECT_TRUE(process_.lane_of(a_).in(hca::Flow::Request).has_record());
}

}  // namespace
}  // namespace weft::host
