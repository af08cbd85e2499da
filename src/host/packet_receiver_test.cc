#include "host/packet_receiver.h"

#include <gtest/gtest.h>

#include <mutex>

#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using hca::Flow;
using hca::WrOpcode;
using testing::LocalProcess;

class PacketsIn : public ::testing::Test {
 protected:
  PacketsIn() {
    process_.connect(a_, b_.number());
    process_.connect(b_, a_.number());
  }
  /// Puts a SEND into the ring as only a hostile process does.
  void send_forged(Lid slid, Lid dlid) {
    hca::PacketHeader header;
    header.opcode = header.last_opcode = wire::Opcode::RcSendOnly;
    header.path_mtu_bytes = 4'096;
    header.slid = slid;
    header.dlid = dlid;
    header.pkey = kDefaultPKey;
    header.dest_qp = b_.number();
    const std::lock_guard guard{lane_.out_lock(Flow::Request)};
    ASSERT_TRUE(lane_.send_copy(header, {}));
  }
  std::size_t take(RecordFilter filter = RecordFilter::All) {
    return process_.parts.receiver.take_requests(lane_, filter);
  }

  LocalProcess process_;
  hca::Qp& a_ = process_.make_qp();
  hca::Qp& b_ = process_.make_qp();
  Lane& lane_ = [this]() -> Lane& {
    return process_.parts.lanes.lane_to(LocalProcess::kSelf, a_.number(), b_.number());
  }();
};

TEST_F(PacketsIn, AreDeliveredAndAnsweredInOneBatch) {
  process_.receive(b_);
  process_.post(a_, WrOpcode::Send);
  process_.post(a_, WrOpcode::RdmaWrite);
  EXPECT_EQ(take(), 2U);
  EXPECT_EQ(process_.completions().size(), 1U) << "the receive";
  EXPECT_EQ(process_.parts.receiver.take_responses(lane_), 1U) << "one ACK for both";
  EXPECT_EQ(process_.completions().size(), 2U);
}

TEST_F(PacketsIn, AreLeftToTheOwnerOfTheRing) {
  process_.post(a_, WrOpcode::RdmaWrite);
  {
    const std::lock_guard owner{lane_.in(Flow::Request).owner};
    EXPECT_EQ(take(), 0U);
  }
  EXPECT_EQ(take(), 1U);
}

TEST_F(PacketsIn, AreLeftToTheApplicationFromTheFirstSendOn) {
  process_.receive(b_);
  lane_.turns.begin_hot();
  process_.post(a_, WrOpcode::RdmaWrite);
  process_.post(a_, WrOpcode::Send);
  process_.post(a_, WrOpcode::RdmaWrite);
  EXPECT_EQ(take(RecordFilter::OneSided), 1U);
  EXPECT_EQ(take(RecordFilter::OneSided), 0U);
  EXPECT_EQ(lane_.turns.take_request_turn(0), station::RequestTurn::TakeSends);
  EXPECT_EQ(take(RecordFilter::NotOneSided), 1U);
  EXPECT_EQ(take(RecordFilter::NotOneSided), 0U) << "the WRITE is the thread's";
  EXPECT_EQ(take(), 1U);
}

TEST_F(PacketsIn, AreDrainedInManyBatches) {
  constexpr unsigned kSends = 200;
  for (unsigned i = 0; i < 2 * kSends; ++i) {
    process_.receive(b_);
  }
  process_.post(a_, WrOpcode::Send);
  process_.deliver();  // the answer has the credits for the others
  EXPECT_EQ(process_.completions().size(), 2U);
  for (unsigned i = 0; i < kSends; ++i) {
    process_.post(a_, WrOpcode::Send);
  }
  const std::scoped_lock owners{lane_.in(Flow::Request).owner, lane_.in(Flow::Response).owner};
  process_.parts.receiver.drain_all(lane_);
  EXPECT_EQ(process_.completions().size(), 2 * kSends) << "received and acknowledged";
}

/// The source is validated against the owner of the lane (docs/ARCHITECTURE.md, decision 11).
TEST_F(PacketsIn, AreRefusedIfTheirAddressesAreNotTheirSenders) {
  const Lid peer{static_cast<std::uint16_t>(process_.lid().value() + 1)};
  process_.receive(b_);
  send_forged(process_.lid(), peer);
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(lane_.fault(Flow::Request), uabi::RecordFault::WrongDestination);
  send_forged(peer, process_.lid());
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(lane_.fault(Flow::Request), uabi::RecordFault::ForgedSource);
  EXPECT_TRUE(process_.completions().empty());
}

}  // namespace
}  // namespace weft::host
