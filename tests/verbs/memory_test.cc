// Regions of every kind, as a program registers, uses and changes them.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "verbs_fixture.h"

namespace {

constexpr int kEverything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::size_t kSpan = std::size_t{1} << 30;  // sparse: hardly any of it is ever touched

/// A QP that is its own peer, and a GiB of address space that nothing has touched.
class Regions : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    auto attributes = qp_attributes(cq_);
    qp_ = ibv_create_qp(pd_, &attributes);
    ASSERT_NE(qp_, nullptr);
    connect_to_itself(qp_);
    void* const start = mmap(nullptr, kSpan, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(start, MAP_FAILED);
    span_ = static_cast<char*>(start);
    madvise(start, kSpan, MADV_NOHUGEPAGE);  // else one touch makes 512 pages present
  }
  void TearDown() override {
    munmap(span_, kSpan);
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    Verbs::TearDown();
  }

  struct Place {
    std::uint64_t address;
    std::uint32_t key;
  };
  /// WRITE or READ of 8 bytes between a local and a remote place.
  [[nodiscard]] ibv_wc_status transfer(ibv_wr_opcode opcode, Place local, Place remote) {
    ibv_sge sge{.addr = local.address, .length = 8, .lkey = local.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote.address;
    wr.wr.rdma.rkey = remote.key;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad) == 0 ? wait(cq_).status : IBV_WC_GENERAL_ERR;
  }
  [[nodiscard]] static std::uint64_t number(const void* address) {
    return std::bit_cast<std::uint64_t>(address);
  }
  [[nodiscard]] std::size_t resident(std::size_t page) const {
    unsigned char here = 0;
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(mincore(span_ + page * size, size, &here), 0);
    return here & 1U;
  }

  ibv_cq* cq_{};
  ibv_qp* qp_{};
  char* span_{};
};

