#include <rdma/ib_verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "core/qp.h"
#include "core/srq.h"
#include "core/work_request.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"

namespace weft::kernel {
namespace {

/// Elements and requests of a chain in the core's form, without an allocation for short chains.
template <class T, std::size_t Count>
class Room {
 public:
  /// `count` of them, from the first on.
  [[nodiscard]] std::span<T> take(std::size_t count) {
    if (count <= Count) {
      return std::span{inline_}.first(count);
    }
    large_.resize(count);
    return large_;
  }

 private:
  std::array<T, Count> inline_{};
  std::vector<T> large_;
};

constexpr std::size_t kShortChain = 8;
constexpr std::size_t kFewElements = 16;

struct ChainSize {
  std::size_t requests{};
  std::size_t elements{};
};

template <class Wr>
[[nodiscard]] ChainSize size_of(const Wr* wr) {
  ChainSize size;
  for (; wr != nullptr; wr = wr->next) {
    ++size.requests;
    size.elements += static_cast<std::size_t>(std::max(wr->num_sge, 0));
  }
  return size;
}

/// Moves a request's list into `left`, and takes it from there.
template <class Wr>
[[nodiscard]] std::span<const verbs::Sge> copy_list(const Wr& wr, std::span<verbs::Sge>& left) {
  const auto count = static_cast<std::size_t>(std::max(wr.num_sge, 0));
  const auto taken = left.first(count);
  left = left.subspan(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ib_sge& sge = wr.sg_list[i];
    taken[i] = {.address = sge.addr, .length = sge.length, .lkey = LKey{sge.lkey}};
  }
  return taken;
}

[[nodiscard]] std::uint32_t number_of(std::uint32_t big_endian) {
  return std::endian::native == std::endian::big ? big_endian : std::byteswap(big_endian);
}

void fill_atomic(core::SendWr& made, const ib_atomic_wr& wr) {
  made.remote_address = wr.remote_addr;
  made.rkey = RKey{wr.rkey};
  made.compare_add = wr.compare_add;
  made.swap = wr.swap;
}

void fill_registration(core::SendWr& made, const ib_reg_wr& wr, const Call& call) {
  made.mr = wr.mr != nullptr ? &core_of(*wr.mr, call) : nullptr;
  made.key = wr.key;
  made.access = verbs::AccessFlags::from_bits(static_cast<std::uint32_t>(wr.access));
}

void fill_datagram(core::SendWr& made, const ib_ud_wr& wr, const Call& call) {
  made.ah = wr.ah != nullptr ? &core_of(*wr.ah, call) : nullptr;
  made.remote_qpn = Qpn{wr.remote_qpn};
  made.remote_qkey = QKey{wr.remote_qkey};
  made.pkey_index = wr.pkey_index;
  made.port = PortNumber{wr.port_num};
}

/// What the structure that a request is the beginning of has besides. Of opcodes that no datagram
/// QP has nothing is read: callers may have put anything behind them, and the core refuses them.
void fill_kind(core::SendWr& made, const ib_send_wr& wr, verbs::QpType type, const Call& call) {
  const bool is_datagram =
      type == verbs::QpType::Ud || type == verbs::QpType::Gsi || type == verbs::QpType::Smi;
  switch (wr.opcode) {
    case IB_WR_RDMA_WRITE:
    case IB_WR_RDMA_WRITE_WITH_IMM:
    case IB_WR_RDMA_READ:
    case IB_WR_RDMA_READ_WITH_INV:
      if (!is_datagram) {
        made.remote_address = rdma_wr(&wr)->remote_addr;
        made.rkey = RKey{rdma_wr(&wr)->rkey};
      }
      break;
    case IB_WR_ATOMIC_CMP_AND_SWP:
    case IB_WR_ATOMIC_FETCH_AND_ADD:
      if (!is_datagram) {
        fill_atomic(made, *atomic_wr(&wr));
      }
      break;
    case IB_WR_REG_MR:
    case IB_WR_REG_MR_INTEGRITY:
      if (!is_datagram) {
        fill_registration(made, *reg_wr(&wr), call);
      }
      break;
    default:
      if (is_datagram) {
        fill_datagram(made, *ud_wr(&wr), call);
      }
      break;
  }
}

void fill(core::SendWr& made, const ib_send_wr& wr, verbs::QpType type, const Call& call) {
  made.wr_id = wr.wr_id;
  made.opcode = static_cast<verbs::WrOpcode>(wr.opcode);
  made.flags = verbs::SendFlags::from_bits(static_cast<std::uint32_t>(wr.send_flags));
  if (wr.opcode == IB_WR_SEND_WITH_IMM || wr.opcode == IB_WR_RDMA_WRITE_WITH_IMM) {
    made.immediate = number_of(wr.ex.imm_data);
  } else {
    made.invalidate_rkey = RKey{wr.ex.invalidate_rkey};
  }
  fill_kind(made, wr, type, call);
}

/// Says which request of a chain in C is the one that was refused of the core's, at `index`.
template <class Wr>
void set_bad(const Wr* first, std::size_t index, const Wr** bad) {
  if (bad == nullptr) {
    return;
  }
  for (; index != 0; --index) {
    first = first->next;
  }
  *bad = first;
}

/// Posts a chain of receives by `post(first, &bad)`.
template <class Post>
int post_receives(const ib_recv_wr* first, const ib_recv_wr** bad, Post post) {
  if (first == nullptr) {
    return refuse({ErrorCode::InvalidArgument, "there is no request to post"});
  }
  const ChainSize size = size_of(first);
  Room<core::RecvWr, kShortChain> requests;
  Room<verbs::Sge, kFewElements> elements;
  const auto chain = requests.take(size.requests);
  auto left = elements.take(size.elements);
  std::size_t at = 0;
  for (const ib_recv_wr* wr = first; wr != nullptr; wr = wr->next, ++at) {
    chain[at] = {.next = wr->next != nullptr ? &chain[at + 1] : nullptr,
                 .wr_id = wr->wr_id,
                 .sges = copy_list(*wr, left)};
  }
  const core::RecvWr* refused = nullptr;
  const Result<void> posted = post(chain.front(), &refused);
  if (!posted) {
    set_bad(first, refused != nullptr ? static_cast<std::size_t>(refused - chain.data()) : 0, bad);
  }
  return returned(posted);
}

}  // namespace
}  // namespace weft::kernel

