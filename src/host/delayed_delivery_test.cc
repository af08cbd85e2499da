#include "host/delayed_delivery.h"

#include <gtest/gtest.h>

#include <mutex>

#include "host/testing/local_process.h"
#include "os/clock.h"

namespace weft::host {
namespace {

using hca::Flow;
using testing::LocalProcess;

/// Copies of packets that take as long as a test says. Links that take time: links_test.cc.
class UnderWay : public ::testing::Test {
 protected:
  UnderWay() {
    header_.opcode = header_.last_opcode = wire::Opcode::UdSendOnly;
    header_.slid = header_.dlid = process_.lid();
    header_.path_mtu_bytes = 4'096;
  }
  void send(Duration time) {
    const std::lock_guard guard{lane_.out_lock(Flow::Request)};
    const Instant at = os::now();
    EXPECT_TRUE(lane_.delay_copy(header_, {},
                                 {.starts = at, .departs = at + time, .arrives = at + time}, {}));
  }

  LocalProcess process_;
  hca::PacketHeader header_;
  Lane& lane_ = process_.parts.lanes.lane_to(LocalProcess::kSelf, kMulticastQpn, kMulticastQpn);
  DelayedDelivery& delivery_ = process_.parts.delivery;
};

TEST_F(UnderWay, APacketLiesInNoRingBeforeItArrives) {
  send(Duration::seconds(100));
  EXPECT_FALSE(delivery_.release_arrived());
  EXPECT_FALSE(lane_.has_record());
  EXPECT_GT(delivery_.next_arrival(), os::now() + Duration::seconds(50));
  EXPECT_TRUE(process_.parts.maintenance.is_needed());
}

TEST_F(UnderWay, APacketThatHasArrivedLiesInItsRing) {
  send({});
  EXPECT_TRUE(delivery_.release_arrived());
  EXPECT_TRUE(lane_.in(Flow::Request).has_record());
  EXPECT_TRUE(process_.parts.progress.sleeper.watches(lane_.number)) << "the thread looks there";
  EXPECT_EQ(delivery_.next_arrival(), Instant::never());
}

TEST_F(UnderWay, AProgramThatEndsWaitsForIt) {
  send(Duration::milliseconds(20));
  delivery_.finish();
  EXPECT_TRUE(lane_.in(Flow::Request).has_record());
  EXPECT_FALSE(process_.parts.links.has_any());
}

}  // namespace
}  // namespace weft::host
