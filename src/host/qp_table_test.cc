#include "host/qp_table.h"

#include <gtest/gtest.h>

#include <array>

#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

class QpsOfAProcess : public ::testing::Test {
 protected:
  QpsOfAProcess() {
    init_.type = hca::QpType::Rc;
    init_.pd = &pd_;
    init_.send_cq = init_.recv_cq = &cq_;
    table_.add_cq(cq_);
  }
  ~QpsOfAProcess() override { table_.remove_cq(cq_); }

  [[nodiscard]] hca::Qp& make() { return **adapter().create_qp(init_); }
  [[nodiscard]] hca::Hca& adapter() { return objects_.adapter; }
  [[nodiscard]] static CqDriverState& qp_state_of(hca::CompletionQueue& cq) {
    return *static_cast<CqDriverState*>(cq.driver_data);
  }

  testing::FakeObjects objects_;
  hca::ProtectionDomain& pd_ = **objects_.adapter.allocate_pd();
  hca::CompletionQueue& cq_ = **objects_.adapter.create_cq(16);
  hca::QpInit init_;
  QpTable table_;
};

TEST_F(QpsOfAProcess, AreKnownByTheirCarrier) {
  hca::Qp& qp = make();
  const QpDriverState& qp_state = table_.add(qp, 1, init_);
  EXPECT_EQ(qp.driver_data, &qp_state);
  EXPECT_EQ(qp_state.qp, &qp);
  EXPECT_EQ(qp_state.hca, 1U);
  EXPECT_EQ(qp_state.cqs[0], &qp_state_of(cq_));
  int visits = 0;
  table_.for_each([&](hca::Qp& each, QpDriverState&) { visits += &each == &qp ? 1 : 0; });
  EXPECT_EQ(visits, 1);
  table_.remove(qp);
  table_.for_each([&](hca::Qp&, QpDriverState&) { ++visits; });
  EXPECT_EQ(visits, 1);
}

TEST_F(QpsOfAProcess, MakeTheirCqTakeFromEveryLaneIfDatagramsComeByAny) {
  table_.add(make(), 0, init_);
  EXPECT_FALSE(qp_state_of(cq_).takes_all);
  init_.type = hca::QpType::Ud;
  table_.add(make(), 0, init_);
  EXPECT_TRUE(qp_state_of(cq_).takes_all);
}

TEST_F(QpsOfAProcess, FlushTheReceivesOfTheirSrqWhenAllFail) {
  hca::SharedReceiveQueue& srq = **adapter().create_srq(pd_, 4, 1, 0);
  ASSERT_TRUE(srq.post({.wr_id = 42, .sges = {}}));
  init_.srq = &srq;
  hca::Qp& qp = make();
  table_.add(qp, 0, init_);
  hca::QpAttributes to;
  to.state = hca::QpState::Init;
  to.port = PortNumber{1};
  ASSERT_TRUE(qp.modify(to, hca::QpAttributeMask{hca::QpAttribute::State} |
                                hca::QpAttribute::PKeyIndex | hca::QpAttribute::Port |
                                hca::QpAttribute::RemoteAccess));
  table_.fail_all();
  EXPECT_EQ(qp.query().state, hca::QpState::Err);
  std::array<hca::Wc, 2> completions;
  ASSERT_EQ(cq_.poll(completions), 1U);
  EXPECT_EQ(completions[0].wr_id, 42U);
  EXPECT_EQ(completions[0].status, hca::WcStatus::WorkRequestFlushed);
}

TEST_F(QpsOfAProcess, AreLeftAloneInResetWhenAllFail) {
  hca::Qp& qp = make();
  table_.add(qp, 0, init_);
  table_.fail_all();
  EXPECT_EQ(qp.query().state, hca::QpState::Reset);
}

}  // namespace
}  // namespace weft::host