using weft::kernel::core_of;

int ib_post_send(ib_qp* qp, const ib_send_wr* send_wr, const ib_send_wr** bad_send_wr) {
  if (send_wr == nullptr) {
    return weft::kernel::refuse({weft::ErrorCode::InvalidArgument, "there is no request to post"});
  }
  weft::core::Qp& made = core_of(*qp);
  const weft::kernel::ChainSize size = weft::kernel::size_of(send_wr);
  weft::kernel::Room<weft::core::SendWr, weft::kernel::kShortChain> requests;
  weft::kernel::Room<weft::verbs::Sge, weft::kernel::kFewElements> elements;
  const auto chain = requests.take(size.requests);
  auto left = elements.take(size.elements);
  std::size_t at = 0;
  for (const ib_send_wr* wr = send_wr; wr != nullptr; wr = wr->next, ++at) {
    weft::kernel::fill(chain[at], *wr, made.type(), weft::kernel::Call::current());
    chain[at].sges = weft::kernel::copy_list(*wr, left);
    chain[at].next = wr->next != nullptr ? &chain[at + 1] : nullptr;
  }
  const weft::core::SendWr* refused = nullptr;
  const auto posted = weft::core::post_send(made, chain.front(), &refused);
  if (!posted) {
    weft::kernel::set_bad(send_wr,
                          refused != nullptr ? static_cast<std::size_t>(refused - chain.data()) : 0,
                          bad_send_wr);
  }
  return weft::kernel::returned(posted);
}

int ib_post_recv(ib_qp* qp, const ib_recv_wr* recv_wr, const ib_recv_wr** bad_recv_wr) {
  return weft::kernel::post_receives(
      recv_wr, bad_recv_wr,
      [qp](const weft::core::RecvWr& first, const weft::core::RecvWr** refused) {
        return weft::core::post_recv(core_of(*qp), first, refused);
      });
}

int ib_post_srq_recv(ib_srq* srq, const ib_recv_wr* recv_wr, const ib_recv_wr** bad_recv_wr) {
  return weft::kernel::post_receives(
      recv_wr, bad_recv_wr,
      [srq](const weft::core::RecvWr& first, const weft::core::RecvWr** refused) {
        return weft::core::post_srq_recv(core_of(*srq), first, refused);
      });
}
