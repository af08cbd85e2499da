#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/cq.h"
#include "core/pd.h"
#include "core/qp.h"
#include "core/registry.h"
#include "core/testing/engine_network.h"
#include "core/testing/manual_environment.h"

namespace weft::core::testing {

/// A request that counts itself when it is done, and says how.
struct CountedRequest {
  CompletionHandler handler{.done = done};  // first: found by its address
  int number{};
  std::vector<int>* order{};
  verbs::WcStatus status{verbs::WcStatus::GeneralError};
  std::uint32_t byte_length{};
  unsigned calls{};

  static void done(Cq& /*cq*/, const Wc& wc) {
    auto* const self = static_cast<CountedRequest*>(static_cast<void*>(wc.handler()));
    self->status = wc.status;
    self->byte_length = wc.byte_length;
    ++self->calls;
    if (self->order != nullptr) {
      self->order->push_back(self->number);
    }
  }
};

struct EndOptions {
  verbs::QpType type{verbs::QpType::Rc};
  PollContext poll_context{PollContext::WorkQueue};
  std::uint32_t depth{64};
  Srq* srq{};
  std::uint32_t max_rdma_contexts{};
  QpCreateFlags flags{};
};

/// One side of a pair of QPs: PD, CQs and a QP of one engine.
struct End {
  Device* device{};
  Pd* pd{};
  Cq* send_cq{};
  Cq* recv_cq{};
  Qp* qp{};
  std::vector<std::byte> memory = std::vector<std::byte>(1U << 16);

  [[nodiscard]] verbs::Sge sge(std::size_t offset, std::uint32_t length) const {
    return {.address = std::bit_cast<std::uint64_t>(memory.data() + offset),
            .length = length,
            .lkey = pd->local_dma_lkey()};
  }
};

inline void open_end(End& end, Device& device, const EndOptions& options = {}) {
  end.device = &device;
  end.pd = *allocate_pd(device);
  const CqInit cq{.entries = 4 * options.depth, .poll_context = options.poll_context};
  end.send_cq = *allocate_cq(device, cq);
  end.recv_cq = *allocate_cq(device, cq);
  QpInit init;
  init.type = options.type;
  init.send_cq = end.send_cq;
  init.recv_cq = end.recv_cq;
  init.srq = options.srq;
  init.max_rdma_contexts = options.max_rdma_contexts;
  init.flags = options.flags;
  init.capabilities = {.max_send_wr = options.depth,
                       .max_recv_wr = options.srq == nullptr ? options.depth : 0,
                       .max_send_sge = 4,
                       .max_recv_sge = 4};
  const auto qp = create_qp(*end.pd, init);
  ASSERT_TRUE(qp) << qp.error().reason;
  end.qp = *qp;
}

inline void close_end(End& end) {
  EXPECT_TRUE(destroy_qp(*end.qp));
  EXPECT_TRUE(free_cq(*end.send_cq));
  EXPECT_TRUE(free_cq(*end.recv_cq));
  EXPECT_TRUE(deallocate_pd(*end.pd));
}

/// RESET to RTS, towards QP `peer` at `lid`.
inline void connect_end(End& end, Lid lid, Qpn peer) {
  QpFields fields;
  fields.state = verbs::QpState::Rts;
  verbs::QpAttributes& attributes = fields.attributes;
  attributes.port = PortNumber{1};
  attributes.qkey = QKey{0x1234};
  attributes.access = verbs::AccessFlags{verbs::Access::RemoteWrite} | verbs::Access::RemoteRead |
                      verbs::Access::RemoteAtomic;
  attributes.path_mtu = verbs::Mtu::Mtu1024;
  attributes.dest_qpn = peer;
  attributes.rq_psn = Psn{0x200};
  attributes.sq_psn = Psn{0x200};
  attributes.max_rd_atomic = 4;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 12;
  attributes.timeout = TimeoutExponent{14};
  attributes.retry_count = 7;
  attributes.rnr_retry = 7;
  attributes.address.dlid = lid;
  attributes.address.port = PortNumber{1};
  const auto applied = apply_qp_fields(*end.qp, fields);
  ASSERT_TRUE(applied) << applied.error().reason;
}

/// Two hosts with connected QPs, on one thread and a virtual clock.
struct EnginePair {
  explicit EnginePair(const EndOptions& options = {}, const engine::EngineInit& init = {}) {
    environment.world = [this] { return network.step(); };
    network.add_host(registry, init);
    network.add_host(registry, init);
    open_end(a, network.host(0).device(), options);
    open_end(b, network.host(1).device(), options);
    connect_end(a, EngineNetwork::lid_of(1), b.qp->number());
    connect_end(b, EngineNetwork::lid_of(0), a.qp->number());
  }
  ~EnginePair() {
    close_end(a);
    close_end(b);
    network.unregister_all();
  }

  ManualEnvironment environment;
  Registry registry{environment};
  EngineNetwork network{environment};
  End a;
  End b;
};

[[nodiscard]] inline SendWr signaled(CountedRequest& request, verbs::WrOpcode opcode,
                                     std::span<const verbs::Sge> sges = {}) {
  SendWr wr;
  wr.wr_id = wr_id_of(request.handler);
  wr.opcode = opcode;
  wr.flags = verbs::Send::Signaled;
  wr.sges = sges;
  return wr;
}

}  // namespace weft::core::testing
