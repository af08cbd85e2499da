#pragma once

// Processes of h2 that share an XRC domain.

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

#include "daemon/testing/live_program.h"
#include "verbs/mtu.h"

namespace weft::daemon::testing {

inline constexpr std::size_t kReceives = 1U << 19;  // where they lie in a program's memory

inline hca::QpInit xrc_init(const Program& program, hca::QpType type) {
  hca::QpInit init = program.init;
  init.type = type;
  return init;
}

inline void modify(Program& program, hca::Qp& qp, const hca::QpAttributes& to,
                   hca::QpAttributeMask mask) {
  const auto modified = program.process->modify_qp(qp, to, mask);
  ASSERT_TRUE(modified) << modified.error().reason;
}

inline void connect(Program& program, hca::Qp& qp, Lid lid, Qpn peer) {
  using A = hca::QpAttribute;
  const bool is_target = qp.type() == hca::QpType::XrcTarget;
  hca::QpAttributes to;
  to.state = hca::QpState::Init;
  to.port = PortNumber{1};
  to.access = hca::AccessFlags{hca::Access::RemoteWrite} | hca::Access::RemoteRead |
              hca::Access::RemoteAtomic;
  modify(program, qp, to,
         hca::QpAttributeMask{A::State} | A::PKeyIndex | A::Port | A::RemoteAccess);
  to.state = hca::QpState::Rtr;
  to.path_mtu = verbs::Mtu::Mtu1024;
  to.dest_qpn = peer;
  to.max_dest_rd_atomic = 4;
  to.min_rnr_timer = 1;
  to.address.dlid = lid;
  to.address.port = PortNumber{1};
  hca::QpAttributeMask mask =
      hca::QpAttributeMask{A::State} | A::AddressVector | A::PathMtu | A::DestQpn | A::RqPsn;
  if (is_target) {
    mask |= hca::QpAttributeMask{A::MaxDestRdAtomic} | A::MinRnrTimer;
  }
  modify(program, qp, to, mask);
  if (!is_target) {
    to.state = hca::QpState::Rts;
    to.timeout = TimeoutExponent{14};
    to.retry_count = 3;
    to.rnr_retry = 7;
    to.max_rd_atomic = 4;
    modify(program, qp, to,
           hca::QpAttributeMask{A::State} | A::Timeout | A::RetryCount | A::RnrRetry | A::SqPsn |
               A::MaxQpRdAtomic);
  }
}

/// A program of h2 that has the file's domain open.
struct XrcMember {
  XrcMember(const LiveFabric& fabric, int file) : XrcMember(fabric.on("h2"), file) {}
  XrcMember(const host::ProcessOptions& options, int file) : program(options) {
    auto opened = program.process->open_xrc_domain(0, file, true, false);
    EXPECT_TRUE(opened) << opened.error().reason;
    domain = *opened;
  }
  ~XrcMember() {
    if (target != nullptr) {
      EXPECT_TRUE(program.process->release_target(0, *target));
    }
    if (srq != nullptr) {
      EXPECT_TRUE(program.process->destroy_xrc_srq(0, *srq));
    }
    EXPECT_TRUE(program.process->close_xrc_domain(0, *domain));
  }
  XrcMember(const XrcMember&) = delete;
  XrcMember& operator=(const XrcMember&) = delete;

  void make_srq() {
    srq = *program.process->create_xrc_srq(0, *program.pd, *domain, *program.cq, 64, 1);
  }
  void make_target() {
    hca::QpInit init;
    init.type = hca::QpType::XrcTarget;
    init.xrcd = domain;
    target = *program.process->create_qp(0, init);
  }
  void receive(std::uint64_t wr_id, std::uint32_t length) const {
    const hca::Sge sge{
        .address = program.address() + kReceives, .length = length, .lkey = program.region->lkey};
    EXPECT_TRUE(srq->post({
        .wr_id = wr_id, .sges = {&sge, 1}
    }));
  }
  [[nodiscard]] std::uint32_t number() const { return srq->xrc().number; }

  Program program;
  hca::XrcDomain* domain{};
  hca::SharedReceiveQueue* srq{};
  hca::Qp* target{};
};

/// What a member in a separate process reports: its SRQ, target and memory.
struct XrcMemberFacts {
  std::uint32_t srqn{};
  std::uint32_t target{};
  std::uint32_t lid{};
  std::uint32_t rkey{};
  std::uint64_t address{};
};

/// A member in a separate process, forked before any thread exists.
class XrcChild {
 public:
  explicit XrcChild(int file) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    EXPECT_TRUE(::pipe(down.data()) == 0 && ::pipe(up.data()) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(file, down[0], up[1]);
      _exit(0);
    }
    ::close(down[0]);
    ::close(up[1]);
    to_ = os::UniqueFd{down[1]};
    from_ = os::UniqueFd{up[0]};
  }
  ~XrcChild() { kill(); }
  XrcChild(const XrcChild&) = delete;
  XrcChild& operator=(const XrcChild&) = delete;

  XrcMemberFacts start(const LiveFabric& fabric, Qpn initiator, Lid lid) {
    const std::string run = fabric.on("h2").run;
    XrcMemberFacts told;
    const std::array<std::uint32_t, 3> facts{static_cast<std::uint32_t>(run.size()),
                                             initiator.value(), lid.value()};
    EXPECT_EQ(::write(to_.get(), facts.data(), sizeof facts), ssize_t{sizeof facts});
    EXPECT_EQ(::write(to_.get(), run.data(), run.size()), static_cast<ssize_t>(run.size()));
    EXPECT_EQ(::read(from_.get(), &told, sizeof told), ssize_t{sizeof told});
    return told;
  }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }

 private:
  static void run(int file, int from, int to) {
    std::array<std::uint32_t, 3> facts{};
    if (::read(from, facts.data(), sizeof facts) != ssize_t{sizeof facts}) {
      return;
    }
    std::string run(facts[0], '\0');
    if (::read(from, run.data(), run.size()) != static_cast<ssize_t>(run.size())) {
      return;
    }
    XrcMember member{
        {.run = run, .fabric = "test", .host = "h2", .limits = {}},
        file
    };
    member.make_srq();
    member.make_target();
    connect(member.program, *member.target, Lid{facts[2]}, Qpn{facts[1]});
    const XrcMemberFacts told{.srqn = member.number(),
                              .target = member.target->number().value(),
                              .lid = member.program.lid().value(),
                              .rkey = member.program.region->rkey.value(),
                              .address = member.program.address()};
    static_cast<void>(!::write(to, &told, sizeof told));
    while (true) {
      pause();  // its threads serve
    }
  }

  pid_t pid_{};
  os::UniqueFd to_;
  os::UniqueFd from_;
};

}  // namespace weft::daemon::testing
