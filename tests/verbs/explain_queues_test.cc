// Why queues, QPs and XRC domains cannot be made, changed or destroyed.

#include <fcntl.h>

#include <array>

#include "explain.h"

namespace {

int create_cq(Explain& verbs, int cqe, int vector) {
  return Explain::refused(ibv_create_cq(verbs.context_, cqe, nullptr, nullptr, vector));
}
int create_cq_ex(Explain& verbs, void (*set)(Explain&, ibv_cq_init_attr_ex&)) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 4;
  set(verbs, attributes);
  return Explain::refused(ibv_create_cq_ex(verbs.context_, &attributes));
}
int create_srq(Explain& verbs, ibv_srq_attr attributes) {
  ibv_srq_init_attr init{};
  init.attr = attributes;
  return Explain::refused(ibv_create_srq(verbs.pd_, &init));
}
template <class Use>
int with_srq(Explain& verbs, Use use) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(verbs.pd_, &init);
  EXPECT_NE(srq, nullptr);
  const int result = use(srq);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  return result;
}
int modify_srq(Explain& verbs, int mask, ibv_srq_attr attributes) {
  return with_srq(verbs, [&](ibv_srq* srq) { return ibv_modify_srq(srq, &attributes, mask); });
}
int create_qp(Explain& verbs, void (*set)(ibv_qp_init_attr&)) {
  auto attributes = verbs.qp_attributes(verbs.a_cq_);
  set(attributes);
  return Explain::refused(ibv_create_qp(verbs.pd_, &attributes));
}
int create_qp_ex(Explain& verbs, void (*set)(ibv_qp_init_attr_ex&)) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = attributes.recv_cq = verbs.a_cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = verbs.qp_attributes(verbs.a_cq_).cap;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  attributes.pd = verbs.pd_;
  set(attributes);
  return Explain::refused(ibv_create_qp_ex(verbs.context_, &attributes));
}
[[nodiscard]] ibv_wq_init_attr wq_attributes(const Explain& verbs) {
  ibv_wq_init_attr attributes{};
  attributes.wq_type = IBV_WQT_RQ;
  attributes.max_wr = 4;
  attributes.max_sge = 1;
  attributes.pd = verbs.pd_;
  attributes.cq = verbs.a_cq_;
  return attributes;
}
int create_wq(Explain& verbs, void (*set)(ibv_wq_init_attr&)) {
  ibv_wq_init_attr attributes = wq_attributes(verbs);
  set(attributes);
  return Explain::refused(ibv_create_wq(verbs.context_, &attributes));
}
template <class Use>
int with_wq(Explain& verbs, Use use) {
  ibv_wq_init_attr attributes = wq_attributes(verbs);
  ibv_wq* const wq = ibv_create_wq(verbs.context_, &attributes);
  EXPECT_NE(wq, nullptr);
  const int result = use(wq);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
  return result;
}
template <class Use>
int with_xrcd(Explain& verbs, Use use) {
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = -1;
  ibv_xrcd* const xrcd = ibv_open_xrcd(verbs.context_, &attributes);
  EXPECT_NE(xrcd, nullptr);
  const int result = use(xrcd);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
  return result;
}

