// Extended posting: wr_start, one builder and setters per request, wr_complete.

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/work_request.h"

namespace {

using namespace weft;
using namespace weft::compat;

[[nodiscard]] QpObject& qp_of(ibv_qp_ex* qp) { return object_of<QpObject>(qp); }

hca::SendWr& begin(ibv_qp_ex* qp, hca::WrOpcode opcode) {
  QpObject& object = qp_of(qp);
  PendingWr& pending = object.pending.emplace_back();
  pending.first_sge = object.pending_sges.size();
  pending.first_inline_byte = object.pending_bytes.size();
  pending.wr.wr_id = qp->wr_id;
  pending.wr.opcode = opcode;
  pending.wr.flags = hca::SendFlags::from_bits(qp->wr_flags & 0xF)
                         .without(hca::Send::Inline);  // the setters determine it
  return pending.wr;
}

/// The request to which setters refer; null, which fails the whole series, if there is none.
PendingWr* newest(ibv_qp_ex* qp) {
  QpObject& object = qp_of(qp);
  if (object.pending.empty()) {
    object.pending_error = refuse(EINVAL, "a setter without a work request before it");
    return nullptr;
  }
  return &object.pending.back();
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) noexcept {
  hca::SendWr& wr = begin(qp, hca::WrOpcode::RdmaWrite);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
}
void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       __be32 immediate) noexcept {
  hca::SendWr& wr = begin(qp, hca::WrOpcode::RdmaWriteWithImmediate);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
  wr.immediate = ntohl(immediate);
}
void wr_send(ibv_qp_ex* qp) noexcept { begin(qp, hca::WrOpcode::Send); }
void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) noexcept {
  begin(qp, hca::WrOpcode::SendWithImmediate).immediate = ntohl(immediate);
}
void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
  begin(qp, hca::WrOpcode::SendWithInvalidate).rkey = RKey{rkey};
}
void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) noexcept {
  begin(qp, hca::WrOpcode::LocalInvalidate).rkey = RKey{rkey};
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey,
                const ibv_mw_bind_info* info) noexcept {
  begin(qp, hca::WrOpcode::BindMemoryWindow);
  if (const auto binding = to_engine(*mw, rkey, *info)) {
    qp_of(qp).pending.back().binding = *binding;
  } else {
    qp_of(qp).pending_error = refuse(binding.error());
  }
}
void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) noexcept {
  hca::SendWr& wr = begin(qp, hca::WrOpcode::RdmaRead);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
}
void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       std::uint64_t compare, std::uint64_t swap) noexcept {
  hca::SendWr& wr = begin(qp, hca::WrOpcode::CompareSwap);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
  wr.compare_add = compare;
  wr.swap = swap;
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                         std::uint64_t add) noexcept {
  hca::SendWr& wr = begin(qp, hca::WrOpcode::FetchAdd);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
  wr.compare_add = add;
}

void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                     const void* eight_bytes) noexcept {
  hca::SendWr& wr = begin(qp, hca::WrOpcode::AtomicWrite);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
  std::memcpy(&wr.swap, eight_bytes, sizeof wr.swap);
}

/// `type` is an ibv_placement_type, `level` an ibv_selectivity_level; both have the values of the
/// wire format.
void wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::size_t length,
              std::uint8_t type, std::uint8_t level) noexcept {
  constexpr std::size_t kTooLong = 0xFFFF'FFFF;  // saturates: a longer one must not become shorter
  hca::SendWr& wr = begin(qp, hca::WrOpcode::Flush);
  wr.rkey = RKey{rkey};
  wr.remote_address = address;
  wr.flush = {.length = static_cast<std::uint32_t>(std::min(length, kTooLong)),
              .placement = type,
              .selectivity = static_cast<wire::FlushSelectivity>(level)};
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) noexcept {
  if (PendingWr* const pending = newest(qp)) {
    pending->wr.ah = ah == nullptr ? nullptr : object_of<AddressHandleObject>(ah).engine;
    pending->wr.remote_qpn = Qpn{qpn & 0xFF'FFFF};
    pending->wr.remote_qkey = QKey{qkey};
  }
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t remote_srqn) noexcept {
  if (PendingWr* const pending = newest(qp)) {
    pending->wr.xrc_srqn = remote_srqn & 0xFF'FFFF;
  }
}

void add_sge(ibv_qp_ex* qp, PendingWr& pending, const ibv_sge& sge) {
  qp_of(qp).pending_sges.push_back(
      {.address = sge.addr, .length = sge.length, .lkey = LKey{sge.lkey}});
  ++pending.sge_count;
}
void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address,
                std::uint32_t length) noexcept {
  if (PendingWr* const pending = newest(qp)) {
    add_sge(qp, *pending, {.addr = address, .length = length, .lkey = lkey});
  }
}
void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* sges) noexcept {
  if (PendingWr* const pending = newest(qp)) {
    for (std::size_t i = 0; i < count; ++i) {
      add_sge(qp, *pending, sges[i]);
    }
  }
}

