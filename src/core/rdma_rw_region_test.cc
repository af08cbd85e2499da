// RDMA contexts through registered regions.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/rdma_rw.h"
#include "core/testing/rdma_rw_fixture.h"

namespace weft::core {
namespace {

using testing::CountedRequest;
using testing::EngineNetwork;
using testing::posted_requests;
using testing::PostedRequests;
using testing::RdmaRwTest;
using testing::ScatteredMemory;

constexpr std::uint32_t kPage = ScatteredMemory::kPage;

class RegionRdmaRw : public RdmaRwTest {
 protected:
  RegionRdmaRw()
      : RdmaRwTest({.depth = 16, .max_rdma_contexts = 2},
                   {.forces_registration = true, .operations = testing::counting_operations}) {}
};

// T-RW-2
TEST_F(RegionRdmaRw, RegistersARegionForEach256ElementsAndInvalidatesItFromTheSecondUseOn) {
  std::uint32_t used = 0;  // of the pool's two
  for (const std::uint32_t count : {1U, 2U, 4U, 5U, 256U, 257U}) {
    ScatteredMemory local{count, kPage, kPage};
    for (const std::uint32_t offset : {0U, 1U, kPage}) {
      if (offset >= count * kPage) {
        continue;
      }
      const std::uint32_t elements = offset == kPage ? count - 1 : count;
      const std::uint32_t regions = (elements + 255) / 256;
      for (const DmaDirection direction : {DmaDirection::ToDevice, DmaDirection::FromDevice}) {
        const PostedRequests before = posted_requests;
        expect_moves(local, direction, offset);
        EXPECT_EQ(posted_requests.registrations - before.registrations, regions);
        EXPECT_EQ(posted_requests.transfers - before.transfers, regions);
        EXPECT_EQ(posted_requests.invalidations - before.invalidations, std::min(used, regions));
        used = std::max(used, regions);
        EXPECT_EQ(pair_.a.qp->rdma_mrs.taken(), 0U);
      }
    }
  }
}

// T-RW-3
TEST_F(RegionRdmaRw, WithoutARegionLeftIsToTryAgainAndLeaksNothing) {
  const ScatteredMemory local{1, kPage, kPage};
  const ScatteredMemory longer{257, kPage, kPage};
  const RdmaTransfer transfer = transfer_of(local, DmaDirection::FromDevice);
  std::array<RdmaContext, 3> contexts;
  ASSERT_TRUE(contexts[0].init(*pair_.a.qp, PortNumber{1}, transfer));
  // It wants two and gets one, which it gives back.
  const auto second =
      contexts[1].init(*pair_.a.qp, PortNumber{1}, transfer_of(longer, DmaDirection::FromDevice));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::TryAgain);
  EXPECT_EQ(pair_.a.qp->rdma_mrs.taken(), 1U);
  ASSERT_TRUE(contexts[1].init(*pair_.a.qp, PortNumber{1}, transfer));
  const auto third = contexts[2].init(*pair_.a.qp, PortNumber{1}, transfer);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::TryAgain);
  EXPECT_EQ(run(contexts[0]), verbs::WcStatus::Success);
  contexts[0].destroy();
  ASSERT_TRUE(contexts[2].init(*pair_.a.qp, PortNumber{1}, transfer));
  EXPECT_EQ(run(contexts[2]), verbs::WcStatus::Success);
  EXPECT_EQ(run(contexts[1]), verbs::WcStatus::Success);
  contexts[1].destroy();
  contexts[2].destroy();
  EXPECT_EQ(pair_.a.qp->rdma_mrs.taken(), 0U);
}

TEST_F(RegionRdmaRw, RefusesAListWithGapsAndGivesTheRegionBack) {
  const ScatteredMemory local{3, 100, 200};
  RdmaContext context;
  const auto refused =
      context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(pair_.a.qp->rdma_mrs.taken(), 0U);
}

