// Automatic path migration through the verbs API; src/daemon/path_migration_test.cc has the paths.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>

#include "verbs_fixture.h"

namespace {

using VerbsPathMigration = Verbs;

void write_nothing(ibv_qp* qp) {
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &write, &bad), 0);
}

TEST_F(VerbsPathMigration, IsInTheCapabilities) {
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context_, &attributes), 0);
  EXPECT_NE(attributes.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0U);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  EXPECT_NE(port.port_cap_flags & IBV_PORT_AUTO_MIGR_SUP, 0U);
}

/// A QP that is its own peer arms itself, and is told when it migrates.
TEST_F(VerbsPathMigration, SwapsThePathsAndTells) {
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr attributes = qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
  ASSERT_NE(qp, nullptr);
  connect_to_itself(qp);
  ibv_qp_attr to{};
  to.path_mig_state = IBV_MIG_REARM;
  EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_PATH_MIG_STATE), EINVAL) << "no path is loaded";
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  to.alt_ah_attr.dlid = port.lid;
  to.alt_ah_attr.sl = 3;
  to.alt_port_num = 1;
  to.alt_timeout = 17;
  ASSERT_EQ(ibv_modify_qp(qp, &to, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
  write_nothing(qp);
  EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
  ibv_qp_attr now{};
  constexpr int kPaths = IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_TIMEOUT;
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &now, kPaths, &init), 0);
  EXPECT_EQ(now.path_mig_state, IBV_MIG_ARMED);
  EXPECT_EQ(now.alt_ah_attr.sl, 3);
  to.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(qp, &to, IBV_QP_PATH_MIG_STATE), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PATH_MIG);
  EXPECT_EQ(event.element.qp, qp);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_query_qp(qp, &now, kPaths, &init), 0);
  EXPECT_EQ(now.path_mig_state, IBV_MIG_MIGRATED);
  EXPECT_EQ(now.ah_attr.sl, 3);
  EXPECT_EQ(now.timeout, 17);
  EXPECT_EQ(now.alt_ah_attr.sl, 0);
  EXPECT_EQ(now.alt_timeout, 14);
  write_nothing(qp);
  EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
