// FLUSH as programs of rdma-core 46 and later post it (ibv_wr_post(3), IBTA vol 1 annex A19).

#include "flush.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "forked_program.h"
#include "verbs_fixture.h"

namespace {

constexpr unsigned kWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned kFlushes = later::kAccessFlushGlobal | later::kAccessFlushPersistent;

/// Two RC QPs that are connected to each other, and a page of a file.
class VerbsFlush : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    std::string name = ::testing::TempDir() + "weft-flush-XXXXXX";
    file_ = mkstemp(name.data());
    name_ = name;
    ASSERT_GE(file_, 0);
    ASSERT_EQ(ftruncate(file_, kBytes), 0);
    mapped_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    ASSERT_NE(mapped_, MAP_FAILED);
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    ASSERT_NE(cq_, nullptr);
    qp_ = make_qp(IBV_QPT_RC);
    ASSERT_NE(qp_, nullptr);
    peer_ = make_qp(IBV_QPT_RC);
    ASSERT_NE(peer_, nullptr);
    connect(qp_, peer_, {.access = kWrites | kFlushes});
    connect(peer_, qp_, {.access = kWrites | kFlushes});
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_qp(peer_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    munmap(mapped_, kBytes);
    close(file_);
    unlink(name_.c_str());
    Verbs::TearDown();
  }

  [[nodiscard]] ibv_qp* make_qp(ibv_qp_type type) const {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = type;
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.cap = {.max_send_wr = 8,
                      .max_recv_wr = 8,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = pd_;
    attributes.send_ops_flags = later::kQpExWithFlush | IBV_QP_EX_WITH_RDMA_WRITE;
    return ibv_create_qp_ex(context_, &attributes);
  }
  [[nodiscard]] ibv_mr* share(void* memory, unsigned access) const {
    return ibv_reg_mr(pd_, memory, kBytes, static_cast<int>(access));
  }
  /// Writes 8 bytes from `from` to the start of `to`, and flushes.
  [[nodiscard]] int write_and_flush(const ibv_mr& from, const ibv_mr& to, std::uint8_t type,
                                    std::uint8_t level, std::size_t length = 8) const {
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(qp_);
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = 0;
    ibv_wr_rdma_write(qp, to.rkey, std::bit_cast<std::uint64_t>(to.addr));
    ibv_wr_set_sge(qp, from.lkey, std::bit_cast<std::uint64_t>(from.addr), 8);
    qp->wr_id = 2;
    qp->wr_flags = IBV_SEND_SIGNALED;
    later::ibv_wr_flush(qp, to.rkey, std::bit_cast<std::uint64_t>(to.addr), length, type, level);
    return ibv_wr_complete(qp);
  }

  [[nodiscard]] std::uint16_t lid() const {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context_, 1, &port), 0);
    return port.lid;
  }
  void connect_to(std::uint16_t peer_lid, std::uint32_t peer) const {
    to_init(qp_, kWrites | kFlushes);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer;
    attributes.max_dest_rd_atomic = 1;
    attributes.ah_attr.dlid = peer_lid;
    attributes.ah_attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp_, &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    to_rts(qp_);
  }

  static constexpr std::size_t kBytes = 4'096;
  int file_{-1};
  std::string name_;
  void* mapped_{};
  ibv_cq* cq_{};
  ibv_qp* qp_{};
  ibv_qp* peer_{};
  alignas(8) std::array<std::uint64_t, kBytes / 8> memory_{0x1122'3344'5566'7788};
};

TEST_F(VerbsFlush, OfAFileReachesIt) {
  ibv_mr* const from = share(memory_.data(), kWrites);
  ibv_mr* const to = share(mapped_, kWrites | kFlushes);
  ASSERT_TRUE(from != nullptr && to != nullptr);
  for (const std::uint8_t level : {later::kFlushRange, later::kFlushMr}) {
    ASSERT_EQ(write_and_flush(*from, *to, later::kFlushPersistent, level), 0);
    const ibv_wc wc = wait(cq_);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, 2U);
    EXPECT_EQ(int{wc.opcode}, later::kWcFlush);
    std::uint64_t found = 0;
    EXPECT_EQ(pread(file_, &found, sizeof found, 0), ssize_t{sizeof found});
    EXPECT_EQ(found, memory_[0]);
    memory_[0] += 1;
  }
  EXPECT_EQ(ibv_dereg_mr(from), 0);
  EXPECT_EQ(ibv_dereg_mr(to), 0);
}