// R-RW-5, R-RW-8: a region that was not registered after all is not invalidated by its next user.
TEST_F(RegionRdmaRw, KnowsAfterARefusalWhichRegionsWereRegistered) {
  ScatteredMemory local{1, kPage, kPage};
  expect_moves(local, DmaDirection::ToDevice, 0);  // one region is registered from now on
  // As many requests as leave room for so many of the next context's three.
  for (std::uint32_t room = 0; room < 3; ++room) {
    std::vector<CountedRequest> requests(pair_.a.qp->init().capabilities.max_send_wr - room);
    pair_.network.filter = [](const EngineNetwork::Flight&) { return false; };
    for (CountedRequest& request : requests) {
      ASSERT_TRUE(post_send(*pair_.a.qp, testing::signaled(request, verbs::WrOpcode::RdmaWrite)));
    }
    RdmaContext context;
    ASSERT_EQ(context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice))
                  .value(),
              3U);
    CountedRequest request;
    const auto refused = context.post(&request.handler);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
    context.destroy();
    pair_.network.filter = nullptr;
    wait_for(requests.back());
    const PostedRequests before = posted_requests;
    expect_moves(local, DmaDirection::ToDevice, 0);  // which a wrong key would end
    const bool was_invalidated = room == 1;          // LOCAL_INV went, REG_MR did not
    EXPECT_EQ(posted_requests.invalidations - before.invalidations, was_invalidated ? 0U : 1U);
  }
}

// R-RW-8
TEST_F(RegionRdmaRw, HasRoomInItsQueueForThreeRequestsEach) {
  EXPECT_GE(pair_.a.qp->init().capabilities.max_send_wr, 16U + 3 * 2);
  EXPECT_EQ(pair_.a.qp->rdma_mrs.size(), 2U);
  EXPECT_EQ(pair_.a.qp->signature_mrs.size(), 0U);
}

DeviceOperations operations_with_short_reads() {
  DeviceOperations operations = testing::counting_operations();
  operations.query_device = [](Device& device) {
    auto attributes = engine::engine_operations().query_device(device);
    attributes->max_efficient_read_entries = 2;
    return attributes;
  };
  return operations;
}

class LongReadRdmaRw : public RdmaRwTest {
 protected:
  LongReadRdmaRw()
      : RdmaRwTest({.depth = 16, .max_rdma_contexts = 1},
                   {.operations = operations_with_short_reads}) {}
};

TEST_F(LongReadRdmaRw, GoesThroughARegionOnlyWhereElementsAreMoreThanIsEfficient) {
  for (const std::uint32_t count : {2U, 3U}) {
    ScatteredMemory local{count, kPage, kPage};
    for (const DmaDirection direction : {DmaDirection::ToDevice, DmaDirection::FromDevice}) {
      const PostedRequests before = posted_requests;
      expect_moves(local, direction, 0);
      EXPECT_EQ(posted_requests.registrations - before.registrations,
                count == 3 && direction == DmaDirection::FromDevice ? 1U : 0U);
    }
  }
}

DeviceOperations iwarp_operations() {
  DeviceOperations operations = engine::engine_operations();
  operations.query_device = [](Device& device) {
    auto attributes = engine::engine_operations().query_device(device);
    attributes->capabilities |= DeviceCapability::ReadNeedsRegistration;
    return attributes;
  };
  operations.get_port_immutable = [](Device& device, PortNumber port) {
    auto immutable = engine::engine_operations().get_port_immutable(device, port);
    immutable->capabilities |= PortCapability::ProtocolIwarp;
    return immutable;
  };
  return operations;
}

class IwarpRdmaRw : public RdmaRwTest {
 protected:
  IwarpRdmaRw()
      : RdmaRwTest({.depth = 16, .max_rdma_contexts = 1}, {.operations = iwarp_operations}) {}
};

TEST_F(IwarpRdmaRw, ReadsIntoARegionThatTheReadItselfInvalidates) {
  const ScatteredMemory local{1, kPage, kPage};
  CountedRequest request;
  RdmaContext context;
  for (int use = 0; use < 2; ++use) {
    ASSERT_EQ(context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::FromDevice))
                  .value(),
              2U);  // never a LOCAL_INV
    const SendWr& enroll = context.work_requests(&request.handler);
    EXPECT_EQ(enroll.opcode, verbs::WrOpcode::RegisterMemory);
    EXPECT_TRUE(enroll.access.has(verbs::Access::RemoteWrite));
    const SendWr& read = *enroll.next;
    EXPECT_EQ(read.opcode, kRdmaReadWithInvalidate);
    EXPECT_EQ(read.invalidate_rkey.value(), enroll.key);
    EXPECT_EQ(read.sges.front().lkey.value(), enroll.key);
    EXPECT_EQ(read.next, nullptr);
    context.destroy();
  }
  ASSERT_EQ(
      context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice)).value(),
      1U);
  context.destroy();
}

}  // namespace
}  // namespace weft::core
