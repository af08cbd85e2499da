#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>

#include "hca/testing/loopback_pair.h"

/// Work requests in the form that most engine tests use.
namespace weft::hca::testing {

[[nodiscard]] inline SendWr signaled(WrOpcode opcode, std::span<const Sge> sges,
                                     std::uint64_t wr_id = 1) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.flags = Send::Signaled;
  wr.sges = sges;
  return wr;
}

inline void post(Qp& qp, const SendWr& wr) {
  const auto posted = qp.post_send(wr);
  ASSERT_TRUE(posted) << posted.error().reason;
}

/// A request from a's first `length` bytes to b's memory, or a datagram to b's QP.
struct Request {
  WrOpcode opcode{WrOpcode::Send};
  std::uint32_t length{8};
  std::uint64_t offset{};  // in b's memory
  std::uint32_t rkey_change{};
  std::uint64_t wr_id{1};
};
inline void request(LoopbackPair& pair, const Request& what) {
  Side& a = pair.a();
  const std::array sges{a.sge(0, what.length)};
  SendWr wr = signaled(what.opcode, what.length == 0 ? std::span<const Sge>{} : sges, what.wr_id);
  wr.remote_address = pair.b().address(what.offset);
  wr.flush = {.length = 8, .placement = wire::kPlacementGlobal};
  wr.rkey = RKey{pair.b().region->rkey.value() ^ what.rkey_change};
  if (a.qp->type() == QpType::Ud) {
    AddressVector address;
    address.dlid = Lid{2};
    address.port = PortNumber{1};
    wr.ah = *a.hca.create_ah(*a.pd, address);
    wr.remote_qpn = pair.b().qp->number();
    wr.remote_qkey = a.qp->query().qkey;
  }
  if (a.qp->type() == QpType::XrcInitiator) {
    wr.xrc_srqn = pair.b().srq->xrc().number;
  }
  post(*a.qp, wr);
}

/// Posts a receive of `length` bytes on `side`, to its SRQ if it has one.
inline void receive(Side& side, std::uint32_t length, std::uint64_t wr_id = 100) {
  const std::array sges{side.sge(0x2000, length)};
  const RecvWr wr{.wr_id = wr_id, .sges = sges};
  ASSERT_TRUE(side.srq != nullptr ? side.srq->post(wr) : side.qp->post_recv(wr));
}

inline void to_state(Qp& qp, QpState state) {
  QpAttributes attributes;
  attributes.state = state;
  const auto modified = qp.modify(attributes, QpAttribute::State);
  ASSERT_TRUE(modified) << modified.error().reason;
}

}  // namespace weft::hca::testing
