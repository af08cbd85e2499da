#include "verbs_driver/translation.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace weft::verbs_driver {
namespace {

/// No two fields alike, so that one that is taken for another shows.
[[nodiscard]] verbs::QpAttributes distinct_attributes() {
  verbs::QpAttributes made;
  made.state = verbs::QpState::Rtr;
  made.current_state = verbs::QpState::Init;
  made.path_mtu = verbs::Mtu::Mtu2048;
  made.migration = verbs::MigrationState::Armed;
  made.qkey = QKey{0x1111'1111};
  made.rq_psn = Psn{0x222222};
  made.sq_psn = Psn{0x333333};
  made.dest_qpn = Qpn{0x444444};
  made.access = verbs::AccessFlags{verbs::Access::RemoteRead} | verbs::Access::RemoteAtomic;
  made.capabilities = {.max_send_wr = 1,
                       .max_recv_wr = 2,
                       .max_send_sge = 3,
                       .max_recv_sge = 4,
                       .max_inline_data = 5};
  made.address = {
      .dlid = Lid{6},
      .sl = ServiceLevel{7},
      .source_path_bits = 8,
      .static_rate = 9,
      .port = PortNumber{10},
      .is_global = true,
      .grh = {.dgid = Gid{0x1112'1314'1516'1718, Guid{0x191A'1B1C'1D1E'1F20}},
                  .flow_label = 11,
                  .sgid_index = 12,
                  .hop_limit = 13,
                  .traffic_class = 14}
  };
  made.alternate_address = {.dlid = Lid{15}, .port = PortNumber{16}};
  made.pkey_index = 17;
  made.alternate_pkey_index = 18;
  made.enable_sqd_async_notify = true;
  made.max_rd_atomic = 19;
  made.max_dest_rd_atomic = 20;
  made.min_rnr_timer = 21;
  made.port = PortNumber{22};
  made.timeout = TimeoutExponent{23};
  made.retry_count = 5;
  made.rnr_retry = 6;
  made.alternate_port = PortNumber{24};
  made.alternate_timeout = TimeoutExponent{25};
  return made;
}

TEST(VerbsTranslation, AttributesOfAQpComeBack) {
  const verbs::QpAttributes made = distinct_attributes();
  EXPECT_EQ(attributes_of(to_ibv(made)), made);
}

TEST(VerbsTranslation, AttributesOfAQpAreWhereVerbsHasThem) {
  const ibv_qp_attr there = to_ibv(distinct_attributes());
  EXPECT_EQ(there.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(there.cur_qp_state, IBV_QPS_INIT);
  EXPECT_EQ(there.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(there.path_mig_state, IBV_MIG_ARMED);
  EXPECT_EQ(there.rq_psn, 0x222222U);
  EXPECT_EQ(there.sq_psn, 0x333333U);
  EXPECT_EQ(there.qp_access_flags, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  EXPECT_EQ(there.ah_attr.dlid, 6);
  EXPECT_EQ(there.ah_attr.grh.dgid.raw[0], 0x11);
  EXPECT_EQ(there.ah_attr.grh.sgid_index, 12);
  EXPECT_EQ(there.max_rd_atomic, 19);
  EXPECT_EQ(there.max_dest_rd_atomic, 20);
  EXPECT_EQ(there.timeout, 23);
  EXPECT_EQ(there.retry_cnt, 5);
  EXPECT_EQ(there.rnr_retry, 6);
}

TEST(VerbsTranslation, ACompletionHasEitherAnImmediateOrAKey) {
  ibv_wc wc{};
  wc.wr_id = 7;
  wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  wc.wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
  wc.imm_data = htobe32(0x0102'0304);
  wc.qp_num = 9;
  core::Wc made = completion_of(wc);
  EXPECT_EQ(made.wr_id, 7U);
  EXPECT_EQ(made.opcode, verbs::WcOpcode::ReceiveRdmaWithImmediate);
  EXPECT_TRUE(made.flags.has(verbs::Completion::Grh));
  EXPECT_EQ(made.immediate, 0x0102'0304U);
  EXPECT_EQ(made.invalidated_rkey, RKey{});
  EXPECT_EQ(made.qpn, Qpn{9});
  wc.wc_flags = IBV_WC_WITH_INV;
  wc.invalidated_rkey = 0x55;
  made = completion_of(wc);
  EXPECT_EQ(made.immediate, 0U);
  EXPECT_EQ(made.invalidated_rkey, RKey{0x55});
}

TEST(VerbsTranslation, AStatusThatIsNoneOfOursIsAGeneralError) {
  ibv_wc wc{};
  wc.status = IBV_WC_TM_ERR;
  EXPECT_EQ(completion_of(wc).status, verbs::WcStatus::GeneralError);
  wc.status = IBV_WC_WR_FLUSH_ERR;
  EXPECT_EQ(completion_of(wc).status, verbs::WcStatus::WorkRequestFlushed);
}

TEST(VerbsTranslation, WhatProgramsCannotDoIsNoCapability) {
  using enum core::DeviceCapability;
  ibv_device_attr attributes{};
  attributes.device_cap_flags = ~0U;
  attributes.max_qp = -1;
  attributes.node_guid = htobe64(0x0102);
  const core::DeviceAttributes made = attributes_of(attributes, false);
  for (const core::DeviceCapability one :
       {MemoryManagementExtensions, MemoryWindow, MemoryWindowType2B, Xrc, Integrity, LocalDmaLkey,
        SgGapsRegistration, OnDemandPaging}) {
    EXPECT_FALSE(made.capabilities.has(one));
  }
  EXPECT_TRUE(made.capabilities.has(AutoPathMigration));
  EXPECT_EQ(made.max_fast_registration_entries, 0U);
  EXPECT_EQ(made.max_qp, 0U);
  EXPECT_EQ(made.node_guid, Guid{0x0102});
  EXPECT_TRUE(attributes_of(attributes, true).capabilities.has(OnDemandPaging));
}

TEST(VerbsLibrary, ErrorsNameTheCallAndKeepTheirKind) {
  EXPECT_TRUE(check_call(0, "ibv_modify_qp"));
  const auto returned = check_call(EINVAL, "ibv_modify_qp");
  ASSERT_FALSE(returned);
  EXPECT_EQ(returned.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(returned.error().reason, "ibv_modify_qp: Invalid argument");
  errno = EADDRINUSE;
  const auto left = check_call(-1, "rdma_bind_addr");
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, ErrorCode::AddressInUse);
}

}  // namespace
}  // namespace weft::verbs_driver
