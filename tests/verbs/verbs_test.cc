// The verbs API on two simulated hosts, called as any program calls it. What Debian's programs do
// not reach: limits, refusals, odd sizes of structures, fork().

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "verbs_fixture.h"

namespace {

TEST_F(Verbs, NameTheDeviceAndItsPort) {
  EXPECT_STREQ(ibv_get_device_name(list_[0]), "weft0");
  EXPECT_NE(ibv_get_device_guid(list_[0]), 0U);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_NE(port.lid, 0);
  EXPECT_EQ(ibv_query_port(context_, 2, &port), EINVAL);
}

TEST_F(Verbs, WriteNoMoreOfAPortThanTheCallersHeaderKnows) {
  constexpr std::size_t kOldSize = 48;
  struct {
    ibv_port_attr port;
  } guarded;
  std::memset(&guarded, 0x5A, sizeof guarded);
  auto* const verbs = verbs_get_ctx(context_);
  ASSERT_EQ(verbs->query_port(context_, 1, &guarded.port, kOldSize), 0);
  const auto* const bytes = static_cast<const unsigned char*>(static_cast<const void*>(&guarded));
  for (std::size_t i = kOldSize; i < sizeof guarded; ++i) {
    EXPECT_EQ(bytes[i], 0x5A) << i;
  }
  std::vector<unsigned char> longer(sizeof(ibv_port_attr) + 8, 0x5A);
  void* const start = longer.data();
  ASSERT_EQ(verbs->query_port(context_, 1, static_cast<ibv_port_attr*>(start), longer.size()), 0);
  EXPECT_EQ(longer.back(), 0) << "what this library does not know is zero";
}

TEST_F(Verbs, AnswerEmptyGidSlotsAsDocumented) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context_, 1, 0, &gid), 0);
  EXPECT_NE(gid.global.interface_id, 0U);
  EXPECT_EQ(ibv_query_gid(context_, 1, 5, &gid), 0);
  EXPECT_EQ(gid.global.interface_id, 0U);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 0), 0);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 5, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 1), EINVAL);
  EXPECT_LT(ibv_query_gid(context_, 1, 999, &gid), 0);
  std::array<ibv_gid_entry, 4> entries{};
  EXPECT_EQ(ibv_query_gid_table(context_, entries.data(), entries.size(), 0), 1);
  EXPECT_EQ(ibv_query_gid_table(context_, entries.data(), 0, 0), -EINVAL) << "too small";
  __be16 pkey{};
  EXPECT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_LT(ibv_query_pkey(context_, 1, 77, &pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0xFFFF), 0);
}

