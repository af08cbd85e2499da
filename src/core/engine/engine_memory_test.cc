#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "core/engine/engine.h"
#include "core/mr.h"
#include "core/testing/engine_pair.h"

namespace weft::core::engine {
namespace {

using core::testing::CountedRequest;
using core::testing::EnginePair;
using core::testing::signaled;
using ::testing::Each;

constexpr std::uint32_t kPage = 4'096;
constexpr verbs::AccessFlags kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                    verbs::Access::RemoteWrite | verbs::Access::RemoteRead;

class EngineMemory : public ::testing::Test {
 protected:
  EngineMemory() : memory_(20 * kPage) {
    const auto address = std::bit_cast<std::uint64_t>(memory_.data());
    base_ = (address + kPage - 1) & ~std::uint64_t{kPage - 1};
  }

  [[nodiscard]] std::span<std::byte> bytes(std::uint64_t from, std::size_t length) {
    return {std::bit_cast<std::byte*>(base_ + from), length};
  }
  [[nodiscard]] ScatterEntry entry(std::uint64_t from, std::uint32_t length) const {
    return {.address = base_ + from, .length = length};
  }
  /// A work request of b's, and how it ends.
  [[nodiscard]] verbs::WcStatus run(core::Qp& qp, SendWr wr) {
    CountedRequest request;
    wr.wr_id = wr_id_of(request.handler);
    wr.flags = verbs::Send::Signaled;
    const auto posted = post_send(qp, wr);
    EXPECT_TRUE(posted) << posted.error().reason;
    pair_.environment.wait_until([&] { return request.calls != 0; },
                                 pair_.environment.now() + Duration::seconds(30));
    return request.status;
  }
  [[nodiscard]] verbs::WcStatus enroll(core::Mr& mr) {
    update_fast_registration_key(mr, static_cast<std::uint8_t>(next_key(mr.rkey.value())));
    SendWr wr;
    wr.opcode = verbs::WrOpcode::RegisterMemory;
    wr.mr = &mr;
    wr.key = mr.rkey.value();
    wr.access = kAll;
    return run(*pair_.b.qp, wr);
  }
  [[nodiscard]] verbs::WcStatus write(const core::Mr& mr, std::uint64_t offset,
                                      std::uint32_t length) {
    const std::array sges{pair_.a.sge(0, length)};
    SendWr wr;
    wr.opcode = verbs::WrOpcode::RdmaWrite;
    wr.sges = sges;
    wr.remote_address = mr.iova + offset;
    wr.rkey = mr.rkey;
    return run(*pair_.a.qp, wr);
  }

  EnginePair pair_;
  std::vector<std::byte> memory_;
  std::uint64_t base_{};
};

// T-MR-2
TEST_F(EngineMemory, AMappedListTakesAWriteUpToItsLastByteAndNotAByteMore) {
  core::Mr* const mr = *allocate_mr(*pair_.b.pd, MrType::MemoryRegistration, 8);
  const std::array list{entry(0, kPage), entry(4 * kPage, kPage), entry(2 * kPage, 100)};
  std::uint32_t offset = 16;
  ASSERT_EQ(map_mr_sg(*mr, list, &offset, kPage).value(), 3U);
  ASSERT_EQ(mr->length, 2U * kPage - 16 + 100);
  ASSERT_EQ(enroll(*mr), verbs::WcStatus::Success);
  std::ranges::fill(pair_.a.memory, std::byte{0xAB});
  ASSERT_EQ(write(*mr, 0, static_cast<std::uint32_t>(mr->length)), verbs::WcStatus::Success);
  EXPECT_THAT(bytes(0, 16), Each(std::byte{0}));
  EXPECT_THAT(bytes(16, kPage - 16), Each(std::byte{0xAB}));
  EXPECT_THAT(bytes(4 * kPage, kPage), Each(std::byte{0xAB}));
  EXPECT_THAT(bytes(2 * kPage, 100), Each(std::byte{0xAB}));
  const std::vector<std::byte> before = memory_;
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(before, std::byte{0xAB})), mr->length);
  EXPECT_EQ(write(*mr, mr->length - 4, 5), verbs::WcStatus::RemoteAccessError);
  EXPECT_EQ(memory_, before);
  EXPECT_TRUE(deregister_mr(*mr));
}

// T-MR-3
TEST_F(EngineMemory, IsOutOfReachOfThePeerAfterLocalInvalidate) {
  core::Mr* const mr = *allocate_mr(*pair_.b.pd, MrType::MemoryRegistration, 1);
  const std::array list{entry(0, 64)};
  ASSERT_EQ(map_mr_sg(*mr, list, nullptr, kPage).value(), 1U);
  ASSERT_EQ(enroll(*mr), verbs::WcStatus::Success);
  ASSERT_EQ(write(*mr, 0, 8), verbs::WcStatus::Success);
  SendWr invalidate;
  invalidate.opcode = verbs::WrOpcode::LocalInvalidate;
  invalidate.invalidate_rkey = mr->rkey;
  ASSERT_EQ(run(*pair_.b.qp, invalidate), verbs::WcStatus::Success);
  EXPECT_EQ(write(*mr, 0, 8), verbs::WcStatus::RemoteAccessError);
  EXPECT_TRUE(deregister_mr(*mr));
}

