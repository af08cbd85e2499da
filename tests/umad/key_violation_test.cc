// Packets that a program's QPs drop for their P_Key or Q_Key show in PortInfo, and a subscriber
// hears of them (IBTA vol 1 §14.2.5.1, §14.2.5.6): by the drop-in libibverbs and libibumad.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <infiniband/umad_sa.h>
#include <infiniband/umad_types.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "daemon/testing/live_fabric.h"
#include "fabric/topology.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/notice.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/port_info.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/smp.h"

namespace {

namespace fabric = weft::fabric;
namespace wire = weft::wire;
using weft::ByteSpan;
using weft::copy_bytes;
using weft::kDefaultPKey;
using weft::kPermissiveLid;
using weft::Lid;
using weft::PKey;
using weft::Qpn;

constexpr int kWaitMs = 5'000;
constexpr std::uint32_t kQKey = 0x1111;
constexpr std::uint32_t kOtherQKey = 0x2222;
constexpr PKey kOtherPKey{0x8123};

class Fabric : public ::testing::Environment {
 public:
  void SetUp() override {
    fabric::Topology topology = *fabric::generate("star:2");
    topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, kOtherPKey};
    fabric_ = std::make_unique<weft::daemon::testing::LiveFabric>(topology);
    fabric_->show_to_this_process();
    setenv("WEFT_HOST", "h1", 1);
  }
  void TearDown() override { fabric_.reset(); }

 private:
  std::unique_ptr<weft::daemon::testing::LiveFabric> fabric_;
};

const auto* const kFabric = ::testing::AddGlobalTestEnvironment(new Fabric);

/// An agent of one class at h1's port.
class Agent {
 public:
  Agent(int mgmt_class, int version, std::optional<unsigned> method = std::nullopt) {
    fd_ = umad_open_port("weft0", 1);
    EXPECT_GE(fd_, 0);
    std::array<long, 2> mask{};
    if (method) {
      mask.at(*method / 64) = std::bit_cast<long>(1UL << *method % 64);
    }
    agent_ = umad_register(fd_, mgmt_class, version, 0, method ? mask.data() : nullptr);
    EXPECT_GE(agent_, 0);
  }
  ~Agent() { umad_close_port(fd_); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void send(unsigned lid, unsigned qp, ByteSpan mad) {
    std::vector<std::byte> buffer(umad_size() + mad.size());
    std::ranges::copy(mad, buffer.begin() + static_cast<std::ptrdiff_t>(umad_size()));
    umad_set_addr(buffer.data(), static_cast<int>(lid), static_cast<int>(qp), 0,
                  qp == 0 ? 0 : static_cast<int>(UMAD_QKEY));
    EXPECT_EQ(umad_send(fd_, agent_, buffer.data(), static_cast<int>(mad.size()), 1'000, 3), 0);
  }
  /// The next MAD; empty: none came.
  [[nodiscard]] std::vector<std::byte> receive() {
    std::vector<std::byte> buffer(umad_size() + 256);
    int length = 256;
    if (umad_recv(fd_, buffer.data(), &length, kWaitMs) < 0 || umad_status(buffer.data()) != 0) {
      return {};
    }
    return {buffer.begin() + static_cast<std::ptrdiff_t>(umad_size()), buffer.end()};
  }

 private:
  int fd_{-1};
  int agent_{-1};
};

class KeyViolations : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(umad_init(), 0);
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(list[0]);
    ASSERT_NE(context_, nullptr);
    ibv_free_device_list(list);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 64, nullptr, nullptr, 0);
    mr_ = ibv_reg_mr(pd_, memory_.data(), sizeof memory_, int{IBV_ACCESS_LOCAL_WRITE});
    ASSERT_NE(mr_, nullptr);
    ASSERT_EQ(ibv_query_port(context_, 1, &port_), 0);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  [[nodiscard]] ibv_qp* make_qp(ibv_qp_type type, std::uint16_t pkey_index) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = type;
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    ibv_qp* const qp = ibv_create_qp(pd_, &init);
    EXPECT_NE(qp, nullptr);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.pkey_index = pkey_index;
    to.port_num = 1;
    to.qkey = kQKey;
    EXPECT_EQ(ibv_modify_qp(qp, &to,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
              0);
    return qp;
  }
  [[nodiscard]] ibv_qp* make_ud() {
    ibv_qp* const qp = make_qp(IBV_QPT_UD, 0);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
    to.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
  }
  void connect(ibv_qp* qp, const ibv_qp* peer) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = peer->qp_num;
    to.ah_attr.dlid = port_.lid;
    to.ah_attr.port_num = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &to,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    to.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &to,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  void send(ibv_qp* from, ibv_ah* ah, const ibv_qp* to) {
    ibv_sge sge{
        .addr = std::bit_cast<std::uint64_t>(memory_.data()), .length = 8, .lkey = mr_->lkey};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ah != nullptr) {
      wr.wr.ud = {.ah = ah, .remote_qpn = to->qp_num, .remote_qkey = kOtherQKey};
    }
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(from, &wr, &bad), 0);
  }

  /// Of the port, by LID.
  [[nodiscard]] wire::PortInfo port_info() {
    Agent agent{UMAD_CLASS_SUBN_LID_ROUTED, 1};
    wire::SmpLidRouted smp{};
    smp.header.mgmt_class = wire::ManagementClass::SubnLidRouted;
    smp.header.class_version = 1;
    smp.header.method = wire::MadMethod::Get;
    smp.header.attribute_id = static_cast<std::uint16_t>(wire::SmpAttribute::PortInfo);
    smp.header.attribute_modifier = 1;
    agent.send(port_.lid, 0, wire::pack(smp));
    const auto answer = agent.receive();
    const auto info = wire::parse<wire::PortInfo>(
        ByteSpan{answer}.subspan(std::min<std::size_t>(answer.size(), wire::kSmpDataAt)));
    EXPECT_TRUE(info);
    return info ? *info : wire::PortInfo{};
  }
  /// R-PORT-1: ibv_query_port() says of the port what its SMA does.
  void expect_verbs_to_agree() {
    const wire::PortInfo info = port_info();
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
    EXPECT_EQ(port.bad_pkey_cntr, info.pkey_violations);
    EXPECT_EQ(port.qkey_viol_cntr, info.qkey_violations);
    EXPECT_EQ(port.subnet_timeout, info.subnet_timeout);
    EXPECT_EQ(port.init_type_reply, info.init_type_reply);
  }
  /// Within a bound.
  template <class Condition>
  [[nodiscard]] bool comes_true(Condition condition) {
    for (int i = 0; i < kWaitMs / 20; ++i) {
      ibv_wc wc{};
      while (ibv_poll_cq(cq_, 1, &wc) != 0) {
      }
      if (condition(port_info())) {
        return true;
      }
      usleep(20'000);
    }
    return false;
  }

  ibv_context* context_{};
  ibv_pd* pd_{};
  ibv_cq* cq_{};
  ibv_mr* mr_{};
  ibv_port_attr port_{};
  alignas(8) std::array<std::uint64_t, 64> memory_{};
};

