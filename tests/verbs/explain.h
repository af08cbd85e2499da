#pragma once

// Refusals of verbs, each with the errno of the documentation and, on standard error, the reason:
// which attribute, and which rule (docs/ARCHITECTURE.md, decision 14). The fixture sets
// WEFT_EXPLAIN=1.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <string>

#include "captured_stderr.h"
#include "qp_pair.h"

/// Two connected QPs and what rows want besides.
class Explain : public QpPair, public ::testing::WithParamInterface<std::size_t> {
 public:
  using QpPair::a_;
  using QpPair::a_cq_;
  using QpPair::address;
  using QpPair::b_;
  using QpPair::connect;
  using QpPair::context_;
  using QpPair::mr_;
  using QpPair::pd_;
  using QpPair::qp_attributes;
  using QpPair::Request;
  using QpPair::send;
  using QpPair::sge;
  using QpPair::to_init;
  using QpPair::to_state;

  /// The errno of a verb that returns an object.
  template <class Object>
  static int refused(const Object* object) {
    return object == nullptr ? errno : 0;
  }

  /// A QP of a's CQ, for as long as `use` takes.
  template <class Use>
  int with_qp(ibv_qp_type type, Use use) const {
    auto attributes = qp_attributes(a_cq_, type);
    ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
    EXPECT_NE(qp, nullptr);
    const int result = use(qp);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    return result;
  }
  /// A UD QP in RTS.
  template <class Use>
  int with_datagram_qp(Use use) const {
    return with_qp(IBV_QPT_UD, [&](ibv_qp* qp) {
      ibv_qp_attr attributes{};
      attributes.qp_state = IBV_QPS_INIT;
      attributes.port_num = 1;
      EXPECT_EQ(ibv_modify_qp(qp, &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                0);
      EXPECT_EQ(to_state(qp, IBV_QPS_RTR), 0);
      attributes.qp_state = IBV_QPS_RTS;
      EXPECT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
      return use(qp);
    });
  }

  struct Refusal {
    const char* how;  // verb, and what is wrong
    int error;        // errno
    const char* attribute;
    const char* rule;
    int (*cause)(Explain&);
  };

 protected:
  void check(const Refusal& row) {
    ASSERT_NO_FATAL_FAILURE(make());
    int error = 0;
    std::string said;
    {
      const CapturedStderr capture;
      errno = 0;
      error = row.cause(*this);
      said = capture.text();
    }
    EXPECT_EQ(error, row.error) << "explained was: " << said;
    EXPECT_NE(said.find(row.attribute), std::string::npos) << said;
    EXPECT_NE(said.find(row.rule), std::string::npos) << said;
    EXPECT_EQ(said.rfind("weft: ", 0), 0U) << said;
  }
};