// T-MR-1, with sg_to_pages_test.cc's table: all of a list with gaps.
TEST_F(EngineMemory, AListWithGapsIsMappedWhole) {
  core::Mr* const mr = *allocate_mr(*pair_.b.pd, MrType::SgGaps, 8);
  const std::array list{entry(3, 10), entry(5'000, 7), entry(100, 1), entry(9'000, 33)};
  std::uint32_t offset = 4;
  ASSERT_EQ(map_mr_sg(*mr, list, &offset, 0).value(), 4U);
  EXPECT_EQ(offset, 0U);
  EXPECT_EQ(mr->length, 6U + 7 + 1 + 33);
  EXPECT_EQ(mr->iova, base_ + 7);
  ASSERT_EQ(enroll(*mr), verbs::WcStatus::Success);
  std::ranges::fill(pair_.a.memory, std::byte{0xCD});
  ASSERT_EQ(write(*mr, 0, 47), verbs::WcStatus::Success);
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0xCD}), 47);
  EXPECT_THAT(bytes(9'000, 33), Each(std::byte{0xCD}));
  core::Mr* const small = *allocate_mr(*pair_.b.pd, MrType::SgGaps, 2);
  EXPECT_EQ(map_mr_sg(*small, list, nullptr, 0).value(), 2U);
  EXPECT_TRUE(deregister_mr(*mr));
  EXPECT_TRUE(deregister_mr(*small));
}

TEST_F(EngineMemory, RefusesListsThatTheRegionIsNotFor) {
  const auto code_of = [](const auto& result) { return result.error().code; };
  Pd& pd = *pair_.b.pd;
  EXPECT_EQ(code_of(allocate_mr(pd, MrType::Integrity, 1)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(allocate_mr(pd, MrType::MemoryRegistration, 0)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(allocate_mr(pd, MrType::MemoryRegistration, 1U << 20)),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(allocate_mr_integrity(pd, 1, 0)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(allocate_mr_integrity(pd, 1U << 20, 1)), ErrorCode::InvalidArgument);
  core::Mr* const mr = *allocate_mr(pd, MrType::MemoryRegistration, 1);
  const std::array list{entry(0, kPage)};
  EXPECT_EQ(code_of(map_mr_sg(*mr, list, nullptr, 3'000)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(map_mr_sg(*mr, {}, nullptr, kPage)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(map_mr_sg_pi(*mr, {}, {}, kPage)), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of(check_mr_status(*mr)), ErrorCode::NotSupported);
  EXPECT_EQ(deallocate_pd(pd).error().code, ErrorCode::Busy);
  EXPECT_TRUE(deregister_mr(*mr));
}

// T-PD-1
TEST_F(EngineMemory, KeepsItsPdUntilItIsGone) {
  Pd* const pd = *allocate_pd(*pair_.b.device);
  EXPECT_NE(pd->local_dma_lkey(), LKey{});
  EXPECT_EQ(pd->uses(), 0U);  // the region behind that key is no object of a user's
  core::Mr* const mr =
      *register_user_mr(*pd, {.start = base_, .length = 64, .iova = base_}, kAll, nullptr);
  EXPECT_EQ(deallocate_pd(*pd).error().code, ErrorCode::Busy);
  EXPECT_EQ(pair_.b.device->resource_count(ResourceKind::Pd), 2U);
  EXPECT_TRUE(deregister_mr(*mr));
  EXPECT_TRUE(deallocate_pd(*pd));
}

TEST_F(EngineMemory, OpensAllMemoryToPeersOnlyWhereItsUserWantsThat) {
  EXPECT_EQ(pair_.a.pd->unsafe_global_rkey(), RKey{});
  Pd* const pd = *allocate_pd(*pair_.a.device, PdFlag::UnsafeGlobalRkey, "careless");
  EXPECT_NE(pd->unsafe_global_rkey(), RKey{});
  EXPECT_EQ(pair_.environment.logged("careless opens all memory"), 1U);
  EXPECT_TRUE(deallocate_pd(*pd));
}

TEST_F(EngineMemory, OfAQpsPoolIsTakenAndPut) {
  QpInit init;
  init.send_cq = pair_.a.send_cq;
  init.recv_cq = pair_.a.recv_cq;
  init.capabilities = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  init.max_rdma_contexts = 3;
  pair_.a.device->init().forces_registration = true;
  Qp* const qp = *create_qp(*pair_.a.pd, init);
  EXPECT_GE(init.capabilities.max_send_wr, 4U + 3 * 3);
  EXPECT_EQ(qp->rdma_mrs.size(), 3U);
  core::Mr* const one = qp->rdma_mrs.get();
  core::Mr* const two = qp->rdma_mrs.get();
  core::Mr* const three = qp->rdma_mrs.get();
  EXPECT_NE(one, two);
  EXPECT_NE(three, nullptr);
  EXPECT_EQ(qp->rdma_mrs.get(), nullptr);
  EXPECT_EQ(qp->rdma_mrs.taken(), 3U);
  for (core::Mr* const mr : {one, two, three}) {
    qp->rdma_mrs.put(*mr);
  }
  EXPECT_TRUE(destroy_qp(*qp));
  EXPECT_EQ(pair_.a.device->resource_count(ResourceKind::Mr), 1U);  // the PD's own
}

}  // namespace
}  // namespace weft::core::engine
