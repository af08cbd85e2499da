#include <rdma/rw.h>

#include <memory>
#include <vector>

#include "core/device.h"
#include "core/rdma_rw.h"
#include "core/rdma_rw_sizing.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"
#include "kernel/scatter.h"
#include "kernel/signature.h"

namespace weft::kernel {
namespace {

/// A request of a transfer, in C; registrations name a face of the pool's region.
struct Request {
  union {
    ib_send_wr send;
    ib_rdma_wr rdma;
    ib_reg_wr reg;
  };
  ib_mr region;
  const core::SendWr* made;
};

/// What a context keeps from init to destroy.
struct Transfer {
  core::RdmaContext context;
  std::vector<core::ScatterEntry> list;
  std::vector<core::ScatterEntry> protection;
  std::vector<Request> requests;
  std::vector<ib_sge> elements;
};

[[nodiscard]] Transfer& transfer_of(const rdma_rw_ctx& context) {
  return *static_cast<Transfer*>(context.weft);
}

[[nodiscard]] core::DmaDirection direction_of(dma_data_direction direction) {
  return direction == DMA_TO_DEVICE ? core::DmaDirection::ToDevice : core::DmaDirection::FromDevice;
}

int finish(rdma_rw_ctx& context, std::unique_ptr<Transfer> transfer,
           const Result<std::uint32_t>& made) {
  context = {};
  if (!made) {
    return refuse(made.error());
  }
  context.nr_ops = *made;
  context.weft = transfer.release();
  return static_cast<int>(*made);
}

void fill(Request& request, const core::SendWr& wr) {
  request = {};
  request.made = &wr;
  request.send.opcode = static_cast<ib_wr_opcode>(wr.opcode);
  request.send.send_flags = static_cast<int>(wr.flags.bits());
  request.send.wr_id = wr.wr_id;
  if (wr.mr != nullptr) {
    request.region.weft = wr.mr;
    request.reg.mr = &request.region;
    request.reg.key = wr.key;
    request.reg.access = static_cast<int>(wr.access.bits());
    return;
  }
  request.send.ex.invalidate_rkey = wr.invalidate_rkey.value();
  if (wr.opcode != verbs::WrOpcode::LocalInvalidate) {
    request.rdma.remote_addr = wr.remote_address;
    request.rdma.rkey = wr.rkey.value();
  }
}

/// Makes the chain in C; `end` is what follows in the core's chain and is left out.
void make_chain(Transfer& transfer, const core::SendWr& first, const core::SendWr* end,
                ib_send_wr* chain) {
  std::size_t requests = 0;
  std::size_t elements = 0;
  for (const core::SendWr* wr = &first; wr != end && wr != nullptr; wr = wr->next) {
    ++requests;
    elements += wr->sges.size();
  }
  transfer.requests.resize(requests);
  transfer.elements.clear();
  transfer.elements.reserve(elements);  // requests point to them
  std::size_t at = 0;
  for (const core::SendWr* wr = &first; at < requests; wr = wr->next, ++at) {
    Request& request = transfer.requests[at];
    fill(request, *wr);
    request.send.sg_list = transfer.elements.data() + transfer.elements.size();
    request.send.num_sge = static_cast<int>(wr->sges.size());
    for (const verbs::Sge& sge : wr->sges) {
      transfer.elements.push_back(
          {.addr = sge.address, .length = sge.length, .lkey = sge.lkey.value()});
    }
    request.send.next = at + 1 < requests ? &transfer.requests[at + 1].send : chain;
  }
}

}  // namespace
}  // namespace weft::kernel

using weft::kernel::core_of;

int rdma_rw_ctx_init(rdma_rw_ctx* ctx, ib_qp* qp, std::uint8_t port_num, scatterlist* sg,
                     std::uint32_t sg_cnt, std::uint32_t sg_offset, __u64 remote_addr,
                     std::uint32_t rkey, dma_data_direction dir) {
  auto transfer = std::make_unique<weft::kernel::Transfer>();
  weft::kernel::map_list(sg, sg_cnt);
  transfer->list = weft::kernel::entries_of(sg, sg_cnt);
  const auto made = transfer->context.init(core_of(*qp), weft::PortNumber{port_num},
                                           {.list = transfer->list,
                                            .offset = sg_offset,
                                            .remote_address = remote_addr,
                                            .rkey = weft::RKey{rkey},
                                            .direction = weft::kernel::direction_of(dir)});
  return weft::kernel::finish(*ctx, std::move(transfer), made);
}