TEST_F(Verbs, RefuseRegionsThatCannotBe) {
  std::array<char, 64> memory{};
  EXPECT_EQ(ibv_reg_mr(pd_, memory.data(), memory.size(), int{IBV_ACCESS_REMOTE_WRITE}), nullptr);
  EXPECT_EQ(errno, EINVAL) << "remote write without local write";
  EXPECT_EQ(ibv_reg_mr(pd_, memory.data(), memory.size(), 1 << 15), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* const hole =
      mmap(nullptr, 8'192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 8'192);
  EXPECT_EQ(ibv_reg_mr(pd_, hole, 8'192, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* const mr = ibv_reg_mr(pd_, memory.data(), memory.size(),
                                int{IBV_ACCESS_LOCAL_WRITE} | int{IBV_ACCESS_RELAXED_ORDERING});
  ASSERT_NE(mr, nullptr) << "optional flags are hints";
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Verbs, RefuseQpsBeyondTheDevicesLimits) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  auto attributes = qp_attributes(cq);
  attributes.cap.max_send_wr = static_cast<std::uint32_t>(device.max_qp_wr) + 1;
  EXPECT_EQ(ibv_create_qp(pd_, &attributes), nullptr);
  attributes = qp_attributes(cq);
  attributes.cap.max_inline_data = 1 << 20;
  EXPECT_EQ(ibv_create_qp(pd_, &attributes), nullptr);
  attributes = qp_attributes(cq, IBV_QPT_RAW_PACKET);
  EXPECT_EQ(ibv_create_qp(pd_, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, device.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Verbs, RefuseUnknownSendOperationsRatherThanLeaveThemNull) {
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = 8,
                    .max_recv_wr = 8,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = pd_;
  attributes.send_ops_flags = IBV_QP_EX_WITH_TSO;
  EXPECT_EQ(ibv_create_qp_ex(context_, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* const extended = ibv_create_qp_ex(context_, &attributes);
  ASSERT_NE(extended, nullptr);
  EXPECT_NE(ibv_qp_to_qp_ex(extended), nullptr);
  EXPECT_EQ(ibv_destroy_qp(extended), 0);
  auto plain_attributes = qp_attributes(cq);
  ibv_qp* const plain = ibv_create_qp(pd_, &plain_attributes);
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(plain), nullptr);
  EXPECT_EQ(ibv_destroy_qp(plain), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Verbs, RefusePostsInTheWrongStateAndNameTheBadRequest) {
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  auto attributes = qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
  ASSERT_NE(qp, nullptr);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);
  EXPECT_EQ(bad_send, &send);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(bad_receive, &receive);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Verbs, PostASeriesOfRequestsWholeOrNotAtAll) {
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  auto plain = qp_attributes(cq);
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.cap = plain.cap;
  attributes.cap.max_send_wr = 4;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = pd_;
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* const qp = ibv_create_qp_ex(context_, &attributes);
  ASSERT_NE(qp, nullptr);
  connect_to_itself(qp);
  alignas(8) std::array<std::uint64_t, 64> memory{};
  ibv_mr* const mr = ibv_reg_mr(pd_, memory.data(), sizeof memory,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  const auto start = std::bit_cast<std::uint64_t>(memory.data());
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp);
  const auto post = [&](std::uint32_t count, std::uint32_t longest) {
    ibv_wr_start(ex);
    for (std::uint32_t i = 0; i < count; ++i) {
      ex->wr_id = i;
      ex->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(ex, mr->rkey, start + 256);
      ibv_wr_set_sge(ex, mr->lkey, start, i + 1 == count ? longest : 8);
    }
    return ibv_wr_complete(ex);
  };
  EXPECT_EQ(post(5, 8), ENOMEM) << "one more than the queue holds";
  EXPECT_EQ(post(3, 0xFFFF'FFFF), EINVAL) << "the last is too long";
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0) << "nothing of either was posted";
  EXPECT_EQ(post(4, 8), 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    wc = wait(cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Verbs, WriteThenReadThenAddThroughALane) {
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  auto attributes = qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
  ASSERT_NE(qp, nullptr);
  connect_to_itself(qp);
  alignas(8) std::array<std::uint64_t, 1'024> memory{};
  ibv_mr* const mr = ibv_reg_mr(pd_, memory.data(), sizeof memory,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  ASSERT_NE(mr, nullptr);
  memory[0] = 41;
  ibv_sge sge{.addr = std::bit_cast<std::uint64_t>(memory.data()), .length = 8, .lkey = mr->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = sge.addr + 512;
  wr.wr.rdma.rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory[64], 41U);
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic = {.remote_addr = sge.addr + 512, .compare_add = 1, .swap = 0, .rkey = mr->rkey};
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  const ibv_wc added = wait(cq);
  EXPECT_EQ(added.status, IBV_WC_SUCCESS);
  EXPECT_EQ(added.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(memory[64], 42U);
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma = {.remote_addr = sge.addr + 512, .rkey = mr->rkey ^ 1};
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  // The QP is its own peer: what comes first is the refusal or the flush of the refuser.
  EXPECT_NE(wait(cq).status, IBV_WC_SUCCESS);
  ibv_qp_attr state{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &state, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(state.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Verbs, DeliverCompletionEventsOnceAnArmed) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* const cq = ibv_create_cq(context_, 16, this, channel, 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  auto attributes = qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
  connect_to_itself(qp);
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &event_cq, &event_context), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&readable, 1, 10'000), 1) << "nobody polls: the progress thread completes it";
  ASSERT_EQ(ibv_get_cq_event(channel, &event_cq, &event_context), 0);
  EXPECT_EQ(event_cq, cq);
  EXPECT_EQ(event_context, this);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

/// ibv_get_cq_event(3): destruction waits for the acknowledgement, so whoever handles an event may
/// poll the CQ until then.
TEST_F(Verbs, KeepACqUntilItsEventIsAcknowledged) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, channel, 0);
  auto attributes = qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
  connect_to_itself(qp);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &event_cq, &event_context), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  std::atomic<bool> is_gone{false};
  std::thread other{[&] {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    is_gone = true;
  }};
  for (int i = 0; i < 100; ++i) {  // beside the other thread, until it waits
    ibv_wc wc{};
    EXPECT_GE(ibv_poll_cq(event_cq, 1, &wc), 0);
    EXPECT_EQ(ibv_req_notify_cq(event_cq, 0), 0);
    usleep(500);
  }
  EXPECT_FALSE(is_gone);
  ibv_ack_cq_events(event_cq, 1);
  other.join();
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

/// A QP for each of several threads; one CQ, which all of them poll, and one SRQ, which all refill.
TEST_F(Verbs, LetThreadsShareACqAndAnSrq) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kMessages = 300;  // of each thread
  constexpr std::uint64_t kAll = kThreads * kMessages;
  ibv_cq* const cq = ibv_create_cq(context_, 256, nullptr, nullptr, 0);
  ibv_srq_init_attr srq_attributes{};
  srq_attributes.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &srq_attributes);
  auto attributes = qp_attributes(cq);
  attributes.srq = srq;
  attributes.sq_sig_all = 1;
  std::vector<ibv_qp*> qps;
  for (std::size_t i = 0; i < kThreads; ++i) {
    qps.push_back(ibv_create_qp(pd_, &attributes));
    connect_to_itself(qps.back());
  }
  std::vector<std::atomic<int>> sent(kAll);
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> done{0};  // of both kinds
  const auto receive = [&] {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  };
  const auto run = [&](std::size_t which) {
    std::uint64_t posted = 0;
    for (int polls = 0; done < 2 * kAll && polls < 50'000'000; ++polls) {
      ibv_send_wr wr{};
      wr.wr_id = which * kMessages + posted;
      wr.opcode = IBV_WR_SEND;
      ibv_send_wr* bad = nullptr;
      posted += posted < kMessages && ibv_post_send(qps[which], &wr, &bad) == 0 ? 1 : 0;
      ibv_wc wc{};
      if (ibv_poll_cq(cq, 1, &wc) == 1) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << wc.opcode;
        if (wc.opcode == IBV_WC_RECV) {
          ++received;
          receive();
        } else {
          EXPECT_EQ(sent.at(wc.wr_id)++, 0) << "one completion for a request";
        }
        ++done;
      }
    }
  };
  for (int i = 0; i < 32; ++i) {
    receive();
  }
  std::vector<std::thread> threads;
  for (std::size_t which = 0; which < kThreads; ++which) {
    threads.emplace_back(run, which);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(received, kAll);
  EXPECT_EQ(done, 2 * kAll);
  for (ibv_qp* const qp : qps) {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Verbs, AnswerAChildOfForkWithAnErrorAndLeaveTheParentAlone) {
  ibv_cq* const cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
  auto attributes = qp_attributes(cq);
  ibv_qp* const qp = ibv_create_qp(pd_, &attributes);
  connect_to_itself(qp);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const pid_t child = fork();
  if (child == 0) {
    ibv_wc wc{};
    const bool refused = ibv_post_send(qp, &wr, &bad) != 0 && ibv_poll_cq(cq, 1, &wc) < 0 &&
                         ibv_alloc_pd(context_) == nullptr && ibv_resize_cq(cq, 32) == EIO;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(wait(cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

/// In the child: a device of its own, beside which the parent's stays refused.
[[nodiscard]] bool works_anew(ibv_context* of_parent) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ibv_context* const context = count == 1 ? ibv_open_device(list[0]) : nullptr;
  ibv_pd* const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
  ibv_cq* const cq = pd != nullptr ? ibv_create_cq(context, 4, nullptr, nullptr, 0) : nullptr;
  if (cq == nullptr || ibv_alloc_pd(of_parent) != nullptr) {
    return false;
  }
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  ibv_qp* const qp = ibv_create_qp(pd, &attributes);
  return qp != nullptr && ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 &&
         ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0;
}

TEST_F(Verbs, LetAChildOfForkOpenADeviceOfItsOwn) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(works_anew(context_) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Verbs, RefuseWhatIsMissingWithTheDocumentedErrno) {
  // With the reason, which an operation that is not there could not give.
  auto* const verbs = verbs_get_ctx(context_);
  EXPECT_NE(verbs->create_counters, nullptr);
  ibv_counters_init_attr counters{};
  EXPECT_EQ(ibv_create_counters(context_, &counters), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd_, 0, 4'096, 0, 0, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
