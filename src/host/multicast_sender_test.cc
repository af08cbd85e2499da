#include "host/multicast_sender.h"

#include <gtest/gtest.h>

#include <mutex>

#include "base/process_slot.h"
#include "host/testing/local_process.h"

namespace weft::host {
namespace {

using hca::Flow;
using testing::LocalProcess;

constexpr Lid kMlid{0xC123};

/// A process that sends to a group that it is in itself.
class MulticastOut : public ::testing::Test {
 protected:
  MulticastOut() {
    header_.opcode = header_.last_opcode = wire::Opcode::UdSendOnly;
    header_.extension.deth.src_qp = first_qpn_of(LocalProcess::kSelf.slot);
    header_.slid = process_.lid();
    header_.dlid = kMlid;
    header_.pkey = kDefaultPKey;
    header_.dest_qp = kMulticastQpn;
    header_.path_mtu_bytes = 4'096;
  }
  void join() { process_.parts.groups.handle({.mlid = kMlid, .members = {LocalProcess::kSelf}}); }
  [[nodiscard]] bool send() { return process_.parts.multicast.send(header_, {}); }
  [[nodiscard]] Lane& lane() {
    return process_.parts.lanes.lane_to(LocalProcess::kSelf, kMulticastQpn, kMulticastQpn);
  }

  LocalProcess process_;
  hca::PacketHeader header_;
};

TEST_F(MulticastOut, IsSentToNobodyInAGroupWithoutMembers) {
  EXPECT_TRUE(send());
  EXPECT_FALSE(lane().has_record());
}

TEST_F(MulticastOut, ComesToAMemberThatHasJoinedSince) {
  EXPECT_TRUE(send());
  join();
  EXPECT_TRUE(send());
  EXPECT_TRUE(lane().in(Flow::Request).has_record());
  EXPECT_EQ(process_.parts.receiver.take_requests(lane(), RecordFilter::All), 1U);
}

TEST_F(MulticastOut, IsLostToAMemberWhoseRingIsFull) {
  join();
  unsigned sent = 0;
  while (sent < 10'000 && send()) {
    ++sent;
  }
  EXPECT_EQ(sent, 10'000U) << "a sender does not wait for it";
  std::size_t taken = 0;
  while (const std::size_t batch =
             process_.parts.receiver.take_requests(lane(), RecordFilter::All)) {
    taken += batch;
  }
  EXPECT_GT(taken, 0U);
  EXPECT_LT(taken, sent);
}

}  // namespace
}  // namespace weft::host
