#include "verbs_driver/verbs_qp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace weft::verbs_driver {
namespace {

using ::testing::ElementsAre;

enum class Call { ToRts, ToError, Receive };

/// A QP of a library that writes down what it is asked, and refuses where a test says so.
class VerbsQpTest : public ::testing::Test {
 protected:
  VerbsQpTest() {
    asked().clear();
    refusal() = 0;
    library_.modify_qp = [](ibv_qp*, ibv_qp_attr* attributes, int) {
      asked().push_back(attributes->qp_state == IBV_QPS_ERR ? Call::ToError : Call::ToRts);
      return refusal();
    };
    context_.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) {
      asked().push_back(Call::Receive);
      return refusal();
    };
    native_.context = &context_;
  }

  [[nodiscard]] static std::vector<Call>& asked() {
    static std::vector<Call> calls;
    return calls;
  }
  [[nodiscard]] static int& refusal() {
    static int number = 0;
    return number;
  }

  bool modify(ibv_qp_state state, int mask = IBV_QP_STATE) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return qp_.modify(attributes, mask).has_value();
  }
  bool post() {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    return qp_.post_recv(wr, &bad).has_value();
  }

  VerbsLibrary library_{};
  ibv_context context_{};
  ibv_qp native_{};
  VerbsQp qp_{library_, native_};
};

TEST_F(VerbsQpTest, TellsTheErrorStateAgainAfterAReceiveThatIsPostedInIt) {
  EXPECT_TRUE(modify(IBV_QPS_ERR));
  EXPECT_TRUE(post());
  EXPECT_TRUE(post());
  EXPECT_THAT(asked(), ElementsAre(Call::ToError, Call::Receive, Call::ToError, Call::Receive,
                                   Call::ToError));
}

TEST_F(VerbsQpTest, TellsNothingAfterAReceiveInAnyOtherState) {
  EXPECT_TRUE(modify(IBV_QPS_RTS));
  EXPECT_TRUE(post());
  EXPECT_TRUE(modify(IBV_QPS_ERR));
  EXPECT_TRUE(modify(IBV_QPS_RTS));
  EXPECT_TRUE(post());
  EXPECT_THAT(asked(),
              ElementsAre(Call::ToRts, Call::Receive, Call::ToError, Call::ToRts, Call::Receive));
}

TEST_F(VerbsQpTest, IsInTheStateThatItWasAndStaysThereIfAChangeIsRefused) {
  refusal() = EINVAL;
  EXPECT_FALSE(modify(IBV_QPS_ERR));
  EXPECT_FALSE(post());
  refusal() = 0;
  EXPECT_TRUE(modify(IBV_QPS_ERR));
  EXPECT_TRUE(modify(IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS));  // not a state
  EXPECT_TRUE(post());
  EXPECT_THAT(asked(), ElementsAre(Call::ToError, Call::Receive, Call::ToError, Call::ToRts,
                                   Call::Receive, Call::ToError));
}

}  // namespace
}  // namespace weft::verbs_driver