TEST_F(Regions, AreFilledOnDemandOnlyWhereTheyAreTouched) {  // T-ODP-1
  ibv_mr* const mr = ibv_reg_mr(pd_, span_, kSpan, kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(resident(0) + resident(1) + resident(2), 0U);
  span_[0] = 'a';
  EXPECT_EQ(
      transfer(IBV_WR_RDMA_WRITE, {number(span_), mr->lkey}, {number(span_) + 8192, mr->rkey}),
      IBV_WC_SUCCESS);
  EXPECT_EQ(span_[8192], 'a');
  EXPECT_EQ(resident(1), 0U);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, FollowTheProgramsMappingsOnDemand) {  // T-ODP-2
  ibv_mr* const mr = ibv_reg_mr(pd_, span_, kSpan, kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  const Place here{number(span_), mr->lkey};
  const Place there{number(span_) + 4096, mr->rkey};
  span_[4096] = 'o';
  ASSERT_EQ(transfer(IBV_WR_RDMA_READ, here, there), IBV_WC_SUCCESS);
  EXPECT_EQ(span_[0], 'o');
  ASSERT_EQ(mmap(span_ + 4096, 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            span_ + 4096);
  span_[4096] = 'n';
  ASSERT_EQ(transfer(IBV_WR_RDMA_READ, here, there), IBV_WC_SUCCESS);
  EXPECT_EQ(span_[0], 'n') << "never the old content";
  ASSERT_EQ(munmap(span_ + 4096, 4096), 0);
  EXPECT_NE(transfer(IBV_WR_RDMA_READ, here, there), IBV_WC_SUCCESS) << "and no SIGSEGV";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, MayBeAllOfTheAddressSpace) {  // part of T-ODP-4
  ibv_mr* const mr = ibv_reg_mr(pd_, nullptr, SIZE_MAX, kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  std::array<char, 16> stack{"stack"};
  EXPECT_EQ(transfer(IBV_WR_RDMA_WRITE, {number(stack.data()), mr->lkey},
                     {number(span_) + kSpan - 8, mr->rkey}),
            IBV_WC_SUCCESS);
  EXPECT_STREQ(span_ + kSpan - 8, "stack");
  EXPECT_NE(transfer(IBV_WR_RDMA_WRITE, {number(stack.data()), mr->lkey}, {8, mr->rkey}),
            IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, kEverything), nullptr);
  EXPECT_EQ(errno, EFAULT) << "on demand only";
}

TEST_F(Regions, OfAllOfTheAddressSpaceCostOnlyThePagesThatAreTouched) {  // part of T-ODP-4
  constexpr std::size_t kStride = kSpan / 64;
  ibv_mr* const mr = ibv_reg_mr(pd_, nullptr, SIZE_MAX, kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  std::array<char, 16> stack{"stack"};
  for (std::size_t at = 0; at < kSpan; at += kStride) {
    ASSERT_EQ(transfer(IBV_WR_RDMA_WRITE, {number(stack.data()), mr->lkey},
                       {number(span_) + at, mr->rkey}),
              IBV_WC_SUCCESS);
  }
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present(kSpan / page);
  ASSERT_EQ(mincore(span_, kSpan, present.data()), 0);
  for (std::size_t i = 0; i < present.size(); ++i) {
    ASSERT_EQ((present[i] & 1U) != 0, i * page % kStride == 0) << "page " << i;
  }
  for (std::size_t at = 0; at < kSpan; at += kStride) {
    EXPECT_STREQ(span_ + at, "stack");
  }
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, AreBroughtInByAdvice) {  // part of T-ODP-5
  ibv_mr* const mr = ibv_reg_mr(pd_, span_, kSpan, kEverything | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  ibv_sge sge{.addr = number(span_), .length = 8192, .lkey = mr->lkey};
  const auto advise = [&](ibv_advise_mr_advice advice, std::uint32_t flags) {
    return ibv_advise_mr(pd_, advice, flags, &sge, 1);
  };
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, IBV_ADVISE_MR_FLAG_FLUSH), 0);
  EXPECT_EQ(resident(0), 0U);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH), 0);
  EXPECT_EQ(resident(0) + resident(1), 2U);
  EXPECT_EQ(resident(2), 0U);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0x80), EINVAL);
  sge.length = 1U << 31;
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), EFAULT);
  sge.lkey ^= 1;
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), ENOENT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(3), 0), ENOTSUP);
}

TEST_F(Regions, KeepTheirKeysWhenRegisteredAnew) {
  ibv_mr* const mr = ibv_reg_mr(pd_, span_, 4096, int{IBV_ACCESS_LOCAL_WRITE});
  ASSERT_NE(mr, nullptr);
  const std::uint32_t rkey = mr->rkey;
  EXPECT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         span_ + 4096, 8192, kEverything),
            0);
  EXPECT_EQ(mr->rkey, rkey);
  span_[4096] = 'x';
  EXPECT_EQ(
      transfer(IBV_WR_RDMA_WRITE, {number(span_) + 4096, mr->lkey}, {number(span_) + 8192, rkey}),
      IBV_WC_SUCCESS);
  EXPECT_EQ(span_[8192], 'x');
  ibv_pd* const other = ibv_alloc_pd(context_);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_NE(
      transfer(IBV_WR_RDMA_WRITE, {number(span_) + 4096, mr->lkey}, {number(span_) + 8192, rkey}),
      IBV_WC_SUCCESS)
      << "the QP is of another PD now";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(Regions, AreZeroBasedWhateverVerbRegistersThem) {
  // The macro ibv_reg_mr calls ibv_reg_mr_iova2 with the address, where flags are not a constant.
  const unsigned access = kEverything | IBV_ACCESS_ZERO_BASED;
  ibv_mr* const constant = ibv_reg_mr(pd_, span_, 4096, kEverything | IBV_ACCESS_ZERO_BASED);
  ibv_mr* const variable = ibv_reg_mr_iova2(pd_, span_ + 4096, 4096, number(span_ + 4096), access);
  ASSERT_TRUE(constant != nullptr && variable != nullptr);
  std::strcpy(span_ + 16, "offset");
  EXPECT_EQ(transfer(IBV_WR_RDMA_WRITE, {16, constant->lkey}, {32, variable->rkey}),
            IBV_WC_SUCCESS);
  EXPECT_STREQ(span_ + 4096 + 32, "offset");
  EXPECT_EQ(ibv_rereg_mr(variable, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, span_ + 8192, 4096, 0),
            0);
  EXPECT_EQ(transfer(IBV_WR_RDMA_WRITE, {16, constant->lkey}, {32, variable->rkey}),
            IBV_WC_SUCCESS);
  EXPECT_STREQ(span_ + 8192 + 32, "offset");
  EXPECT_EQ(ibv_dereg_mr(constant), 0);
  EXPECT_EQ(ibv_dereg_mr(variable), 0);
}