int rdma_rw_ctx_signature_init(rdma_rw_ctx* ctx, ib_qp* qp, std::uint8_t port_num, scatterlist* sg,
                               std::uint32_t sg_cnt, scatterlist* prot_sg,
                               std::uint32_t prot_sg_cnt, ib_sig_attrs* sig_attrs,
                               __u64 remote_addr, std::uint32_t rkey, dma_data_direction dir) {
  auto transfer = std::make_unique<weft::kernel::Transfer>();
  weft::kernel::map_list(sg, sg_cnt);
  weft::kernel::map_list(prot_sg, prot_sg_cnt);
  transfer->list = weft::kernel::entries_of(sg, sg_cnt);
  transfer->protection = weft::kernel::entries_of(prot_sg, prot_sg_cnt);
  const auto made = transfer->context.init_signature(
      core_of(*qp), weft::PortNumber{port_num},
      {.list = transfer->list,
       .remote_address = remote_addr,
       .rkey = weft::RKey{rkey},
       .direction = weft::kernel::direction_of(dir)},
      {.list = transfer->protection, .attributes = weft::kernel::signature_of(*sig_attrs)});
  return weft::kernel::finish(*ctx, std::move(transfer), made);
}

ib_send_wr* rdma_rw_ctx_wrs(rdma_rw_ctx* ctx, ib_qp* /*qp*/, std::uint8_t /*port_num*/, ib_cqe* cqe,
                            ib_send_wr* chain_wr) {
  weft::kernel::Transfer& transfer = weft::kernel::transfer_of(*ctx);
  const weft::core::SendWr end;  // in the place of the caller's own requests
  const weft::core::SendWr& first = transfer.context.work_requests(nullptr, &end);
  weft::kernel::make_chain(transfer, first, &end, chain_wr);
  if (chain_wr == nullptr) {
    ib_send_wr& last = transfer.requests.back().send;
    last.wr_cqe = cqe;
    last.send_flags |= IB_SEND_SIGNALED;
  }
  return &transfer.requests.front().send;
}

int rdma_rw_ctx_post(rdma_rw_ctx* ctx, ib_qp* qp, std::uint8_t port_num, ib_cqe* cqe,
                     ib_send_wr* chain_wr) {
  const ib_send_wr* const first = rdma_rw_ctx_wrs(ctx, qp, port_num, cqe, chain_wr);
  const ib_send_wr* bad = nullptr;
  const int posted = ib_post_send(qp, first, &bad);
  if (posted != 0) {
    weft::kernel::Transfer& transfer = weft::kernel::transfer_of(*ctx);
    for (const auto& request : transfer.requests) {
      if (&request.send == bad) {
        transfer.context.forget_unposted(request.made);
      }
    }
  }
  return posted;
}

void rdma_rw_ctx_destroy(rdma_rw_ctx* ctx, ib_qp* /*qp*/, std::uint8_t /*port_num*/,
                         scatterlist* /*sg*/, std::uint32_t /*sg_cnt*/,
                         dma_data_direction /*dir*/) {
  if (ctx->weft != nullptr) {
    const std::unique_ptr<weft::kernel::Transfer> gone{&weft::kernel::transfer_of(*ctx)};
    gone->context.destroy();
  }
  *ctx = {};
}

void rdma_rw_ctx_destroy_signature(rdma_rw_ctx* ctx, ib_qp* qp, std::uint8_t port_num,
                                   scatterlist* sg, std::uint32_t sg_cnt, scatterlist* /*prot_sg*/,
                                   std::uint32_t /*prot_sg_cnt*/, dma_data_direction dir) {
  rdma_rw_ctx_destroy(ctx, qp, port_num, sg, sg_cnt, dir);
}

unsigned rdma_rw_mr_factor(ib_device* device, std::uint8_t port_num, unsigned maxpages) {
  return weft::core::rdma_mr_factor(core_of(*device), weft::PortNumber{port_num}, maxpages);
}
