// Connections, whose QPs carry data: both ends are ids of the test, and the daemon connects them.

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <semaphore>
#include <string_view>
#include <thread>

#include "rdmacm_fixture.h"

namespace {

namespace uabi = weft::uabi;
namespace verbs = weft::verbs;
using weft::Qpn;

constexpr std::uint16_t kPort = 7'471;

[[nodiscard]] ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &initial), 0);
  return attributes.qp_state;
}

/// Eight octets go over: posted at one id, completed at both.
void expect_to_carry(rdma_cm_id* from, rdma_cm_id* to) {
  std::array<char, 8> sent{'w', 'e', 'f', 't'};
  std::array<char, 8> received{};
  ibv_mr* const source = rdma_reg_msgs(from, sent.data(), sent.size());
  ibv_mr* const place = rdma_reg_msgs(to, received.data(), received.size());
  ASSERT_NE(source, nullptr);
  ASSERT_NE(place, nullptr);
  ASSERT_EQ(rdma_post_recv(to, nullptr, received.data(), received.size(), place), 0);
  ASSERT_EQ(rdma_post_send(from, nullptr, sent.data(), sent.size(), source, IBV_SEND_SIGNALED), 0);
  ibv_wc wc{};
  ASSERT_EQ(rdma_get_send_comp(from, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_get_recv_comp(to, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(rdma_dereg_mr(source), 0);
  EXPECT_EQ(rdma_dereg_mr(place), 0);
}

class Connected : public RdmaCm {
 protected:
  void SetUp() override {
    RdmaCm::SetUp();
    listener_ = listener(kPort);
    active_ = resolved(kPort);
  }
  void TearDown() override {
    for (rdma_cm_id* const id : {active_, passive_, listener_}) {
      if (id == nullptr) {
        continue;
      }
      if (id->qp != nullptr) {
        rdma_destroy_qp(id);
      }
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    RdmaCm::TearDown();
  }

  void create_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attributes = qp_attributes();
    ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0);
  }
  /// With eight octets of private data, up to the request at the passive side.
  void request() {
    constexpr std::string_view kData = "hello";
    rdma_conn_param wish{};
    wish.private_data = kData.data();
    wish.private_data_len = kData.size();
    wish.initiator_depth = 2;
    wish.responder_resources = 3;
    wish.retry_count = 5;
    ASSERT_EQ(rdma_connect(active_, &wish), 0);
    rdma_cm_event* const event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->listen_id, listener_);
    passive_ = event->id;
    const rdma_conn_param& told = event->param.conn;
    EXPECT_EQ(told.private_data_len, 56);
    EXPECT_EQ(std::memcmp(told.private_data, kData.data(), kData.size()), 0);
    EXPECT_EQ(told.initiator_depth, 3);
    EXPECT_EQ(told.responder_resources, 2);
    EXPECT_EQ(told.retry_count, 5);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
  }
  void connect() {
    create_qp(active_);
    request();
    create_qp(passive_);
    ASSERT_EQ(rdma_accept(passive_, nullptr), 0);
    rdma_cm_event* event = next(RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->id, active_);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    event = next(RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->id, passive_);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
  }

  rdma_cm_id* listener_{};
  rdma_cm_id* active_{};
  rdma_cm_id* passive_{};
};

TEST_F(Connected, QpsOfIdsAreReadyToSendWhenBothSidesAreEstablished) {
  connect();
  EXPECT_EQ(state_of(active_->qp), IBV_QPS_RTS);
  EXPECT_EQ(state_of(passive_->qp), IBV_QPS_RTS);
  EXPECT_EQ(passive_->verbs, active_->verbs);
  EXPECT_EQ(passive_->route.num_paths, 1);
  expect_to_carry(active_, passive_);
  expect_to_carry(passive_, active_);
  EXPECT_EQ(daemon_->last<uabi::ConnectRdmaCm>()->parameters.qpn, Qpn{active_->qp->qp_num});
}

/// A listener with a channel and a thread of its own, whose handler of a request does not return.
class BlockedHandler {
 public:
  explicit BlockedHandler(rdma_cm_id* listener) : listener_(listener) {
    EXPECT_EQ(rdma_migrate_id(listener_, channel_), 0);
  }
  BlockedHandler(const BlockedHandler&) = delete;
  BlockedHandler& operator=(const BlockedHandler&) = delete;
  ~BlockedHandler() {
    release();
    rdma_destroy_event_channel(channel_);
  }
  [[nodiscard]] bool is_entered() { return entered_.try_acquire_for(std::chrono::seconds{20}); }
  /// Lets it refuse the request and return.
  void release() {
    if (thread_.joinable()) {
      left_.release();
      thread_.join();
      EXPECT_EQ(rdma_destroy_id(listener_), 0);
    }
  }

 private:
  void handle() {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    rdma_cm_id* const request = event->id;
    entered_.release();
    left_.acquire();
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(rdma_reject(request, nullptr, 0), 0);
    EXPECT_EQ(rdma_destroy_id(request), 0);
  }

  rdma_cm_id* listener_;
  rdma_event_channel* channel_{rdma_create_event_channel()};
  std::binary_semaphore entered_{0};
  std::binary_semaphore left_{0};
  std::thread thread_{[this] { handle(); }};
};

// T-CM-13, with Listen.AsksEachListenerWhileRequestsToOthersAreUnanswered for the manager
TEST_F(Connected, GoesOnWhileHandlersOfTwoOtherListenersAreBlocked) {
  std::deque<BlockedHandler> blocked;
  std::deque<rdma_cm_id*> waiting;
  for (const std::uint16_t port : {std::uint16_t{7'472}, std::uint16_t{7'473}}) {
    BlockedHandler& handler = blocked.emplace_back(listener(port));
    waiting.push_back(resolved(port));
    create_qp(waiting.back());
    rdma_conn_param wish{};
    ASSERT_EQ(rdma_connect(waiting.back(), &wish), 0);
    ASSERT_TRUE(handler.is_entered());
  }
  connect();
  expect_to_carry(active_, passive_);
  for (BlockedHandler& handler : blocked) {
    handler.release();
    rdma_cm_event* const event = next(RDMA_CM_EVENT_REJECTED);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
  }
  for (rdma_cm_id* const id : waiting) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

TEST_F(Connected, ADisconnectMovesTheQpToErrorAndTellsBothSides) {
  connect();
  ASSERT_EQ(rdma_disconnect(active_), 0);
  EXPECT_EQ(state_of(active_->qp), IBV_QPS_ERR);
  pass(RDMA_CM_EVENT_DISCONNECTED);
  pass(RDMA_CM_EVENT_DISCONNECTED);
  ASSERT_EQ(rdma_disconnect(passive_), 0);
  EXPECT_EQ(state_of(passive_->qp), IBV_QPS_ERR);
}

TEST_F(Connected, ARejectionHasItsReasonAndData) {
  create_qp(active_);
  request();
  ASSERT_EQ(rdma_reject(passive_, "no", 2), 0);
  EXPECT_EQ(daemon_->last<uabi::RejectRdmaCm>()->reason, 0);
  rdma_cm_event* const event = next(RDMA_CM_EVENT_REJECTED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->id, active_);
  EXPECT_EQ(event->status, 28);
  ASSERT_EQ(event->param.conn.private_data_len, 2);
  EXPECT_EQ(std::memcmp(event->param.conn.private_data, "no", 2), 0);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  EXPECT_EQ(state_of(active_->qp), IBV_QPS_ERR);
  ASSERT_EQ(rdma_reject_ece(passive_, nullptr, 0), 0);
  EXPECT_EQ(daemon_->last<uabi::RejectRdmaCm>()->reason, 35);
}

TEST_F(Connected, ARequestThatEndsBeforeItIsAcceptedIsNoEvent) {
  create_qp(active_);
  request();
  daemon_->raise(daemon_->newest_id(), {.type = verbs::RdmaCmEventType::Disconnected});
  daemon_->raise(daemon_->newest_id(), {.type = verbs::RdmaCmEventType::TimewaitExit});
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}  // and the id waits for none when it is destroyed

TEST_F(Connected, AProgramsOwnQpIsNamedAndEstablishedByTheProgram) {
  rdma_conn_param wish{};
  wish.qp_num = 0x1234;
  wish.srq = 1;
  ASSERT_EQ(rdma_connect(active_, &wish), 0);
  EXPECT_EQ(daemon_->last<uabi::ConnectRdmaCm>()->parameters.qpn, Qpn{0x1234});
  EXPECT_TRUE(daemon_->last<uabi::ConnectRdmaCm>()->parameters.has_srq);
  rdma_cm_event* event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(event, nullptr);
  passive_ = event->id;
  EXPECT_EQ(event->param.conn.qp_num, 0x1234U);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  wish.qp_num = 0x5678;
  ASSERT_EQ(rdma_accept(passive_, &wish), 0);
  event = next(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->id, active_);
  EXPECT_EQ(event->param.conn.qp_num, 0x5678U);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  int mask = 0;
  ASSERT_EQ(rdma_init_qp_attr(active_, &attributes, &mask), 0);
  EXPECT_NE(mask & IBV_QP_DEST_QPN, 0);
  EXPECT_EQ(attributes.dest_qp_num, 0x5678U);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(attributes.ah_attr.port_num, 1);
  ASSERT_EQ(rdma_establish(active_), 0);
  EXPECT_FALSE(daemon_->last<uabi::AcceptRdmaCm>()->has_parameters);
  pass(RDMA_CM_EVENT_ESTABLISHED);  // the passive side's
}

TEST_F(Connected, AnActiveSideThatCannotMoveItsQpSaysSoOnce) {
  create_qp(active_);
  request();
  create_qp(passive_);
  ASSERT_EQ(rdma_accept(passive_, nullptr), 0);
  daemon_->refuse_next<uabi::InitRdmaCmQp>(EINVAL, "no");
  rdma_cm_event* const event = next(RDMA_CM_EVENT_CONNECT_ERROR);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->status, -EINVAL);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  EXPECT_EQ(state_of(active_->qp), IBV_QPS_ERR);
  ASSERT_EQ(rdma_disconnect(passive_), 0);
  pass(RDMA_CM_EVENT_DISCONNECTED);  // the passive side's alone
  daemon_->raise(daemon_->newest_id(), {.type = verbs::RdmaCmEventType::TimewaitExit});
  pass(RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST_F(Connected, DepthsOfTheAnswerAreTheQps) {
  create_qp(active_);
  request();
  create_qp(passive_);
  rdma_conn_param wish{};
  wish.initiator_depth = 1;
  wish.responder_resources = 2;
  ASSERT_EQ(rdma_accept(passive_, &wish), 0);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(passive_->qp, &attributes,
                         IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &initial),
            0);
  EXPECT_EQ(attributes.max_rd_atomic, 1);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 2);
  pass(RDMA_CM_EVENT_ESTABLISHED);
  pass(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(Connected, DepthsBeyondTheDeviceAreRefused) {
  create_qp(active_);
  rdma_conn_param wish{};
  wish.initiator_depth = 200;
  EXPECT_EQ(rdma_connect(active_, &wish), -1);
  EXPECT_EQ(errno, EINVAL);
  wish.initiator_depth = RDMA_MAX_INIT_DEPTH;
  wish.responder_resources = RDMA_MAX_RESP_RES;
  EXPECT_EQ(rdma_connect(active_, &wish), 0);
  const auto told = daemon_->last<uabi::ConnectRdmaCm>()->parameters;
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(active_->verbs, &device), 0);
  EXPECT_EQ(told.initiator_depth, device.max_qp_init_rd_atom);
  EXPECT_EQ(told.responder_resources, device.max_qp_rd_atom);
  rdma_cm_event* const event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(event, nullptr);
  passive_ = event->id;
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
}

TEST_F(Connected, EceOfTheRequestReachesThePassiveProgram) {
  ibv_ece own{.vendor_id = 0x1405, .options = 7, .comp_mask = 0};
  ASSERT_EQ(rdma_set_local_ece(active_, &own), 0);
  rdma_conn_param wish{};
  wish.qp_num = 1;
  ASSERT_EQ(rdma_connect(active_, &wish), 0);
  rdma_cm_event* const event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(event, nullptr);
  passive_ = event->id;
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  ibv_ece remote{};
  ASSERT_EQ(rdma_get_remote_ece(passive_, &remote), 0);
  EXPECT_EQ(remote.vendor_id, 0x1405U);
  EXPECT_EQ(remote.options, 7U);
  own.vendor_id = 0;
  EXPECT_EQ(rdma_set_local_ece(active_, &own), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RdmaCm, ConnectToNobodyIsRejected) {
  rdma_cm_id* const id = resolved(9);
  rdma_conn_param wish{};
  ASSERT_EQ(rdma_connect(id, &wish), 0);
  rdma_cm_event* const event = next(RDMA_CM_EVENT_REJECTED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->status, 8);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, DatagramsAreReadyAtOnceAndLearnTheirPeersAddress) {
  rdma_cm_id* const server = listener(kPort, RDMA_PS_UDP);
  rdma_cm_id* const client = resolved(kPort, RDMA_PS_UDP);
  ibv_qp_init_attr attributes = qp_attributes(IBV_QPT_UD);
  ASSERT_EQ(rdma_create_qp(client, nullptr, &attributes), 0);
  EXPECT_EQ(state_of(client->qp), IBV_QPS_RTS);
  ASSERT_EQ(rdma_connect(client, nullptr), 0);
  rdma_cm_event* event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(event, nullptr);
  rdma_cm_id* const peer = event->id;
  EXPECT_EQ(event->param.ud.private_data_len, 180);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  rdma_conn_param answer{};
  answer.qp_num = 0x77;
  ASSERT_EQ(rdma_accept(peer, &answer), 0);
  event = next(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->id, client);
  EXPECT_EQ(event->param.ud.qp_num, 0x77U);
  EXPECT_EQ(event->param.ud.qkey, std::uint32_t{RDMA_UDP_QKEY});
  ibv_ah* const ah = ibv_create_ah(client->pd, &event->param.ud.ah_attr);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  rdma_destroy_qp(client);
  for (rdma_cm_id* const id : {server, client, peer}) {
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

TEST_F(RdmaCm, DestroysNoQueuePairOfAnIdThatHasNone) {
  rdma_cm_id* const server = listener(kPort, RDMA_PS_TCP);
  rdma_destroy_qp(server);
  EXPECT_EQ(server->qp, nullptr);
  EXPECT_EQ(rdma_destroy_id(server), 0);
}

TEST_F(RdmaCm, MembersOfAGroupAreAttachedUntilTheyLeave) {
  rdma_cm_id* const id = resolved(kPort, RDMA_PS_UDP);
  ibv_qp_init_attr attributes = qp_attributes(IBV_QPT_UD);
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0);
  sockaddr_in group = address("239.1.1.1", 0);
  int context = 5;
  ASSERT_EQ(rdma_join_multicast(id, generic(group), &context), 0);
  rdma_cm_event* const event = next(RDMA_CM_EVENT_MULTICAST_JOIN);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->status, 0);
  EXPECT_EQ(event->param.ud.private_data, &context);
  EXPECT_EQ(event->param.ud.qp_num, 0xFFFFFFU);
  EXPECT_EQ(event->param.ud.ah_attr.dlid, 0xC001);
  const ibv_gid mgid = event->param.ud.ah_attr.grh.dgid;
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  EXPECT_FALSE(daemon_->last<uabi::JoinRdmaCmGroup>()->is_send_only);
  EXPECT_EQ(rdma_leave_multicast(id, generic(group)), 0);
  EXPECT_NE(ibv_detach_mcast(id->qp, &mgid, 0xC001), 0);  // is detached
  EXPECT_EQ(rdma_leave_multicast(id, generic(group)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);

  rdma_cm_join_mc_attr_ex how{};
  how.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  how.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  how.addr = generic(group);
  ASSERT_EQ(rdma_join_multicast_ex(id, &how, nullptr), 0);
  EXPECT_TRUE(daemon_->last<uabi::JoinRdmaCmGroup>()->is_send_only);
  pass(RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_NE(ibv_detach_mcast(id->qp, &mgid, 0xC001), 0);  // was never attached
  rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);  // with its membership
}

TEST_F(RdmaCm, EndpointsConnectWithoutEvents) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* where = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.77.0.1", "7471", &hints, &where), 0);
  ibv_qp_init_attr attributes = qp_attributes();
  rdma_cm_id* server = nullptr;
  ASSERT_EQ(rdma_create_ep(&server, where, nullptr, &attributes), 0);
  rdma_freeaddrinfo(where);
  ASSERT_EQ(rdma_listen(server, 0), 0);

  hints.ai_flags = 0;
  ASSERT_EQ(rdma_getaddrinfo("127.77.0.1", "7471", &hints, &where), 0);
  rdma_cm_id* client = nullptr;
  attributes = qp_attributes();
  ASSERT_EQ(rdma_create_ep(&client, where, nullptr, &attributes), 0);
  rdma_freeaddrinfo(where);
  EXPECT_EQ(attributes.qp_type, IBV_QPT_RC);
  rdma_cm_id* peer = nullptr;
  std::thread serving{[&] {
    ASSERT_EQ(rdma_get_request(server, &peer), 0);
    ASSERT_NE(peer->qp, nullptr);
    ASSERT_EQ(rdma_accept(peer, nullptr), 0);
  }};
  EXPECT_EQ(rdma_connect(client, nullptr), 0);
  serving.join();
  ASSERT_NE(peer, nullptr);
  EXPECT_NE(peer->channel, server->channel);
  expect_to_carry(client, peer);
  EXPECT_EQ(rdma_disconnect(client), 0);
  EXPECT_EQ(rdma_disconnect(peer), 0);
  rdma_destroy_ep(client);
  rdma_destroy_ep(peer);
  rdma_destroy_ep(server);
  EXPECT_EQ(daemon_->ids(), 0U);
}

TEST_F(RdmaCm, ASynchronousConnectThatIsRejectedHasItsErrno) {
  rdma_addrinfo* where = nullptr;
  rdma_addrinfo hints{};
  char private_data_header[] = {'h', 'i'};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_connect = private_data_header;
  hints.ai_connect_len = sizeof private_data_header;
  ASSERT_EQ(rdma_getaddrinfo("127.77.0.1", "9", &hints, &where), 0);
  rdma_cm_id* id = nullptr;
  ibv_qp_init_attr attributes = qp_attributes();
  ASSERT_EQ(rdma_create_ep(&id, where, nullptr, &attributes), 0);
  rdma_freeaddrinfo(where);
  rdma_conn_param wish{};
  wish.private_data = "!";
  wish.private_data_len = 1;
  EXPECT_EQ(rdma_connect(id, &wish), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  const auto told = [&] { return daemon_->last<uabi::ConnectRdmaCm>()->parameters.private_data; };
  EXPECT_EQ(told().size(), 3U);  // what the address information says comes first, and once
  EXPECT_EQ(rdma_connect(id, &wish), -1);
  EXPECT_EQ(told().size(), 1U);
  rdma_destroy_ep(id);
}

TEST_F(Connected, SrqsOfIdsServeTheirQps) {
  ibv_srq_init_attr srq{};
  srq.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  ASSERT_EQ(rdma_create_srq(active_, nullptr, &srq), 0);
  ASSERT_NE(active_->srq, nullptr);
  create_qp(active_);
  EXPECT_EQ(active_->qp->srq, active_->srq);
  rdma_destroy_qp(active_);
  rdma_destroy_srq(active_);
  EXPECT_EQ(active_->srq, nullptr);
}

TEST_F(RdmaCm, QpsWantABoundIdAndTheirOwnDevicesPd) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  ibv_qp_init_attr attributes = qp_attributes();
  EXPECT_EQ(rdma_create_qp(id, nullptr, &attributes), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_disconnect(id), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace
