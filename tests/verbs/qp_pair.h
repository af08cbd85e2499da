#pragma once

// Two RC QPs that are connected to each other, in one program, with memory that both may use.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <cstdint>

#include "verbs_fixture.h"

class QpPair : public Verbs {
 protected:
  struct Options {
    int cqe{16};
    bool has_srq{};
    Connection connection{};
  };

  void make() { make({}); }
  void make(const Options& options) {
    ASSERT_NO_FATAL_FAILURE(make_unconnected(options));
    connect(a_, b_, options.connection);
    connect(b_, a_, options.connection);
  }
  void make_unconnected(const Options& options) {
    a_cq_ = ibv_create_cq(context_, options.cqe, nullptr, nullptr, 0);
    b_cq_ = ibv_create_cq(context_, options.cqe, nullptr, nullptr, 0);
    ASSERT_TRUE(a_cq_ != nullptr && b_cq_ != nullptr);
    mr_ = ibv_reg_mr(pd_, memory_.data(), sizeof memory_,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC);
    ASSERT_NE(mr_, nullptr);
    auto attributes = qp_attributes(a_cq_);
    attributes.sq_sig_all = 1;
    a_ = ibv_create_qp(pd_, &attributes);
    attributes.send_cq = attributes.recv_cq = b_cq_;
    if (options.has_srq) {
      ibv_srq_init_attr srq{};
      srq.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
      attributes.srq = srq_ = ibv_create_srq(pd_, &srq);
      ASSERT_NE(srq_, nullptr);
    }
    b_ = ibv_create_qp(pd_, &attributes);
    ASSERT_TRUE(a_ != nullptr && b_ != nullptr);
  }
  void TearDown() override {
    const auto gone = [](auto* object, auto destroy) {
      EXPECT_EQ(object == nullptr ? 0 : destroy(object), 0);
    };
    gone(a_, ibv_destroy_qp);
    gone(b_, ibv_destroy_qp);
    gone(srq_, ibv_destroy_srq);
    gone(mr_, ibv_dereg_mr);
    gone(a_cq_, ibv_destroy_cq);
    gone(b_cq_, ibv_destroy_cq);
    Verbs::TearDown();
  }

  [[nodiscard]] std::uint64_t address() const {
    return std::bit_cast<std::uint64_t>(memory_.data());
  }
  [[nodiscard]] ibv_sge sge(std::uint32_t length) const {
    return {.addr = address(), .length = length, .lkey = mr_->lkey};
  }

  /// From a to b's half of the memory; the errno of a refused post.
  struct Request {
    ibv_wr_opcode opcode{IBV_WR_SEND};
    std::uint32_t length{8};
    std::uint32_t rkey_change{};
    std::uint32_t lkey_change{};
  };
  int send(const Request& what) const {
    ibv_sge from = sge(what.length);
    from.lkey ^= what.lkey_change;
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.opcode = what.opcode;
    wr.sg_list = &from;
    wr.num_sge = what.length == 0 ? 0 : 1;
    const std::uint64_t to = address() + sizeof memory_ / 2;
    if (what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {
          .remote_addr = to, .compare_add = 1, .swap = 0, .rkey = mr_->rkey ^ what.rkey_change};
    } else {
      wr.wr.rdma = {.remote_addr = to, .rkey = mr_->rkey ^ what.rkey_change};
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(a_, &wr, &bad);
  }
  /// At b, in its SRQ if it has one.
  int receive(std::uint32_t length, std::uint32_t lkey_change = 0) const {
    ibv_sge into = sge(length);
    into.lkey ^= lkey_change;
    ibv_recv_wr wr{};
    wr.wr_id = 2;
    wr.sg_list = &into;
    wr.num_sge = length == 0 ? 0 : 1;
    ibv_recv_wr* bad = nullptr;
    return srq_ != nullptr ? ibv_post_srq_recv(srq_, &wr, &bad) : ibv_post_recv(b_, &wr, &bad);
  }
  static int to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
  }

  ibv_cq* a_cq_{};
  ibv_cq* b_cq_{};
  ibv_mr* mr_{};
  ibv_srq* srq_{};
  ibv_qp* a_{};
  ibv_qp* b_{};
  alignas(8) std::array<std::uint64_t, 512> memory_{};
};
