// What the device and its port say of themselves is so: limits are reached and not passed,
// capabilities work, tables have the length that is told (ibv_devinfo -v prints all of it).

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "qp_pair.h"

namespace {

class Capabilities : public QpPair {
 protected:
  void SetUp() override {
    QpPair::SetUp();
    ASSERT_EQ(ibv_query_device(context_, &device_), 0);
    ASSERT_EQ(ibv_query_port(context_, 1, &port_), 0);
    ASSERT_NO_FATAL_FAILURE(make());
  }
  /// Whether a QP with these capabilities can be made.
  [[nodiscard]] bool makes(ibv_qp_cap capabilities) const {
    auto attributes = qp_attributes(a_cq_);
    attributes.cap = capabilities;
    ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
    return qp != nullptr && ibv_destroy_qp(qp) == 0;
  }
  [[nodiscard]] bool makes_srq(ibv_srq_attr attributes) const {
    ibv_srq_init_attr init{};
    init.attr = attributes;
    ibv_srq* const srq = ibv_create_srq(pd_, &init);
    return srq != nullptr && ibv_destroy_srq(srq) == 0;
  }
  [[nodiscard]] bool has(unsigned capability) const {
    return (device_.device_cap_flags & capability) != 0;
  }

  ibv_device_attr device_{};
  ibv_port_attr port_{};
};

TEST_F(Capabilities, LimitsAreReachedAndNotPassed) {
  const auto wr = static_cast<std::uint32_t>(device_.max_qp_wr);
  const auto sge = static_cast<std::uint32_t>(device_.max_sge);
  EXPECT_TRUE(makes({wr, wr, 1, 1, 0}));
  EXPECT_FALSE(makes({wr + 1, 1, 1, 1, 0}));
  EXPECT_FALSE(makes({1, wr + 1, 1, 1, 0}));
  EXPECT_TRUE(makes({1, 1, sge, sge, 0}));
  EXPECT_FALSE(makes({1, 1, sge + 1, 1, 0}));
  const auto srq_wr = static_cast<std::uint32_t>(device_.max_srq_wr);
  const auto srq_sge = static_cast<std::uint32_t>(device_.max_srq_sge);
  EXPECT_TRUE(makes_srq({.max_wr = srq_wr, .max_sge = srq_sge, .srq_limit = 0}));
  EXPECT_FALSE(makes_srq({.max_wr = srq_wr + 1, .max_sge = 1, .srq_limit = 0}));
  EXPECT_FALSE(makes_srq({.max_wr = 1, .max_sge = srq_sge + 1, .srq_limit = 0}));
  EXPECT_EQ(ibv_create_cq(context_, device_.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &extended), 0);
  ibv_alloc_dm_attr memory{};
  memory.length = extended.max_dm_size;
  ibv_dm* const dm = ibv_alloc_dm(context_, &memory);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(Capabilities, WhatWorksOnDemandIsSaid) {
  constexpr std::uint32_t kAtomicWrite = 1U << 7;  // IBV_ODP_SUPPORT_ATOMIC_WRITE of newer headers
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &extended), 0);
  const auto& transports = extended.odp_caps.per_transport_caps;
  EXPECT_NE(transports.rc_odp_caps & kAtomicWrite, 0U) << "IBV_QP_EX_WITH_ATOMIC_WRITE is offered";
  constexpr std::uint32_t kFlush = 1U << 6;  // IBV_ODP_SUPPORT_FLUSH, likewise
  EXPECT_EQ(transports.rc_odp_caps & extended.xrc_odp_caps & kFlush, kFlush);
  EXPECT_EQ((transports.uc_odp_caps | transports.ud_odp_caps) & kFlush, 0U);
  constexpr std::uint64_t kAnnexA19 = 7ULL << 38;  // IB_UVERBS_DEVICE_FLUSH_GLOBAL and so on
  EXPECT_EQ(extended.device_cap_flags_ex & kAnnexA19, kAnnexA19);
  EXPECT_EQ(
      (transports.uc_odp_caps | transports.ud_odp_caps | extended.xrc_odp_caps) & kAtomicWrite, 0U);
}