/// A program on h2 with the file mapped, and this one on h1, which writes and flushes.
TEST_F(VerbsFlush, BetweenHostsReachesTheFileOfTheOther) {
  const ForkedProgram other{[&](const Conversation& talk) {
    setenv("WEFT_HOST", "h2", 1);
    Verbs::SetUp();
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    qp_ = make_qp(IBV_QPT_RC);
    ibv_mr* const mr = share(mapped_, kWrites | kFlushes);
    ASSERT_NE(mr, nullptr);
    talk.say(lid());
    talk.say(qp_->qp_num);
    talk.say(mr->rkey);
    talk.say(std::bit_cast<std::uint64_t>(mapped_));
    const auto peer_lid = static_cast<std::uint16_t>(talk.hear());
    connect_to(peer_lid, static_cast<std::uint32_t>(talk.hear()));
    talk.say(0);
    static_cast<void>(talk.hear());  // all is done
  }};
  const Conversation talk = other.talk();
  const auto peer_lid = static_cast<std::uint16_t>(talk.hear());
  const auto peer_qpn = static_cast<std::uint32_t>(talk.hear());
  ibv_mr to{};
  to.rkey = static_cast<std::uint32_t>(talk.hear());
  to.addr = std::bit_cast<void*>(talk.hear());
  ASSERT_EQ(ibv_destroy_qp(qp_), 0);
  qp_ = make_qp(IBV_QPT_RC);
  ASSERT_NE(peer_lid, lid());
  talk.say(lid());
  talk.say(qp_->qp_num);
  connect_to(peer_lid, peer_qpn);
  static_cast<void>(talk.hear());  // the other is connected
  ibv_mr* const from = share(memory_.data(), kWrites);
  ASSERT_EQ(
      write_and_flush(*from, to, later::kFlushPersistent | later::kFlushGlobal, later::kFlushRange),
      0);
  const ibv_wc wc = wait(cq_);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(int{wc.opcode}, later::kWcFlush);
  std::uint64_t found = 0;
  EXPECT_EQ(pread(file_, &found, sizeof found, 0), ssize_t{sizeof found});
  EXPECT_EQ(found, memory_[0]);
  talk.say(0);
  EXPECT_EQ(ibv_dereg_mr(from), 0);
}

TEST_F(VerbsFlush, ToPersistenceNeedsMemoryOfAFile) {
  errno = 0;
  EXPECT_EQ(share(memory_.data(), kWrites | kFlushes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(share(memory_.data(), kWrites | later::kAccessFlushPersistent), nullptr);
  ibv_mr* const mr = share(memory_.data(), kWrites | later::kAccessFlushGlobal);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(write_and_flush(*mr, *mr, later::kFlushGlobal, later::kFlushMr, 12'345'678), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_SUCCESS);
  ASSERT_EQ(write_and_flush(*mr, *mr, later::kFlushPersistent, later::kFlushRange), 0);
  EXPECT_EQ(wait(cq_).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(VerbsFlush, WithoutAPlaceIsRefusedWhenItIsPosted) {
  ibv_mr* const mr = share(memory_.data(), kWrites | later::kAccessFlushGlobal);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(write_and_flush(*mr, *mr, 0, later::kFlushRange), EINVAL);
  EXPECT_EQ(write_and_flush(*mr, *mr, later::kFlushGlobal, 2), EINVAL);
  EXPECT_EQ(write_and_flush(*mr, *mr, later::kFlushGlobal, later::kFlushRange, 1ULL << 40), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(VerbsFlush, IsOfReliableConnectionsOnly) {
  errno = 0;
  EXPECT_EQ(make_qp(IBV_QPT_UC), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp* const xrc = make_qp(IBV_QPT_XRC_SEND);
  ASSERT_NE(xrc, nullptr);
  EXPECT_EQ(ibv_destroy_qp(xrc), 0);
}

}  // namespace
