// The table of ibv_poll_cq(3): each status that programs can cause, caused and seen; for the others
// the reason. src/hca/completion_status_test.cc has those that take a peer that breaks the rules.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <string>

#include "captured_stderr.h"
#include "qp_pair.h"

namespace {

class CompletionStatus : public QpPair, public ::testing::WithParamInterface<std::size_t> {
 public:
  using QpPair::Options;

  void message_longer_than_receive() {
    EXPECT_EQ(receive(8), 0);
    EXPECT_EQ(send({.length = 16}), 0);
  }
  void send_through_a_bad_lkey() { EXPECT_EQ(send({.lkey_change = 1}), 0); }
  void receive_posted_when_the_qp_goes_to_error() {
    EXPECT_EQ(receive(8), 0);
    EXPECT_EQ(to_state(b_, IBV_QPS_ERR), 0);
  }
  void region_without_bind_access() {
    window_ = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
    ASSERT_NE(window_, nullptr);
    ibv_mw_bind bind{};
    bind.wr_id = 1;
    bind.bind_info = {
        .mr = mr_, .addr = address(), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    EXPECT_EQ(ibv_bind_mw(a_, window_, &bind), 0);
  }
  void immediate_with_a_write_to_a_bad_rkey() {
    EXPECT_EQ(receive(0), 0);
    EXPECT_EQ(send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .rkey_change = 1}), 0);
  }
  void write_that_the_peer_does_not_permit() { EXPECT_EQ(send({.opcode = IBV_WR_RDMA_WRITE}), 0); }
  void read_through_a_bad_rkey() {
    EXPECT_EQ(send({.opcode = IBV_WR_RDMA_READ, .rkey_change = 1}), 0);
  }
  void receive_of_the_peer_is_bad() {
    EXPECT_EQ(receive(8, 1), 0);
    EXPECT_EQ(send({}), 0);
  }
  void peer_is_gone() {
    EXPECT_EQ(ibv_destroy_qp(b_), 0);
    b_ = nullptr;
    EXPECT_EQ(send({}), 0);
  }
  void peer_posts_no_receive() { EXPECT_EQ(send({}), 0); }

 protected:
  void TearDown() override {
    EXPECT_EQ(window_ == nullptr ? 0 : ibv_dealloc_mw(window_), 0);
    QpPair::TearDown();
  }
  ibv_mw* window_{};
};

enum class At : std::uint8_t { Requester, Responder };

struct Cause {
  ibv_wc_status status;
  At at;
  const char* how;
  unsigned access;
  void (CompletionStatus::*cause)();
};
constexpr unsigned kAll =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr auto kCauses = std::to_array<Cause>({
    {IBV_WC_LOC_LEN_ERR,       At::Responder, "message_longer_than_receive",              kAll,
     &CompletionStatus::message_longer_than_receive                                                                            },
    {IBV_WC_LOC_PROT_ERR,      At::Requester, "send_through_a_bad_lkey",                  kAll,
     &CompletionStatus::send_through_a_bad_lkey                                                                                },
    {IBV_WC_WR_FLUSH_ERR,      At::Responder, "receive_posted_when_the_qp_goes_to_error", kAll,
     &CompletionStatus::receive_posted_when_the_qp_goes_to_error                                                               },
    {IBV_WC_MW_BIND_ERR,       At::Requester, "region_without_bind_access",               kAll,
     &CompletionStatus::region_without_bind_access                                                                             },
    {IBV_WC_LOC_ACCESS_ERR,    At::Responder, "immediate_with_a_write_to_a_bad_rkey",     kAll,
     &CompletionStatus::immediate_with_a_write_to_a_bad_rkey                                                                   },
    {IBV_WC_REM_INV_REQ_ERR,   At::Requester, "write_that_the_peer_does_not_permit",      0,
     &CompletionStatus::write_that_the_peer_does_not_permit                                                                    },
    {IBV_WC_REM_ACCESS_ERR,    At::Requester, "read_through_a_bad_rkey",                  kAll,
     &CompletionStatus::read_through_a_bad_rkey                                                                                },
    {IBV_WC_REM_OP_ERR,        At::Requester, "receive_of_the_peer_is_bad",               kAll,
     &CompletionStatus::receive_of_the_peer_is_bad                                                                             },
    {IBV_WC_RETRY_EXC_ERR,     At::Requester, "peer_is_gone",                             kAll, &CompletionStatus::peer_is_gone},
    {IBV_WC_RNR_RETRY_EXC_ERR, At::Requester, "peer_posts_no_receive",                    kAll,
     &CompletionStatus::peer_posts_no_receive                                                                                  },
});

struct Absent {
  ibv_wc_status status;
  const char* why;
};
constexpr const char* kDatagram = "of Reliable Datagram, which this service set lacks";
constexpr const char* kLawful = "takes a peer that breaks the protocol";
constexpr auto kAbsent = std::to_array<Absent>({
    {IBV_WC_LOC_QP_OP_ERR,      kLawful                                },
    {IBV_WC_BAD_RESP_ERR,       kLawful                                },
    {IBV_WC_REM_INV_RD_REQ_ERR, kLawful                                },
    {IBV_WC_LOC_EEC_OP_ERR,     kDatagram                              },
    {IBV_WC_LOC_RDD_VIOL_ERR,   kDatagram                              },
    {IBV_WC_REM_ABORT_ERR,      kDatagram                              },
    {IBV_WC_INV_EECN_ERR,       kDatagram                              },
    {IBV_WC_INV_EEC_STATE_ERR,  kDatagram                              },
    {IBV_WC_FATAL_ERR,          "software has no parts that fail"      },
    {IBV_WC_RESP_TIMEOUT_ERR,   "of hardware, not in the specification"},
    {IBV_WC_GENERAL_ERR,        "of hardware, not in the specification"},
    {IBV_WC_TM_ERR,             "of tag matching, which is refused"    },
    {IBV_WC_TM_RNDV_INCOMPLETE, "of tag matching, which is refused"    },
});

TEST_P(CompletionStatus, IsCausedAndSeenExactly) {
  const Cause& row = kCauses[GetParam()];
  const auto rnr_retry = static_cast<std::uint8_t>(row.status == IBV_WC_RNR_RETRY_EXC_ERR ? 1 : 7);
  ASSERT_NO_FATAL_FAILURE(make({
      .connection = {.access = row.access, .rnr_retry = rnr_retry}
  }));
  std::string said;
  {
    const CapturedStderr capture;
    (this->*row.cause)();
    const ibv_wc wc = wait(row.at == At::Requester ? a_cq_ : b_cq_);
    said = capture.text();
    EXPECT_EQ(wc.status, row.status) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, row.at == At::Requester ? 1U : 2U);
  }
  EXPECT_NE(said.find("QP 0x"), std::string::npos) << "no reason: " << said;
  EXPECT_EQ(said.find("failed locally"), std::string::npos) << "in which way? " << said;
}

INSTANTIATE_TEST_SUITE_P(Table, CompletionStatus, ::testing::Range(std::size_t{0}, kCauses.size()),
                         [](const auto& test) { return std::string{kCauses[test.param].how}; });

TEST(CompletionStatusTable, HasEveryStatusOnce) {
  for (int value = IBV_WC_LOC_LEN_ERR; value <= IBV_WC_TM_RNDV_INCOMPLETE; ++value) {
    const auto status = static_cast<ibv_wc_status>(value);
    EXPECT_EQ(std::ranges::count(kCauses, status, &Cause::status) +
                  std::ranges::count(kAbsent, status, &Absent::status),
              1)
        << ibv_wc_status_str(status);
  }
}

}  // namespace
