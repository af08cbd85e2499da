#pragma once

// UD QPs of a live fabric's programs.

#include <gtest/gtest.h>

#include "daemon/testing/live_program.h"

namespace weft::daemon::testing {

/// A UD QP of a program that is a member of a group and sends to it.
struct Member {
  static constexpr QKey kQKey{0x11};

  Member(Program& its_program, const Gid& its_mgid, Lid its_mlid)
      : program(its_program), mgid(its_mgid), mlid(its_mlid) {
    hca::QpInit init = program.init;
    init.type = hca::QpType::Ud;
    qp = *program.process->create_qp(0, init);
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    to.qkey = kQKey;
    modify(to, hca::QpAttributeMask{hca::QpAttribute::State} | hca::QpAttribute::PKeyIndex |
                   hca::QpAttribute::Port | hca::QpAttribute::QKey);
    to.state = hca::QpState::Rtr;
    modify(to, hca::QpAttribute::State);
    to.state = hca::QpState::Rts;
    modify(to, hca::QpAttributeMask{hca::QpAttribute::State} | hca::QpAttribute::SqPsn);
    EXPECT_TRUE(program.process->attach_multicast(0, *qp, mgid, mlid));
    const hca::AddressVector attributes{
        .dlid = mlid, .sl = {}, .port = PortNumber{1}, .is_global = true, .grh = {.dgid = mgid}};
    ah = *program.engine.create_ah(*program.pd, attributes);
  }
  ~Member() {
    EXPECT_TRUE(program.process->detach_multicast(0, *qp, mgid, mlid));
    EXPECT_TRUE(program.process->destroy_qp(0, *qp));
    EXPECT_TRUE(program.engine.destroy_ah(*ah));
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void modify(const hca::QpAttributes& to, hca::QpAttributeMask mask) const {
    const auto modified = program.process->modify_qp(*qp, to, mask);
    EXPECT_TRUE(modified) << modified.error().reason;
  }
  void send() const { send_to(*ah, kMulticastQpn); }
  void send_to(hca::AddressHandle& to, Qpn qpn, hca::WrOpcode opcode = hca::WrOpcode::Send) const {
    const hca::Sge sge{.address = program.address(), .length = 8, .lkey = program.region->lkey};
    hca::SendWr wr;
    wr.opcode = opcode;
    wr.sges = {&sge, 1};
    wr.ah = &to;
    wr.remote_qpn = qpn;
    wr.remote_qkey = kQKey;
    EXPECT_TRUE(program.process->post_send(*qp, wr));
  }
  void receive() const {
    const hca::Sge sge{
        .address = program.address() + 4'096, .length = 64, .lkey = program.region->lkey};
    EXPECT_TRUE(qp->post_recv({
        .wr_id = 1, .sges = {&sge, 1}
    }));
  }

  Program& program;
  const Gid mgid;
  const Lid mlid;
  hca::Qp* qp{};
  hca::AddressHandle* ah{};
};

}  // namespace weft::daemon::testing