/// The program may reuse inline data as soon as the setter returns, so it is copied here.
void add_inline(ibv_qp_ex* qp, PendingWr& pending, const void* address, std::size_t length) {
  const QpObject& object = qp_of(qp);
  auto& bytes = qp_of(qp).pending_bytes;
  const auto* const from = static_cast<const std::byte*>(address);
  pending.is_inline = true;
  pending.inline_bytes += length;
  if (pending.inline_bytes > object.context->engine->configuration().limits.max_inline_data) {
    qp_of(qp).pending_error =
        refuse(EINVAL, fmt::format("{} bytes inline; the device allows {}", pending.inline_bytes,
                                   object.context->engine->configuration().limits.max_inline_data));
    return;
  }
  bytes.insert(bytes.end(), from, from + length);
}
void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length) noexcept {
  if (PendingWr* const pending = newest(qp)) {
    add_inline(qp, *pending, address, length);
  }
}
void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count,
                             const ibv_data_buf* buffers) noexcept {
  if (PendingWr* const pending = newest(qp)) {
    pending->is_inline = true;
    for (std::size_t i = 0; i < count; ++i) {
      add_inline(qp, *pending, buffers[i].addr, buffers[i].length);
    }
  }
}

void forget(QpObject& object) {
  object.pending.clear();
  object.pending_sges.clear();
  object.pending_bytes.clear();
  object.pending_error = 0;
}

void wr_start(ibv_qp_ex* qp) noexcept {
  pthread_mutex_lock(&qp->qp_base.mutex);
  forget(qp_of(qp));
}

void wr_abort(ibv_qp_ex* qp) noexcept {
  forget(qp_of(qp));
  pthread_mutex_unlock(&qp->qp_base.mutex);
}

[[nodiscard]] hca::Sge local(const std::vector<std::byte>& bytes, const PendingWr& pending) {
  const std::byte* const start = bytes.data() + pending.first_inline_byte;
  hca::Sge sge;
  std::memcpy(&sge.address, &start, sizeof start);
  sge.length = static_cast<std::uint32_t>(pending.inline_bytes);
  return sge;
}

/// Posts all of the series or nothing.
[[nodiscard]] int post_series(QpObject& object) {
  for (PendingWr& pending : object.pending) {
    if (pending.is_inline) {
      pending.first_sge = object.pending_sges.size();
      pending.sge_count = 1;
      pending.wr.flags |= hca::Send::Inline;
      object.pending_sges.push_back(local(object.pending_bytes, pending));
    }
  }
  object.series.clear();
  for (PendingWr& pending : object.pending) {
    pending.wr.sges = std::span{object.pending_sges}.subspan(pending.first_sge, pending.sge_count);
    if (pending.wr.opcode == hca::WrOpcode::BindMemoryWindow) {
      pending.wr.binding = &pending.binding;
    }
    object.series.push_back(pending.wr);
  }
  if (auto posted = object.engine->post_send(std::span<const hca::SendWr>{object.series});
      !posted) {
    return refuse(posted.error());
  }
  object.context->process->kick(*object.engine);
  return 0;
}

int wr_complete(ibv_qp_ex* qp) noexcept {
  QpObject& object = qp_of(qp);
  int status = object.pending_error;
  if (status == 0) {
    status = is_alive(*object.context) ? post_series(object) : refuse_in_child();
  }
  wr_abort(qp);
  return status;
}

}  // namespace

void weft::compat::set_send_operations(QpObject& object) {
  ibv_qp_ex& qp = object.qp;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = wr_send_inv;
  qp.wr_local_inv = wr_local_inv;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp.wr_atomic_write = wr_atomic_write;
  static_assert(offsetof(QpObject, wr_flush) == sizeof(ibv_qp_ex));
  object.wr_flush = wr_flush;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
}
