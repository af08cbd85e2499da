#include "core/rdma_rw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/dma.h"
#include "core/drain.h"
#include "core/rdma_rw_sizing.h"
#include "core/testing/rdma_rw_fixture.h"
#include "wire/opcode.h"

namespace weft::core {
namespace {

using testing::CountedRequest;
using testing::EngineNetwork;
using testing::posted_requests;
using testing::RdmaRwTest;
using testing::ScatteredMemory;

class RdmaRw : public RdmaRwTest {};

// T-RW-1
TEST_F(RdmaRw, MovesListsOfEachLengthFromEachOffsetBothWays) {
  const std::uint32_t most = pair_.a.qp->init().capabilities.max_send_sge;
  constexpr std::uint32_t kLength = 13;
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{most},
                                  std::size_t{most + 1}, std::size_t{256}, std::size_t{257}}) {
    ScatteredMemory local{count, kLength, 20};
    for (const std::uint32_t offset : {0U, 1U, kLength}) {
      if (offset >= count * kLength) {
        continue;  // T-RW-5
      }
      for (const DmaDirection direction : {DmaDirection::ToDevice, DmaDirection::FromDevice}) {
        expect_moves(local, direction, offset);
      }
    }
  }
}

TEST_F(RdmaRw, TakesOneRequestForAsManyElementsAsTheQpHas) {
  const std::uint32_t most = pair_.a.qp->init().capabilities.max_send_sge;
  RdmaContext context;
  for (const auto& [count, offset, entries] : std::vector<std::array<std::uint32_t, 3>>{
           {1,            0, 1},
           {most,         0, 1},
           {most + 1,     0, 2},
           {most + 1,     5, 1}, // an element less
           {2 * most + 1, 0, 3}
  }) {
    const ScatteredMemory local{count, 5, 8};
    EXPECT_EQ(
        context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice, offset))
            .value(),
        entries);
    context.destroy();
  }
}

// T-RW-4
TEST_F(RdmaRw, IsFollowedByTheChainedSendWhichAloneCompletes) {
  std::vector<wire::Opcode> requests;
  pair_.network.filter = [&](const EngineNetwork::Flight& flight) {
    if (flight.from == 0) {
      requests.push_back(flight.header.opcode);
    }
    return true;
  };
  ScatteredMemory local{9, 100, 128};
  local.fill(3);
  CountedRequest receive;
  ASSERT_TRUE(post_recv(*pair_.b.qp, {.wr_id = wr_id_of(receive.handler)}));
  CountedRequest send;
  const SendWr chained = testing::signaled(send, verbs::WrOpcode::Send);
  RdmaContext context;
  ASSERT_TRUE(context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice)));
  CountedRequest own;
  const std::uint64_t completions = pair_.a.send_cq->counters().completions;
  ASSERT_TRUE(context.post(&own.handler, &chained));
  wait_for(send);
  wait_for(receive);
  pair_.environment.advance(Duration::seconds(1));
  EXPECT_EQ(send.status, verbs::WcStatus::Success);
  EXPECT_EQ(own.calls, 0U);
  EXPECT_EQ(pair_.a.send_cq->counters().completions, completions + 1);
  ASSERT_GT(requests.size(), 1U);
  EXPECT_EQ(requests.back(), wire::Opcode::RcSendOnly);
  requests.pop_back();
  EXPECT_THAT(requests, ::testing::Each(wire::Opcode::RcRdmaWriteOnly));
  EXPECT_TRUE(std::ranges::equal(local.gathered(), std::span{remote_}.first(local.length())));
  context.destroy();
}

TEST_F(RdmaRw, ThatFailsBeforeItsChainTellsItsHandlerWhy) {
  ScatteredMemory local{1, 100, 128};
  RdmaTransfer transfer = transfer_of(local, DmaDirection::ToDevice);
  transfer.rkey = RKey{0x1234'5600};
  CountedRequest own;
  CountedRequest send;
  const SendWr chained = testing::signaled(send, verbs::WrOpcode::Send);
  RdmaContext context;
  ASSERT_TRUE(context.init(*pair_.a.qp, PortNumber{1}, transfer));
  ASSERT_TRUE(context.post(&own.handler, &chained));
  wait_for(send);
  EXPECT_EQ(own.calls, 1U);
  EXPECT_EQ(own.status, verbs::WcStatus::RemoteAccessError);
  EXPECT_EQ(send.status, verbs::WcStatus::WorkRequestFlushed);
  context.destroy();
}

// T-RW-5
TEST_F(RdmaRw, RefusesAnOffsetAtOrBehindTheEndOfTheList) {
  const ScatteredMemory local{3, 10, 16};
  RdmaContext context;
  for (const std::uint32_t offset : {30U, 31U, 0xFFFF'FFFFU}) {
    const auto refused = context.init(*pair_.a.qp, PortNumber{1},
                                      transfer_of(local, DmaDirection::ToDevice, offset));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Io);
  }
  const auto refused =
      context.init(*pair_.a.qp, PortNumber{1}, {.direction = DmaDirection::ToDevice});
  EXPECT_EQ(refused.error().code, ErrorCode::Io);
  EXPECT_TRUE(
      context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice, 29)));
  context.destroy();
}

// R-RW-5: the QP takes nothing more; what was made is taken apart, and works again later.
TEST_F(RdmaRw, MayBeDestroyedAfterItWasRefused) {
  std::vector<CountedRequest> requests(1'000);
  pair_.network.filter = [](const EngineNetwork::Flight&) { return false; };
  std::size_t posted = 0;
  while (post_send(*pair_.a.qp, testing::signaled(requests[posted], verbs::WrOpcode::RdmaWrite))) {
    ASSERT_LT(++posted, requests.size());
  }
  ScatteredMemory local{2, 10, 16};
  RdmaContext context;
  ASSERT_TRUE(context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, DmaDirection::ToDevice)));
  CountedRequest request;
  const auto refused = context.post(&request.handler);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  context.destroy();
  pair_.network.filter = nullptr;
  wait_for(requests[posted - 1]);
  EXPECT_EQ(request.calls, 0U);
  expect_moves(local, DmaDirection::ToDevice, 0);
}