int create_cq_size(Explain& verbs) { return create_cq(verbs, 0, 0); }
int create_cq_limit(Explain& verbs) { return create_cq(verbs, 5'000'000, 0); }
int create_cq_vector(Explain& verbs) { return create_cq(verbs, 4, 7); }
int create_cq_ex_fields(Explain& verbs) {
  return create_cq_ex(
      verbs, [](Explain&, ibv_cq_init_attr_ex& to) { to.wc_flags = IBV_WC_EX_WITH_CVLAN; });
}
int create_cq_ex_flags(Explain& verbs) {
  return create_cq_ex(verbs, [](Explain&, ibv_cq_init_attr_ex& to) {
    to.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    to.flags = 1U << 9;
  });
}
int create_cq_ex_domain(Explain& verbs) {
  return create_cq_ex(verbs, [](Explain& e, ibv_cq_init_attr_ex& to) {
    to.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    to.parent_domain = e.pd_;
  });
}
int resize_cq_size(Explain& verbs) { return ibv_resize_cq(verbs.a_cq_, 0); }
int resize_cq_below_what_it_holds(Explain& verbs) {
  ibv_cq* const cq = ibv_create_cq(verbs.context_, 4, nullptr, nullptr, 0);
  auto attributes = verbs.qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(verbs.pd_, &attributes);
  verbs.to_init(qp, 0);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  EXPECT_EQ(Explain::to_state(qp, IBV_QPS_ERR), 0);
  const int result = ibv_resize_cq(cq, 1);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  return result;
}
int destroy_cq_busy(Explain& verbs) { return ibv_destroy_cq(verbs.a_cq_); }
int destroy_comp_channel_busy(Explain& verbs) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(verbs.context_);
  ibv_cq* const cq = ibv_create_cq(verbs.context_, 4, nullptr, channel, 0);
  const int result = ibv_destroy_comp_channel(channel);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  return result;
}
int poll_cq_count(Explain& verbs) {
  EXPECT_EQ(ibv_poll_cq(verbs.a_cq_, -1, nullptr), -1);
  return errno;
}
int start_poll_mask(Explain& verbs) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 4;
  ibv_cq_ex* const cq = ibv_create_cq_ex(verbs.context_, &attributes);
  ibv_poll_cq_attr poll{.comp_mask = 1};
  const int result = ibv_start_poll(cq, &poll);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  return result;
}
int create_srq_size(Explain& verbs) { return create_srq(verbs, {}); }
int create_srq_sges(Explain& verbs) {
  return create_srq(verbs, {.max_wr = 1, .max_sge = 33, .srq_limit = 0});
}
int create_srq_ex_mask(Explain& verbs) {
  ibv_srq_init_attr_ex attributes{};
  attributes.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TM;
  attributes.pd = verbs.pd_;
  return Explain::refused(ibv_create_srq_ex(verbs.context_, &attributes));
}
int create_srq_ex_without_domain(Explain& verbs) {
  ibv_srq_init_attr_ex attributes{};
  attributes.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  attributes.srq_type = IBV_SRQT_XRC;
  attributes.pd = verbs.pd_;
  return Explain::refused(ibv_create_srq_ex(verbs.context_, &attributes));
}
int modify_srq_mask(Explain& verbs) { return modify_srq(verbs, 1 << 6, {}); }
int modify_srq_limit(Explain& verbs) {
  return modify_srq(verbs, IBV_SRQ_LIMIT, {.max_wr = 0, .max_sge = 0, .srq_limit = 5});
}
int modify_srq_depth(Explain& verbs) {
  return modify_srq(verbs, IBV_SRQ_MAX_WR, {.max_wr = 40'000, .max_sge = 0, .srq_limit = 0});
}
int get_srq_num_of_a_basic_srq(Explain& verbs) {
  return with_srq(verbs, [](ibv_srq* srq) {
    std::uint32_t number = 0;
    return ibv_get_srq_num(srq, &number);
  });
}
int post_srq_recv_sges(Explain& verbs) {
  return with_srq(verbs, [](ibv_srq* srq) {
    std::array<ibv_sge, 2> sges{};
    ibv_recv_wr wr{};
    wr.sg_list = sges.data();
    wr.num_sge = 2;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  });
}
int post_srq_recv_full(Explain& verbs) {
  return with_srq(verbs, [](ibv_srq* srq) {
    int result = 0;
    for (int i = 0; i < 5 && result == 0; ++i) {
      ibv_recv_wr wr{};
      ibv_recv_wr* bad = nullptr;
      result = ibv_post_srq_recv(srq, &wr, &bad);
    }
    return result;
  });
}
int destroy_srq_busy(Explain& verbs) {
  return with_srq(verbs, [&](ibv_srq* srq) {
    auto attributes = verbs.qp_attributes(verbs.a_cq_);
    attributes.srq = srq;
    ibv_qp* const qp = ibv_create_qp(verbs.pd_, &attributes);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), EINVAL) << "its receives are the SRQ's";
    const int result = ibv_destroy_srq(srq);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    return result;
  });
}
int create_qp_type(Explain& verbs) {
  return create_qp(verbs, [](ibv_qp_init_attr& to) { to.qp_type = IBV_QPT_RAW_PACKET; });
}
int create_qp_without_cq(Explain& verbs) {
  return create_qp(verbs, [](ibv_qp_init_attr& to) { to.send_cq = nullptr; });
}
int create_qp_send_wr(Explain& verbs) {
  return create_qp(verbs, [](ibv_qp_init_attr& to) { to.cap.max_send_wr = 16'385; });
}
int create_qp_recv_sge(Explain& verbs) {
  return create_qp(verbs, [](ibv_qp_init_attr& to) { to.cap.max_recv_sge = 33; });
}
int create_qp_inline(Explain& verbs) {
  return create_qp(verbs, [](ibv_qp_init_attr& to) { to.cap.max_inline_data = 1'025; });
}
int create_qp_ex_without_pd(Explain& verbs) {
  return create_qp_ex(verbs, [](ibv_qp_init_attr_ex& to) { to.comp_mask = 0; });
}
int create_qp_ex_mask(Explain& verbs) {
  return create_qp_ex(
      verbs, [](ibv_qp_init_attr_ex& to) { to.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER; });
}
int create_qp_ex_send_operations(Explain& verbs) {
  return create_qp_ex(verbs, [](ibv_qp_init_attr_ex& to) {
    to.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    to.send_ops_flags = IBV_QP_EX_WITH_TSO;
  });
}
int create_qp_ex_target_without_domain(Explain& verbs) {
  return create_qp_ex(verbs, [](ibv_qp_init_attr_ex& to) { to.qp_type = IBV_QPT_XRC_RECV; });
}
int modify_qp_rate_limit(Explain& verbs) {
  ibv_qp_rate_limit_attr limit{};
  return ibv_modify_qp_rate_limit(verbs.a_, &limit);
}
int set_ece(Explain& verbs) {
  ibv_ece ece{.vendor_id = 1, .options = 0, .comp_mask = 0};
  return ibv_set_ece(verbs.a_, &ece);
}
int create_wq_type(Explain& verbs) {
  return create_wq(verbs, [](ibv_wq_init_attr& to) { to.wq_type = static_cast<ibv_wq_type>(1); });
}
int create_wq_size(Explain& verbs) {
  return create_wq(verbs, [](ibv_wq_init_attr& to) { to.max_wr = 0; });
}
int create_wq_without_cq(Explain& verbs) {
  return create_wq(verbs, [](ibv_wq_init_attr& to) { to.cq = nullptr; });
}
int modify_wq_transition(Explain& verbs) {
  return with_wq(verbs, [](ibv_wq* wq) {
    ibv_wq_attr to{};
    to.attr_mask = IBV_WQ_ATTR_STATE;
    to.wq_state = IBV_WQS_ERR;
    return ibv_modify_wq(wq, &to);
  });
}
int post_wq_recv_in_reset(Explain& verbs) {
  return with_wq(verbs, [](ibv_wq* wq) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_wq_recv(wq, &wr, &bad);
  });
}
int open_xrcd_flags(Explain& verbs) {
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = -1;
  attributes.oflags = O_APPEND;
  return Explain::refused(ibv_open_xrcd(verbs.context_, &attributes));
}
int open_xrcd_descriptor(Explain& verbs) {
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = 9'999;
  return Explain::refused(ibv_open_xrcd(verbs.context_, &attributes));
}
int close_xrcd_busy(Explain& verbs) {
  return with_xrcd(verbs, [&](ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex target{};
    target.qp_type = IBV_QPT_XRC_RECV;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = xrcd;
    ibv_qp* const qp = ibv_create_qp_ex(verbs.context_, &target);
    const int result = ibv_close_xrcd(xrcd);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    return result;
  });
}
int open_qp_without_domain(Explain& verbs) {
  ibv_qp_open_attr attributes{};
  return Explain::refused(ibv_open_qp(verbs.context_, &attributes));
}

constexpr auto kRefusals = std::to_array<Explain::Refusal>({
    {"create_cq_size",                     EINVAL,     "CQ of 0 entries",           "at least one",                     create_cq_size         },
    {"create_cq_limit",                    EINVAL,     "CQ of 5000000 entries",     "device allows",                    create_cq_limit        },
    {"create_cq_vector",                   EINVAL,     "completion vector 7",       "not below num_comp_vectors",
     create_cq_vector                                                                                                                          },
    {"create_cq_ex_fields",                EOPNOTSUPP, "extended CQ",               "standard fields",                  create_cq_ex_fields    },
    {"create_cq_ex_flags",                 EINVAL,     "CQ flags 0x200",            "are known",                        create_cq_ex_flags     },
    {"create_cq_ex_domain",                EINVAL,     "domain of a CQ",            "a parent domain",                  create_cq_ex_domain    },
    {"resize_cq_size",                     EINVAL,     "CQ of 0 entries",           "device allows 1..",                resize_cq_size         },
    {"resize_cq_below_what_it_holds",      EINVAL,     "holds 2 completions",       "new capacity 1",
     resize_cq_below_what_it_holds                                                                                                             },
    {"destroy_cq_busy",                    EBUSY,      "completion queue",          "destroy those first",              destroy_cq_busy        },
    {"destroy_comp_channel_busy",          EBUSY,      "completion channel",        "destroy those first",
     destroy_comp_channel_busy                                                                                                                 },
    {"poll_cq_count",                      EINVAL,     "completions to poll",       "negative",                         poll_cq_count          },
    {"start_poll_mask",                    EINVAL,     "comp_mask",                 "unknown attributes",               start_poll_mask        },
    {"create_srq_size",                    EINVAL,     "SRQ of 0 WQEs",             "device allows 1..",                create_srq_size        },
    {"create_srq_sges",                    EINVAL,     "33 SGEs",                   "up to 32",                         create_srq_sges        },
    {"create_srq_ex_mask",                 EOPNOTSUPP, "SRQs",                      "without tag matching",             create_srq_ex_mask     },
    {"create_srq_ex_without_domain",       EINVAL,     "XRC SRQ",                   "needs an XRC domain and a CQ",
     create_srq_ex_without_domain                                                                                                              },
    {"modify_srq_mask",                    EINVAL,     "attributes of an SRQ",      "unknown",                          modify_srq_mask        },
    {"modify_srq_limit",                   EINVAL,     "limit of 5",                "exceeds its depth 4",              modify_srq_limit       },
    {"modify_srq_depth",                   EINVAL,     "40000 WQEs",                "device allows",                    modify_srq_depth       },
    {"get_srq_num_of_a_basic_srq",         EOPNOTSUPP, "number",                    "only an XRC SRQ",
     get_srq_num_of_a_basic_srq                                                                                                                },
    {"post_srq_recv_sges",                 EINVAL,     "2 SGEs",                    "the queue allows 1",               post_srq_recv_sges     },
    {"post_srq_recv_full",                 ENOMEM,     "receive queue is full",     "all 4 WQEs",                       post_srq_recv_full     },
    {"destroy_srq_busy",                   EBUSY,      "shared receive queue",      "destroy those first",              destroy_srq_busy       },
    {"create_qp_type",                     EOPNOTSUPP, "type 8",                    "RC, UC, UD and XRC do",            create_qp_type         },
    {"create_qp_without_cq",               EINVAL,     "send CQ",                   "needs",                            create_qp_without_cq   },
    {"create_qp_send_wr",                  EINVAL,     "16385 send",                "device allows 16384",              create_qp_send_wr      },
    {"create_qp_recv_sge",                 EINVAL,     "33 receive SGEs",           "device allows 32",                 create_qp_recv_sge     },
    {"create_qp_inline",                   EINVAL,     "1025 bytes of inline data", "device allows 1024",
     create_qp_inline                                                                                                                          },
    {"create_qp_ex_without_pd",            EINVAL,     "PD",                        "needs",                            create_qp_ex_without_pd},
    {"create_qp_ex_mask",                  EOPNOTSUPP, "QP creation mask",          "is known",                         create_qp_ex_mask      },
    {"create_qp_ex_send_operations",       EOPNOTSUPP, "send operations 0x",        "QP type offers",
     create_qp_ex_send_operations                                                                                                              },
    {"create_qp_ex_target_without_domain", EINVAL,     "XRC target QP",             "needs an XRC domain",
     create_qp_ex_target_without_domain                                                                                                        },
    {"modify_qp_rate_limit",               EOPNOTSUPP, "packets",                   "packet_pacing_caps",               modify_qp_rate_limit   },
    {"set_ece",                            EOPNOTSUPP, "vendor",                    "no vendor's",                      set_ece                },
    {"create_wq_type",                     EINVAL,     "work queue",                "IBV_WQT_RQ",                       create_wq_type         },
    {"create_wq_size",                     EINVAL,     "work queue of 0 WRs",       "device allows 1..",                create_wq_size         },
    {"create_wq_without_cq",               EINVAL,     "work queue",                "a PD and a CQ of its own context",
     create_wq_without_cq                                                                                                                      },
    {"modify_wq_transition",               EINVAL,     "work queue 0x",             "no way from state 0",              modify_wq_transition   },
    {"post_wq_recv_in_reset",              EINVAL,     "work queue 0x",             "make it ready",                    post_wq_recv_in_reset  },
    {"open_xrcd_flags",                    EINVAL,     "XRC domain",                "flags O_CREAT and O_EXCL",         open_xrcd_flags        },
    {"open_xrcd_descriptor",               EINVAL,     "descriptor 9999",           "is not open",                      open_xrcd_descriptor   },
    {"close_xrcd_busy",                    EBUSY,      "XRC SRQs and target QPs",   "still exist",                      close_xrcd_busy        },
    {"open_qp_without_domain",             EINVAL,     "XRC target QP",             "by its number and XRC domain",
     open_qp_without_domain                                                                                                                    },
});

class ExplainQueues : public Explain {};

TEST_P(ExplainQueues, WhichAttributeBrokeWhichRule) { check(kRefusals[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Table, ExplainQueues, ::testing::Range(std::size_t{0}, kRefusals.size()),
                         [](const auto& test) { return std::string{kRefusals[test.param].how}; });

}  // namespace
