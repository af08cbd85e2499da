// Why QPs refuse to change, and queues to take work requests.

#include <array>

#include "explain.h"

namespace {

/// Modifies a, which is in RTS.
int modify(Explain& verbs, int mask, void (*set)(ibv_qp_attr&)) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  set(attributes);
  return ibv_modify_qp(verbs.a_, &attributes, mask);
}

/// Takes a new QP to RTR with one attribute changed, or some left out.
int to_rtr(Explain& verbs, void (*set)(ibv_qp_attr&), int without = 0) {
  return verbs.with_qp(IBV_QPT_RC, [&](ibv_qp* qp) {
    verbs.to_init(qp, 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.ah_attr.dlid = 1;
    attributes.ah_attr.port_num = 1;
    set(attributes);
    constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attributes, kMask & ~without);
  });
}

/// Takes a new QP to INIT with one attribute changed.
int to_init(Explain& verbs, void (*set)(ibv_qp_attr&)) {
  return verbs.with_qp(IBV_QPT_RC, [&](ibv_qp* qp) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    set(attributes);
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  });
}

/// Drains a's send queue, where most attributes may change, and changes one.
int change(Explain& verbs, int attribute, void (*set)(ibv_qp_attr&)) {
  EXPECT_EQ(Explain::to_state(verbs.a_, IBV_QPS_SQD), 0);
  ibv_qp_attr attributes{};
  set(attributes);
  return ibv_modify_qp(verbs.a_, &attributes, attribute);
}

int post(ibv_qp* qp, ibv_send_wr wr) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}
int post(ibv_qp* qp, ibv_recv_wr wr) {
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

/// A series of extended posts on a QP that takes RDMA WRITEs and SENDs.
int post_series(Explain& verbs, void (*build)(Explain&, ibv_qp_ex*)) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = attributes.recv_cq = verbs.a_cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = verbs.qp_attributes(verbs.a_cq_).cap;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = verbs.pd_;
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
  ibv_qp* const qp = ibv_create_qp_ex(verbs.context_, &attributes);
  EXPECT_NE(qp, nullptr);
  verbs.connect(qp, qp);
  ibv_qp_ex* const extended = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(extended);
  build(verbs, extended);
  const int result = ibv_wr_complete(extended);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  return result;
}

int modify_illegal_transition(Explain& verbs) { return Explain::to_state(verbs.a_, IBV_QPS_INIT); }
int modify_missing_mask(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr&) {}, IBV_QP_MIN_RNR_TIMER | IBV_QP_DEST_QPN);
}
int modify_forbidden_mask(Explain& verbs) {
  return modify(verbs, IBV_QP_STATE | IBV_QP_PATH_MTU,
                [](ibv_qp_attr& to) { to.path_mtu = IBV_MTU_256; });
}
int modify_wrong_current_state(Explain& verbs) {
  return modify(verbs, IBV_QP_STATE | IBV_QP_CUR_STATE,
                [](ibv_qp_attr& to) { to.cur_qp_state = IBV_QPS_SQD; });
}
int modify_no_such_state(Explain& verbs) {
  return modify(verbs, IBV_QP_STATE, [](ibv_qp_attr& to) { to.qp_state = IBV_QPS_UNKNOWN; });
}
int modify_port(Explain& verbs) {
  return to_init(verbs, [](ibv_qp_attr& to) { to.port_num = 9; });
}
int modify_pkey_index(Explain& verbs) {
  return to_init(verbs, [](ibv_qp_attr& to) { to.pkey_index = 77; });
}
int modify_gid_index(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) {
    to.ah_attr.is_global = 1;
    to.ah_attr.grh.sgid_index = 5;
  });
}
int modify_service_level(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) { to.ah_attr.sl = 16; });
}
int modify_dlid(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) { to.ah_attr.dlid = 0; });
}
int modify_static_rate(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) { to.ah_attr.static_rate = 1; });
}
int modify_path_mtu(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) { to.path_mtu = static_cast<ibv_mtu>(6); });
}
int modify_min_rnr_timer(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) { to.min_rnr_timer = 32; });
}
int modify_max_dest_rd_atomic(Explain& verbs) {
  return to_rtr(verbs, [](ibv_qp_attr& to) { to.max_dest_rd_atomic = 255; });
}
int modify_max_rd_atomic(Explain& verbs) {
  return change(verbs, IBV_QP_MAX_QP_RD_ATOMIC, [](ibv_qp_attr& to) { to.max_rd_atomic = 255; });
}
int modify_timeout(Explain& verbs) {
  return change(verbs, IBV_QP_TIMEOUT, [](ibv_qp_attr& to) { to.timeout = 32; });
}
int modify_retry_count(Explain& verbs) {
  return change(verbs, IBV_QP_RETRY_CNT, [](ibv_qp_attr& to) { to.retry_cnt = 8; });
}
int modify_rnr_retry(Explain& verbs) {
  return change(verbs, IBV_QP_RNR_RETRY, [](ibv_qp_attr& to) { to.rnr_retry = 8; });
}
int modify_alternate_port(Explain& verbs) {
  return change(verbs, IBV_QP_ALT_PATH, [](ibv_qp_attr& to) { to.alt_port_num = 7; });
}