TEST_F(Capabilities, ResponderResourcesAndMessagesAreAsLongAsTold) {
  ibv_qp_attr attributes{};
  const auto change = [&](int mask) { return ibv_modify_qp(a_, &attributes, mask); };
  ASSERT_EQ(to_state(a_, IBV_QPS_SQD), 0);
  attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(device_.max_qp_rd_atom);
  attributes.max_rd_atomic = static_cast<std::uint8_t>(device_.max_qp_init_rd_atom);
  EXPECT_EQ(change(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MAX_QP_RD_ATOMIC), 0);
  ++attributes.max_dest_rd_atomic;
  EXPECT_EQ(change(IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
  ++attributes.max_rd_atomic;
  EXPECT_EQ(change(IBV_QP_MAX_QP_RD_ATOMIC), EINVAL);
  EXPECT_EQ(send({.opcode = IBV_WR_RDMA_WRITE, .length = port_.max_msg_sz + 1}), EINVAL);
  EXPECT_EQ(send({.opcode = IBV_WR_RDMA_WRITE, .length = port_.max_msg_sz}), 0);
}

TEST_F(Capabilities, OfTheDeviceWork) {
  ASSERT_TRUE(has(IBV_DEVICE_SRQ_RESIZE));
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &init);
  ibv_srq_attr larger{.max_wr = 64, .max_sge = 0, .srq_limit = 0};
  EXPECT_EQ(ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ASSERT_TRUE(has(IBV_DEVICE_CURR_QP_STATE_MOD));
  ibv_qp_attr state{};
  state.qp_state = state.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(a_, &state, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
  ASSERT_TRUE(has(IBV_DEVICE_MEM_MGT_EXTENSIONS));
  ibv_mr* const mr = ibv_reg_mr(pd_, memory_.data(), 64, int{IBV_ACCESS_LOCAL_WRITE});
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.invalidate_rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a_, &wr, &bad), 0);
  EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  ASSERT_TRUE(has(IBV_DEVICE_MEM_WINDOW) && has(IBV_DEVICE_MEM_WINDOW_TYPE_2B));
  EXPECT_FALSE(has(IBV_DEVICE_MEM_WINDOW_TYPE_2A)) << "a type 2 window is of one QP here";
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    ibv_mw* const window = ibv_alloc_mw(pd_, type);
    ASSERT_NE(window, nullptr);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
  }
  ASSERT_TRUE(has(IBV_DEVICE_RC_RNR_NAK_GEN));
  EXPECT_EQ(send({}), 0);  // RNR until there is a receive
  usleep(1'000);
  EXPECT_EQ(receive(8), 0);
  EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(has(IBV_DEVICE_SYS_IMAGE_GUID) && device_.sys_image_guid != 0);
  constexpr unsigned kForeign = IBV_DEVICE_RAW_MULTI | IBV_DEVICE_BAD_PKEY_CNTR |
                                IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CHANGE_PHY_PORT |
                                IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING;
  EXPECT_FALSE(has(kForeign)) << "nothing of that is there";
}

TEST_F(Capabilities, OfThePortAreItsOwn) {
  EXPECT_EQ(port_.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port_.phys_state, 5) << "LinkUp";
  EXPECT_NE(port_.sm_lid, 0);
  EXPECT_EQ(port_.max_vl_num, 1) << "VL0, by which all packets go";
  EXPECT_EQ(port_.port_cap_flags & (IBV_PORT_SL_MAP_SUP | IBV_PORT_CM_SUP), 0U)
      << "neither maps nor a CM are there";
  __be16 pkey{};
  EXPECT_EQ(ibv_query_pkey(context_, 1, port_.pkey_tbl_len - 1, &pkey), 0);
  EXPECT_EQ(ibv_query_pkey(context_, 1, port_.pkey_tbl_len, &pkey), -1);
  EXPECT_LE(port_.pkey_tbl_len, device_.max_pkeys);
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context_, 1, port_.gid_tbl_len - 1, &gid), 0);
  EXPECT_EQ(ibv_query_gid(context_, 1, port_.gid_tbl_len, &gid), -1);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a_, &attributes, IBV_QP_PATH_MTU, &init), 0);
  EXPECT_LE(attributes.path_mtu, port_.active_mtu);
  EXPECT_LE(port_.active_mtu, port_.max_mtu);
}

/// ibv_query_gid_ex() and its table agree with ibv_query_gid(), entry by entry.
TEST_F(Capabilities, GidEntriesAreThoseOfTheTable) {
  std::array<ibv_gid_entry, 16> table{};
  const ssize_t count = ibv_query_gid_table(context_, table.data(), table.size(), 0);
  ASSERT_GT(count, 0);
  ssize_t found = 0;
  for (std::uint32_t index = 0; index < static_cast<std::uint32_t>(port_.gid_tbl_len); ++index) {
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(context_, 1, static_cast<int>(index), &gid), 0);
    ibv_gid_entry entry{};
    const int status = ibv_query_gid_ex(context_, 1, index, &entry, 0);
    const bool is_empty = std::ranges::all_of(gid.raw, [](auto byte) { return byte == 0; });
    ASSERT_EQ(status, is_empty ? ENODATA : 0) << index;
    if (is_empty) {
      continue;
    }
    EXPECT_EQ(std::memcmp(&entry.gid, &gid, sizeof gid), 0);
    EXPECT_EQ(entry.gid_index, index);
    EXPECT_EQ(entry.port_num, 1U);
    EXPECT_EQ(entry.gid_type, std::uint32_t{IBV_GID_TYPE_IB});
    EXPECT_EQ(entry.ndev_ifindex, 0U) << "no network device belongs to it";
    EXPECT_EQ(std::memcmp(&table.at(static_cast<std::size_t>(found)), &entry, sizeof entry), 0);
    ++found;
  }
  EXPECT_EQ(found, count);
  ibv_gid first{};
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &first), 0);
  EXPECT_EQ(be64toh(first.global.subnet_prefix), 0xFE80'0000'0000'0000U);
}

}  // namespace
