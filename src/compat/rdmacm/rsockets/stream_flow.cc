// The QP of a stream: passes completions to the engine, and posts what the engine wants to send.
// Caller must hold the stream's lock.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "compat/rdmacm/rsockets/stream.h"

namespace weft::rsockets {
namespace {

constexpr std::uint64_t kIsReceive = std::uint64_t{1} << 63;  // in a work request's wr_id
constexpr int kCompletionsAtOnce = 16;                        // policy

}  // namespace

void Stream::fail_with(int error) {
  if (is_connected()) {
    engine_.set_failed();
    error_ = error;
  }
}

int Stream::post_receive() {
  ibv_recv_wr wr{};
  wr.wr_id = kIsReceive;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(cm_->qp, &wr, &bad);
}

void Stream::take_completions() {
  if (cm_->recv_cq == nullptr) {
    return;
  }
  ibv_wc completions[kCompletionsAtOnce];
  int count = 0;
  while ((count = ibv_poll_cq(cm_->recv_cq, kCompletionsAtOnce, completions)) > 0) {
    for (const ibv_wc& each : std::span{completions}.first(static_cast<std::size_t>(count))) {
      const bool is_receive = (each.wr_id & kIsReceive) != 0;
      if (!is_receive) {
        engine_.take_sent(each.wr_id);
      }
      if (each.status != IBV_WC_SUCCESS) {
        fail_with(each.status == IBV_WC_WR_FLUSH_ERR ? ECONNRESET : EIO);
      } else if (is_receive && (!engine_.take_message(be32toh(each.imm_data)) ||
                                (is_connected() && post_receive() != 0))) {
        fail_with(EIO);
      }
    }
  }
  if (count < 0) {
    fail_with(EIO);
  }
}

/// Every message is an RDMA WRITE with its number as immediate data; data messages also have
/// octets.
int Stream::post(const StreamWrite& write) {
  ibv_sge place{};
  const std::byte* const octets = write.octets.data();
  std::memcpy(&place.addr, &octets, sizeof octets);
  place.length = static_cast<std::uint32_t>(write.octets.size());
  place.lkey = write.is_held ? send_memory_.lkey() : 0;
  ibv_send_wr wr{};
  wr.wr_id = write.id;
  wr.opcode = write.message ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.imm_data = htobe32(write.message.value_or(0));
  wr.wr.rdma.remote_addr = write.address;
  wr.wr.rdma.rkey = write.key;
  wr.sg_list = &place;
  wr.num_sge = write.octets.empty() ? 0 : 1;
  wr.send_flags = write.is_held || write.octets.empty() ? 0U : unsigned{IBV_SEND_INLINE};
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(cm_->qp, &wr, &bad);
  if (error != 0) {
    fail_with(error);
    errno = error;
    return -1;
  }
  return 0;
}

/// Grants the peer the buffer space that was read.
void Stream::grant() {
  if (const auto write = engine_.grant()) {
    static_cast<void>(post(*write));
  }
}

}  // namespace weft::rsockets