TEST_F(KeyViolations, OfDatagramsShowInPortInfoAndReachASubscriber) {
  Agent subscriber{UMAD_CLASS_SUBN_ADM, UMAD_SA_CLASS_VERSION, UMAD_METHOD_REPORT};
  const wire::InformInfo info{.lid_range_begin = kPermissiveLid,
                              .is_generic = 1,
                              .subscribe = 1,
                              .type = 0xFFFF,
                              .trap_number = 258,
                              .producer_type = 0xFF'FFFF};
  std::array<std::byte, 256> request{};
  wire::SaHeader header{.sm_key = 1};  // the default of Weft's manager, and OpenSM's
  header.header.method = wire::MadMethod::Set;
  header.header.attribute_id = static_cast<std::uint16_t>(wire::SaAttribute::InformInfo);
  header.header.transaction_id = 7;
  wire::pack(header, std::span{request}.first<56>());
  copy_bytes(std::span{request}.subspan(56), wire::pack(info));
  subscriber.send(port_.sm_lid, 1, request);
  ASSERT_FALSE(subscriber.receive().empty()) << "the subscription is answered";

  ibv_qp* const a = make_ud();
  ibv_qp* const b = make_ud();
  ibv_ah_attr address{};
  address.dlid = port_.lid;
  address.port_num = 1;
  ibv_ah* const ah = ibv_create_ah(pd_, &address);
  ASSERT_NE(ah, nullptr);
  const wire::PortInfo before = port_info();
  for (int i = 0; i < 3; ++i) {
    send(a, ah, b);
  }
  EXPECT_TRUE(comes_true([&](const wire::PortInfo& now) {
    return now.qkey_violations == before.qkey_violations + 3;
  }));
  EXPECT_EQ(port_info().pkey_violations, before.pkey_violations);
  expect_verbs_to_agree();
  const auto report = subscriber.receive();
  ASSERT_EQ(report.size(), 256U);
  const auto notice = wire::parse<wire::SaNotice>(ByteSpan{report}.subspan(56));
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->notice.trap_number, 258);
  const auto details = wire::unpack<wire::BadKeyNoticeDetails>(notice->notice.details);
  EXPECT_EQ(details.key, kOtherQKey);
  EXPECT_EQ(details.lid1, Lid{port_.lid});
  EXPECT_EQ(details.qp1, Qpn{a->qp_num});
  EXPECT_EQ(details.qp2, Qpn{b->qp_num});
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
}

/// Both P_Keys are the port's, but not both QPs'.
TEST_F(KeyViolations, OfConnectionsShowInPortInfo) {
  ibv_qp* const a = make_qp(IBV_QPT_RC, 0);
  ibv_qp* const b = make_qp(IBV_QPT_RC, 1);
  connect(a, b);
  connect(b, a);
  const wire::PortInfo before = port_info();
  send(a, nullptr, b);
  EXPECT_TRUE(comes_true([&](const wire::PortInfo& now) {
    return now.pkey_violations == before.pkey_violations + 1;
  }));
  EXPECT_EQ(port_info().qkey_violations, before.qkey_violations);
  expect_verbs_to_agree();
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
}

}  // namespace
