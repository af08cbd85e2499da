#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/access_flags.h"
#include "verbs/completion.h"
#include "verbs/work_request.h"

namespace weft::core {

class Ah;
class Cq;
class Mr;
class Qp;
struct CompletionHandler;

/// Bytes that a program's library and a driver exchange beside a call (`struct ib_udata`); the core
/// does not look at them. Null for objects of the stack itself.
struct UserData {
  std::span<const std::byte> input{};
  std::span<std::byte> output{};
};

static_assert(sizeof(void*) == sizeof(std::uint64_t), "a wr_id holds a pointer");

/// An RDMA READ that ends the validity of the region it was for (`IB_WR_RDMA_READ_WITH_INV`): of
/// iWARP ports alone, so that verbs, which are InfiniBand's, have no name for it.
inline constexpr verbs::WrOpcode kRdmaReadWithInvalidate{11};

/// A completion as the stack's users see it.
struct Wc : verbs::Wc {
  Qp* qp{};
  PortNumber port{};  ///< of SMI and GSI QPs

  /// What `wr_id` stands for in a managed CQ.
  [[nodiscard]] CompletionHandler* handler() const {
    return std::bit_cast<CompletionHandler*>(wr_id);
  }
};

/// What a work request for a managed CQ names in place of a wr_id (`struct ib_cqe`): its consumer
/// embeds it in the object that the request is about, and is called with it. Lives until then.
struct CompletionHandler {
  /// `wc` is valid during the call. May post, and may free the object that this is part of; must
  /// not free `cq`.
  void (*done)(Cq& cq, const Wc& wc){};
};

[[nodiscard]] inline std::uint64_t wr_id_of(const CompletionHandler& handler) {
  return std::bit_cast<std::uint64_t>(&handler);
}

/// A work request for a send queue (`struct ib_send_wr` and what contains it). Requests form a
/// chain by `next`; chain and elements are read during the posting call only. Fields count as their
/// opcode and the QP's type say.
struct SendWr {
  const SendWr* next{};
  std::uint64_t wr_id{};  ///< of a managed CQ: wr_id_of() a handler
  verbs::WrOpcode opcode{verbs::WrOpcode::Send};
  verbs::SendFlags flags{};
  std::span<const verbs::Sge> sges{};
  std::uint32_t immediate{};       ///< as a number
  RKey invalidate_rkey{};          ///< SendWithInvalidate, LocalInvalidate, and READ
  std::uint64_t remote_address{};  ///< RDMA, atomics
  RKey rkey{};                     ///< RDMA, atomics
  std::uint64_t compare_add{};
  std::uint64_t swap{};
  const Ah* ah{};              ///< UD; null: the QP's own address (R-QP-5)
  Qpn remote_qpn{};            ///< UD
  QKey remote_qkey{};          ///< UD; 0: the QP's own (R-QP-7)
  std::uint16_t pkey_index{};  ///< GSI
  PortNumber port{};           ///< SMI of switches
  std::uint32_t xrc_srqn{};    ///< XRC initiators
  Mr* mr{};                    ///< RegisterMemory, RegisterMemoryIntegrity
  std::uint32_t key{};  ///< RegisterMemory: the key from now on, whose upper part is the MR's
  verbs::AccessFlags access{};  ///< RegisterMemory
};

/// A work request for a receive queue; the rest as of SendWr.
struct RecvWr {
  const RecvWr* next{};
  std::uint64_t wr_id{};
  std::span<const verbs::Sge> sges{};
};

}  // namespace weft::core