int post_send_in_reset(Explain& verbs) {
  return verbs.with_qp(IBV_QPT_RC, [](ibv_qp* qp) { return post(qp, ibv_send_wr{}); });
}
int post_send_opcode(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_READ;
    return post(qp, wr);
  });
}
int post_send_without_ah(Explain& verbs) {
  return verbs.with_datagram_qp([](ibv_qp* qp) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    return post(qp, wr);
  });
}
int post_send_ah_of_another_pd(Explain& verbs) {
  ibv_pd* const other = ibv_alloc_pd(verbs.context_);
  ibv_ah_attr address{};
  address.port_num = 1;
  address.dlid = 1;
  ibv_ah* const ah = ibv_create_ah(other, &address);
  const int result = verbs.with_datagram_qp([&](ibv_qp* qp) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    return post(qp, wr);
  });
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  return result;
}
int post_send_sges(Explain& verbs) {
  std::array<ibv_sge, 3> sges{};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = sges.data();
  wr.num_sge = 3;
  return post(verbs.a_, wr);
}
int post_send_inline(Explain& verbs) {
  ibv_sge sge = verbs.sge(33);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return post(verbs.a_, wr);
}
int post_send_length(Explain& verbs) {
  return verbs.send({.opcode = IBV_WR_RDMA_WRITE, .length = 0xFFFF'FFFF});
}
int post_send_atomic_length(Explain& verbs) {
  return verbs.send({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 4});
}
int post_send_full(Explain& verbs) {
  int result = 0;
  for (int i = 0; i < 9 && result == 0; ++i) {
    result = verbs.send({});  // no receive is there: none completes
  }
  return result;
}
int post_send_bind_of_type_1(Explain& verbs) {
  ibv_mw* const window = ibv_alloc_mw(verbs.pd_, IBV_MW_TYPE_1);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = window;
  const int result = post(verbs.a_, wr);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  return result;
}
int post_recv_in_reset(Explain& verbs) {
  return verbs.with_qp(IBV_QPT_RC, [](ibv_qp* qp) { return post(qp, ibv_recv_wr{}); });
}
int post_recv_sges(Explain& verbs) {
  std::array<ibv_sge, 3> sges{};
  ibv_recv_wr wr{};
  wr.sg_list = sges.data();
  wr.num_sge = 3;
  return post(verbs.b_, wr);
}
int post_recv_full(Explain& verbs) {
  int result = 0;
  for (int i = 0; i < 9 && result == 0; ++i) {
    result = post(verbs.b_, ibv_recv_wr{});
  }
  return result;
}
int wr_complete_without_a_request(Explain& verbs) {
  return post_series(
      verbs, [](Explain& e, ibv_qp_ex* qp) { ibv_wr_set_sge(qp, e.mr_->lkey, e.address(), 8); });
}
int wr_complete_inline(Explain& verbs) {
  return post_series(verbs, [](Explain& e, ibv_qp_ex* qp) {
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, e.mr_->addr, 2'000);
  });
}
int wr_complete_length(Explain& verbs) {
  return post_series(verbs, [](Explain& e, ibv_qp_ex* qp) {
    ibv_wr_rdma_write(qp, e.mr_->rkey, e.address());
    ibv_wr_set_sge(qp, e.mr_->lkey, e.address(), 0xFFFF'FFFF);
  });
}

constexpr auto kRefusals = std::to_array<Explain::Refusal>({
    {"modify_illegal_transition",     EINVAL, "RC",                     "cannot go from RTS to INIT",
     modify_illegal_transition                                                                                                  },
    {"modify_missing_mask",           EINVAL, "minimum RNR timer",      "needs also",                    modify_missing_mask    },
    {"modify_forbidden_mask",         EINVAL, "path MTU",               "does not allow",                modify_forbidden_mask  },
    {"modify_wrong_current_state",    EINVAL, "RTS",                    "not in SQD as the modify says",
     modify_wrong_current_state                                                                                                 },
    {"modify_no_such_state",          EINVAL, "QP state",               "no such",                       modify_no_such_state   },
    {"modify_port",                   EINVAL, "port 9",                 "not in 1..1",                   modify_port            },
    {"modify_pkey_index",             EINVAL, "P_Key index 77",         "is empty",                      modify_pkey_index      },
    {"modify_gid_index",              EINVAL, "GID index 5",            "outside port 1's table",        modify_gid_index       },
    {"modify_service_level",          EINVAL, "service level 16",       "not in 0..15",                  modify_service_level   },
    {"modify_dlid",                   EINVAL, "DLID 0",                 "reserved",                      modify_dlid            },
    {"modify_static_rate",            EINVAL, "static rate 1",          "not a rate",                    modify_static_rate     },
    {"modify_path_mtu",               EINVAL, "path MTU 6",             "not in 1..5",                   modify_path_mtu        },
    {"modify_min_rnr_timer",          EINVAL, "minimum RNR timer 32",   "not in 0..31",                  modify_min_rnr_timer   },
    {"modify_max_dest_rd_atomic",     EINVAL, "max_dest_rd_atomic 255", "exceeds the device's 128",
     modify_max_dest_rd_atomic                                                                                                  },
    {"modify_max_rd_atomic",          EINVAL, "max_rd_atomic 255",      "exceeds the device's 128",
     modify_max_rd_atomic                                                                                                       },
    {"modify_timeout",                EINVAL, "timeout",                "is in 0..31",                   modify_timeout         },
    {"modify_retry_count",            EINVAL, "retry count 8",          "not in 0..7",                   modify_retry_count     },
    {"modify_rnr_retry",              EINVAL, "RNR retry count 8",      "not in 0..7",                   modify_rnr_retry       },
    {"modify_alternate_port",         EINVAL, "alternate port 7",       "not in 1..1",                   modify_alternate_port  },
    {"post_send_in_reset",            EINVAL, "RESET",                  "move the QP to RTS first",      post_send_in_reset     },
    {"post_send_opcode",              EINVAL, "opcode 4",               "a UD QP does not offer",        post_send_opcode       },
    {"post_send_without_ah",          EINVAL, "address handle",         "needs",                         post_send_without_ah   },
    {"post_send_ah_of_another_pd",    EINVAL, "address handle",         "another PD than the QP",
     post_send_ah_of_another_pd                                                                                                 },
    {"post_send_sges",                EINVAL, "3 SGEs",                 "max_send_sge 2",                post_send_sges         },
    {"post_send_inline",              EINVAL, "33 bytes inline",        "max_inline_data 32",            post_send_inline       },
    {"post_send_length",              EINVAL, "4294967295 bytes",       "carries at most 2147483648",
     post_send_length                                                                                                           },
    {"post_send_atomic_length",       EINVAL, "an atomic's SGE",        "8 bytes",                       post_send_atomic_length},
    {"post_send_full",                ENOMEM, "send queue",             "8 of 8 are not complete",       post_send_full         },
    {"post_send_bind_of_type_1",      EINVAL, "windows of type 2",      "ibv_bind_mw()",
     post_send_bind_of_type_1                                                                                                   },
    {"post_recv_in_reset",            EINVAL, "RESET",                  "move the QP to INIT first",     post_recv_in_reset     },
    {"post_recv_sges",                EINVAL, "3 SGEs",                 "the queue allows 2",            post_recv_sges         },
    {"post_recv_full",                ENOMEM, "receive queue is full",  "all 8 WQEs",                    post_recv_full         },
    {"wr_complete_without_a_request", EINVAL, "setter",                 "without a work request",
     wr_complete_without_a_request                                                                                              },
    {"wr_complete_inline",            EINVAL, "2000 bytes inline",      "the device allows 1024",
     wr_complete_inline                                                                                                         },
    {"wr_complete_length",            EINVAL, "4294967295 bytes",       "carries at most",               wr_complete_length     },
});

class ExplainQps : public Explain {};

TEST_P(ExplainQps, WhichAttributeBrokeWhichRule) { check(kRefusals[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Table, ExplainQps, ::testing::Range(std::size_t{0}, kRefusals.size()),
                         [](const auto& test) { return std::string{kRefusals[test.param].how}; });

}  // namespace