TEST_F(Regions, OfNothingReadAsZeros) {
  ibv_mr* const nothing = ibv_alloc_null_mr(pd_);
  ASSERT_NE(nothing, nullptr);
  EXPECT_EQ(nothing->length, SIZE_MAX);
  ibv_mr* const mr = ibv_reg_mr(pd_, span_, 4096, kEverything);
  std::memset(span_, 'x', 64);
  EXPECT_EQ(transfer(IBV_WR_RDMA_READ, {77, nothing->lkey}, {number(span_), mr->rkey}),
            IBV_WC_SUCCESS);
  EXPECT_EQ(transfer(IBV_WR_RDMA_WRITE, {77, nothing->lkey}, {number(span_), mr->rkey}),
            IBV_WC_SUCCESS);
  EXPECT_EQ(span_[0], 0);
  EXPECT_EQ(span_[7], 0);
  EXPECT_EQ(span_[8], 'x');
  EXPECT_NE(transfer(IBV_WR_RDMA_WRITE, {number(span_), mr->lkey}, {77, nothing->lkey}),
            IBV_WC_SUCCESS)
      << "no access for peers";
  EXPECT_EQ(ibv_dereg_mr(nothing), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, OfDeviceMemoryAreWrittenByPeers) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  ASSERT_GE(device.max_dm_size, 4096U);
  ibv_alloc_dm_attr attributes{.length = 4096, .log_align_req = 6, .comp_mask = 0};
  ibv_dm* const dm = ibv_alloc_dm(context_, &attributes);
  ASSERT_NE(dm, nullptr);
  ibv_mr* const mr = ibv_reg_dm_mr(pd_, dm, 64, 1024, kEverything | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  std::uint64_t value = 0x1122'3344'5566'7788;
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 64, &value, 8), 0);
  EXPECT_EQ(transfer(IBV_WR_RDMA_WRITE, {0, mr->lkey}, {512, mr->rkey}), IBV_WC_SUCCESS);
  std::uint64_t out = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&out, dm, 64 + 512, 8), 0);
  EXPECT_EQ(out, value);
  EXPECT_EQ(ibv_memcpy_from_dm(&out, dm, 2, 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_from_dm(&out, dm, 4, 2), EINVAL);
  EXPECT_EQ(ibv_memcpy_from_dm(&out, dm, 4096, 4), EINVAL);
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 0, 8192, IBV_ACCESS_ZERO_BASED), nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL) << "device memory is zero based";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  attributes.length = device.max_dm_size;
  EXPECT_EQ(ibv_alloc_dm(context_, &attributes), nullptr);
  EXPECT_EQ(errno, ENOMEM) << "4,096 bytes of it are taken";
  EXPECT_EQ(ibv_free_dm(dm), 0);
  ibv_dm* const all = ibv_alloc_dm(context_, &attributes);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(ibv_free_dm(all), 0);
}

}  // namespace