/// A context of three requests, of which the last alone has a handler.
class ChainedRdmaRw : public RdmaRwTest {
 protected:
  void post(const RdmaTransfer& transfer) {
    ASSERT_EQ(context_.init(*pair_.a.qp, PortNumber{1}, transfer).value(), 3U);
    ASSERT_TRUE(context_.post(&request_.handler));
  }

  ScatteredMemory local_{3ULL * pair_.a.qp->init().capabilities.max_send_sge, 10, 16};
  RdmaContext context_;
  CountedRequest request_;
};

TEST_F(ChainedRdmaRw, IsFlushedWithoutAWordOnRequestsThatNobodyWaitsFor) {
  pair_.network.filter = [](const EngineNetwork::Flight&) { return false; };
  post(transfer_of(local_, DmaDirection::ToDevice));
  ASSERT_TRUE(drain_sq(*pair_.a.qp));
  EXPECT_EQ(request_.calls, 1U);
  EXPECT_EQ(request_.status, verbs::WcStatus::WorkRequestFlushed);
  EXPECT_EQ(pair_.environment.logged("handler"), 0U);
  context_.destroy();
}

TEST_F(ChainedRdmaRw, SaysInTheLogWhyARequestHasFailedThatNobodyWaitsFor) {
  RdmaTransfer transfer = transfer_of(local_, DmaDirection::ToDevice);
  transfer.rkey = RKey{0xDEAD'BEEF};
  post(transfer);
  wait_for(request_);
  EXPECT_EQ(request_.status, verbs::WcStatus::WorkRequestFlushed);
  EXPECT_EQ(pair_.environment.logged("without a handler has failed in the CQ of core: status 10"),
            1U);
  context_.destroy();
}

TEST_F(RdmaRw, ReportsThePeersRefusal) {
  const ScatteredMemory local{2, 10, 16};
  RdmaContext context;
  RdmaTransfer transfer = transfer_of(local, DmaDirection::ToDevice);
  transfer.rkey = RKey{0xDEAD'BEEF};
  ASSERT_TRUE(context.init(*pair_.a.qp, PortNumber{1}, transfer));
  EXPECT_EQ(run(context), verbs::WcStatus::RemoteAccessError);
  context.destroy();
}

/// A driver that maps memory, and refuses the third list.
struct Mapped {
  int lists{};
  std::size_t elements{};
};
Mapped mapped_now;

DeviceOperations mapping_operations() {
  DeviceOperations operations = engine::engine_operations();
  operations.map_list = [](Device&, std::span<const ScatterEntry> list,
                           DmaDirection) -> Result<void> {
    if (mapped_now.lists == 2) {
      return fail(ErrorCode::NoBufferSpace, "the test wants it so");
    }
    ++mapped_now.lists;
    mapped_now.elements += list.size();
    return {};
  };
  operations.unmap_list = [](Device&, std::span<const ScatterEntry> list, DmaDirection) {
    --mapped_now.lists;
    mapped_now.elements -= list.size();
  };
  return operations;
}

class MappedRdmaRw : public RdmaRwTest {
 protected:
  MappedRdmaRw() : RdmaRwTest({.depth = 16}, {.operations = mapping_operations}) {}
};

TEST_F(MappedRdmaRw, MapsItsListUntilItIsDestroyedAndPassesARefusalOn) {
  const ScatteredMemory local{3, 10, 16};
  const RdmaTransfer transfer = transfer_of(local, DmaDirection::ToDevice);
  std::array<RdmaContext, 3> contexts;
  ASSERT_TRUE(contexts[0].init(*pair_.a.qp, PortNumber{1}, transfer));
  ASSERT_TRUE(contexts[1].init(*pair_.a.qp, PortNumber{1}, transfer));
  EXPECT_EQ(mapped_now.elements, 6U);
  const auto refused = contexts[2].init(*pair_.a.qp, PortNumber{1}, transfer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::NoBufferSpace);
  contexts[1].destroy();
  EXPECT_EQ(mapped_now.elements, 3U);
  RdmaTransfer beyond = transfer;
  beyond.offset = 30;
  EXPECT_FALSE(contexts[2].init(*pair_.a.qp, PortNumber{1}, beyond));
  EXPECT_EQ(mapped_now.elements, 3U);  // what was mapped for it is not any more
  contexts[0].destroy();
  contexts[0].destroy();
  EXPECT_EQ(mapped_now.lists, 0);
  EXPECT_EQ(mapped_now.elements, 0U);
}

// R-RW-7
TEST_F(RdmaRw, FactorIsByElementsOfAReadWithoutRegions) {
  Device& device = *pair_.a.device;
  const std::uint32_t each = device.attributes().max_sge_read;
  EXPECT_EQ(rdma_mr_factor(device, PortNumber{1}, each), 1U);
  EXPECT_EQ(rdma_mr_factor(device, PortNumber{1}, each + 1), 2U);
  device.init().forces_registration = true;
  EXPECT_EQ(rdma_mr_factor(device, PortNumber{1}, 256), 1U);
  EXPECT_EQ(rdma_mr_factor(device, PortNumber{1}, 257), 2U);
  EXPECT_EQ(rdma_mr_factor(device, PortNumber{1}, 1), 1U);
  EXPECT_EQ(rdma_mr_factor(device, PortNumber{1}, 0), 0U);
}

}  // namespace
}  // namespace weft::core
