#include "live_scenarios.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "daemon/testing/live_program.h"
#include "station/lane_choice.h"
#include "verbs/mtu.h"

namespace weft {
namespace {

using daemon::testing::LiveFabric;
using daemon::testing::Program;
using hca::QpAttribute;

/// So many bytes, written 16 times, are more than a ring ever holds.
constexpr std::uint32_t kSixteenthOfTooMuch = 1U << 19;

/// Until `is_so`, calling `meanwhile` again and again; false when patience ends first.
template <class Condition, class Meanwhile>
[[nodiscard]] bool await(Duration wait_limit, Condition is_so, Meanwhile meanwhile) {
  const Instant deadline = os::now() + wait_limit;
  while (!is_so()) {
    if (os::now() > deadline) {
      return false;
    }
    meanwhile();
  }
  return true;
}

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }
void rest_for(Duration time) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(time.nanoseconds()));
}
/// Long enough that a thread without work sleeps.
constexpr Duration kUntilAsleep = Duration::milliseconds(20);

/// The next completion of a program that polls, and a success.
[[nodiscard]] bool succeeds(Program& program, Duration wait_limit) {
  hca::Wc wc;
  return await(
             wait_limit, [&] { return program.cq->poll({&wc, 1}) == 1; },
             [&] { program.process->make_progress(*program.cq); }) &&
         wc.status == hca::WcStatus::Success;
}

/// A program of a host, all of whose messages are packets: what these bugs are about.
[[nodiscard]] host::ProcessOptions with_packets(host::ProcessOptions options) {
  options.placement = hca::PlacementPolicy::Never;
  return options;
}

/// A program of each host, with their RC QPs joined.
struct Two {
  Two() {
    a.connect(b.lid(), b.qp->number());
    b.connect(a.lid(), a.qp->number());
  }
  /// A QP of `a`, and one of `b`, that share the lane of those that are joined.
  [[nodiscard]] std::pair<hca::Qp*, hca::Qp*> on_the_same_lane(const hca::QpInit& of_a,
                                                               const hca::QpInit& of_b) {
    const auto lane_of = [&](const hca::Qp& qp_a, const hca::Qp& qp_b) {
      return station::lane_index_for(a.process->address(), qp_a.number(), b.process->address(),
                                     qp_b.number());
    };
    hca::Qp* const qp_b = *b.process->create_qp(0, of_b);
    while (true) {
      hca::Qp* const qp_a = *a.process->create_qp(0, of_a);
      if (lane_of(*qp_a, *qp_b) == lane_of(*a.qp, *b.qp)) {
        return {qp_a, qp_b};
      }
    }
  }
  void write(std::uint32_t bytes = 8) {
    a.post(hca::WrOpcode::RdmaWrite, 0, bytes, b.address(), b.region->rkey);
  }

  LiveFabric fabric{"pair"};
  Program a{with_packets(fabric.on("h1"))};
  Program b{with_packets(fabric.on("h2"))};
};

/// A QP pair without acknowledgements, on the lane of the others.
struct UcPair {
  explicit UcPair(Two& both) : two(both) {
    cq = *two.b.process->create_cq(0, 64);
    std::tie(from, to) =
        two.on_the_same_lane(unacknowledged(two.a, *two.a.cq), unacknowledged(two.b, *cq));
    connect(two.a, *from, two.b.lid(), to->number());
    connect(two.b, *to, two.a.lid(), from->number());
  }
  ~UcPair() {
    EXPECT_TRUE(two.a.process->destroy_qp(0, *from));
    EXPECT_TRUE(two.b.process->destroy_qp(0, *to));
  }
  UcPair(const UcPair&) = delete;
  UcPair& operator=(const UcPair&) = delete;

  [[nodiscard]] static hca::QpInit unacknowledged(const Program& program,
                                                  hca::CompletionQueue& recv_cq) {
    hca::QpInit init = program.init;
    init.type = hca::QpType::Uc;
    init.recv_cq = &recv_cq;
    return init;
  }
  static void connect(Program& program, hca::Qp& qp, Lid peer_lid, Qpn peer) {
    const auto modify = [&](const hca::QpAttributes& to, hca::QpAttributeMask mask) {
      const auto modified = program.process->modify_qp(qp, to, mask);
      EXPECT_TRUE(modified) << modified.error().reason;
    };
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    to.access = hca::Access::RemoteWrite;
    modify(to, hca::QpAttributeMask{QpAttribute::State} | QpAttribute::PKeyIndex |
                   QpAttribute::Port | QpAttribute::RemoteAccess);
    to.state = hca::QpState::Rtr;
    to.path_mtu = verbs::Mtu::Mtu4096;
    to.dest_qpn = peer;
    to.address.dlid = peer_lid;
    to.address.port = PortNumber{1};
    modify(to, hca::QpAttributeMask{QpAttribute::State} | QpAttribute::AddressVector |
                   QpAttribute::PathMtu | QpAttribute::DestQpn | QpAttribute::RqPsn);
    to.state = hca::QpState::Rts;
    modify(to, hca::QpAttributeMask{QpAttribute::State} | QpAttribute::SqPsn);
  }

  Two& two;
  hca::CompletionQueue* cq{};  // of what `b` receives
  hca::Qp* from{};
  hca::Qp* to{};
};

/// Program b is as if it were stopped while it takes requests: its thread stays in the event of a
/// SEND.
class Stopped {
 public:
  explicit Stopped(UcPair& pair) : pair_(pair) {
    Program& a = pair.two.a;
    Program& b = pair.two.b;
    b.events.at_completion = [this] {
      has_stopped_ = true;
      while (!may_go_on_) {
        rest();
      }
      has_left_ = true;  // this is not touched any more
    };
    pair.cq->arm(false);
    const hca::Sge sge{.address = b.address() + (1U << 19), .length = 8, .lkey = b.region->lkey};
    EXPECT_TRUE(pair.to->post_recv({
        .wr_id = 1, .sges = {&sge, 1}
    }));
    a.post(*pair.from, hca::WrOpcode::Send, 0, 8);
    EXPECT_TRUE(await(Duration::seconds(60), [this] { return has_stopped_.load(); }, rest));
    EXPECT_TRUE(await(Duration::seconds(60), [&] { return !a.cq->is_empty(); }, rest));
    hca::Wc sent;
    EXPECT_EQ(a.cq->poll({&sent, 1}), 1U);
  }
  ~Stopped() {
    go_on();
    static_cast<void>(await(Duration::seconds(60), [this] { return !pair_.cq->is_empty(); }, rest));
    EXPECT_TRUE(await(Duration::seconds(60), [this] { return has_left_ || !has_stopped_; }, rest));
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  void go_on() { may_go_on_ = true; }

 private:
  UcPair& pair_;
  std::atomic<bool> has_stopped_{false};
  std::atomic<bool> may_go_on_{false};
  std::atomic<bool> has_left_{false};
};

/// SENDs to a program that polled once are received all the same.
bool stopped_polling(Duration wait_limit) {
  Two two;
  for (int round = 0; round < 10; ++round) {
    two.b.receive(0, 8);
    two.b.process->make_progress(*two.b.cq);
    two.a.post(hca::WrOpcode::Send, 0, 8);
    if (!succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// What lies unread in the ring of a stopped peer is no lost packet: 50 timeouts without an error.
bool peer_is_stopped(Duration wait_limit) {
  Two two;
  UcPair pair{two};
  hca::QpAttributes reset;
  reset.state = hca::QpState::Reset;
  EXPECT_TRUE(two.a.process->modify_qp(*two.a.qp, reset, QpAttribute::State));
  two.a.connect(two.b.lid(), two.b.qp->number(), 10, 1);  // 4 ms
  Stopped stopped{pair};
  two.write();
  rest_for(Duration::milliseconds(200));
  stopped.go_on();
  return succeeds(two.a, wait_limit);
}

/// Gives `a`'s QP timeouts of 4 ms, of which none may be counted.
void shorten_timers(Two& two) {
  hca::QpAttributes reset;
  reset.state = hca::QpState::Reset;
  EXPECT_TRUE(two.a.process->modify_qp(*two.a.qp, reset, QpAttribute::State));
  two.a.connect(two.b.lid(), two.b.qp->number(), 10, 0);
}

/// Nor is what a peer was stopped at.
bool peer_is_stopped_at_its_answer(Duration wait_limit) {
  Two two;
  shorten_timers(two);
  two.write();
  return succeeds(two.a, wait_limit);
}

/// Nor is an answer that came while the thread was stopped before its timers.
bool stopped_before_timers(Duration wait_limit) {
  for (int round = 0; round < 5; ++round) {
    Two two;
    UcPair pair{two};
    shorten_timers(two);
    Stopped stopped{pair};
    two.write();
    rest_for(Duration::milliseconds(10));
    stopped.go_on();
    rest_for(Duration::milliseconds(30));
    if (!succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// WRITEs at all moments around the one at which the passive side's thread falls asleep.
bool writes_around_sleep(Duration wait_limit) {
  constexpr int kMoments = 200;
  Two two;
  for (int moment = 0; moment < kMoments; ++moment) {
    const Instant start = os::now();
    while (os::now() - start < Duration::microseconds(moment)) {
      two.a.process->make_progress(*two.a.cq);
    }
    two.write();
    if (!succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// WRITEs to a program that polls now and then, so that its thread naps. A poll just when it begins
/// to nap keeps it from its rings: that may happen, and is what the bound of a nap is for.
bool writes_to_a_napper(Duration wait_limit) {
  constexpr int kRounds = 300;
  constexpr int kMayWait = 3;
  constexpr int kPolls = 5;
  Two two;
  int waited = 0;
  for (int round = 0; round < kRounds && waited <= kMayWait; ++round) {
    for (int poll = 0; poll < kPolls; ++poll) {
      two.b.process->make_progress(*two.b.cq);
      const Instant start = os::now();
      while (os::now() - start < host::Process::kPollingLease / 2) {
      }
    }
    two.write();
    // Not a.make_progress(), which gives the CPU away when nothing comes; its thread must not nap.
    two.a.process->before_application_waits();
    const auto is_done = [&] { return !two.a.cq->is_empty(); };
    if (!await(Duration::milliseconds(150), is_done, [] {})) {
      ++waited;
      two.b.process->before_application_waits();  // ends the nap
    }
    const auto both_poll = [&] {
      two.a.process->make_progress(*two.a.cq);
      two.b.process->make_progress(*two.b.cq);
    };
    if (!await(wait_limit, is_done, both_poll) || !succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return waited <= kMayWait;
}

/// WRITEs to a program whose thread sleeps.
bool writes_to_a_sleeper(Duration wait_limit) {
  Two two;
  for (int round = 0; round < 20; ++round) {
    rest_for(kUntilAsleep);
    two.write();
    if (!succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// WRITEs to a program that polls once, a CQ that has nothing to do with them: who takes the
/// doorbell of their lane then is not who looks at it.
bool writes_past_another_cq(Duration wait_limit) {
  Two two;
  hca::CompletionQueue* const other = *two.b.process->create_cq(0, 16);
  bool all_done = true;
  for (int round = 0; round < 20 && all_done; ++round) {
    rest_for(kUntilAsleep);
    two.write();
    two.b.process->make_progress(*other);
    all_done = succeeds(two.a, wait_limit);
  }
  EXPECT_TRUE(two.b.process->destroy_cq(0, *other));
  return all_done;
}

/// The first WRITE of a connection, which may come before the peer has the lane or after.
bool first_write(Duration wait_limit) {
  for (int round = 0; round < 40; ++round) {
    Two two;
    two.write();
    if (!succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// Messages without acknowledgements, more than a ring holds, posted by a program that then waits:
/// what went on tells that there is room.
bool waits_for_room(Duration wait_limit) {
  constexpr std::uint32_t kWrites = 16;
  Two two;
  UcPair pair{two};
  Stopped stopped{pair};
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    two.a.post(*pair.from, hca::WrOpcode::RdmaWrite, 0, kSixteenthOfTooMuch, two.b.address(),
               two.b.region->rkey);
  }
  rest_for(kUntilAsleep);
  stopped.go_on();
  return await(wait_limit, [&] { return two.a.cq->size() == kWrites; }, rest);
}

/// Much more than a ring holds.
bool fills_rings_often(Duration wait_limit) {
  Two two;
  for (int round = 0; round < 200; ++round) {
    two.write(16'384);
    if (!succeeds(two.a, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// A READ is answered while requests of the same program to the same peer find no room.
bool reads_past_requests(Duration wait_limit) {
  Two two;
  UcPair pair{two};
  auto [of_a, of_b] = two.on_the_same_lane(two.a.init, two.b.init);
  two.a.connect(*of_a, two.b.lid(), of_b->number(), 14, 7);
  two.b.connect(*of_b, two.a.lid(), of_a->number(), 14, 7);
  Stopped stopped{pair};
  for (int i = 0; i < 16; ++i) {
    two.write(kSixteenthOfTooMuch);
  }
  for (int i = 0; i < 8; ++i) {  // a ring that grows lets some pass
    two.b.post(*of_b, hca::WrOpcode::RdmaRead, 64, 8, two.a.address(), two.a.region->rkey);
    if (!succeeds(two.b, wait_limit)) {
      return false;
    }
  }
  return true;
}

/// Writes once more just when what was written before has left the line.
bool writes_past_a_line(Duration wait_limit) {
  Two two;
  for (int round = 0; round < 20; ++round) {
    for (const std::uint32_t writes : {16U, 1U}) {
      for (std::uint32_t i = 0; i < writes; ++i) {
        two.write(kSixteenthOfTooMuch);
      }
      for (std::uint32_t i = 0; i < writes; ++i) {
        if (!succeeds(two.a, wait_limit)) {
          return false;
        }
      }
    }
  }
  return true;
}

/// Gives a program queues for `depth` requests.
void deepen(Program& program, std::uint32_t depth) {
  program.cq = *program.process->create_cq(0, 2 * depth);
  hca::QpInit deep = program.init;
  deep.send_cq = deep.recv_cq = program.cq;
  deep.capabilities.max_send_wr = deep.capabilities.max_recv_wr = depth;
  EXPECT_TRUE(program.process->destroy_qp(0, *program.qp));
  program.qp = *program.process->create_qp(0, deep);
}

/// What a process sent before it ended arrives, though the receiver was busy meanwhile. The first
/// message is answered with the credits for the others.
bool last_messages(Duration wait_limit) {
  constexpr std::uint32_t kReceives = 400;
  constexpr std::uint32_t kSends = 250;  // in many batches
  for (int round = 0; round < 5; ++round) {
    LiveFabric fabric{"pair"};
    Program b{fabric.on("h2")};
    auto a = std::make_unique<Program>(fabric.on("h1"));
    deepen(*a, kReceives);
    deepen(b, kReceives);
    a->connect(b.lid(), b.qp->number());
    b.connect(a->lid(), a->qp->number());
    std::atomic<bool> has_stopped{false};
    std::atomic<bool> may_go_on{false};
    b.events.at_completion = [&] {
      has_stopped = true;
      while (!may_go_on) {
        rest();
      }
    };
    for (std::uint32_t i = 0; i < kReceives; ++i) {
      b.receive(0, 8);
    }
    a->post(hca::WrOpcode::Send, 0, 8);
    if (!succeeds(*a, wait_limit) || !succeeds(b, wait_limit)) {
      return false;
    }
    b.cq->arm(false);
    for (std::uint32_t i = 0; i < kSends; ++i) {
      a->post(hca::WrOpcode::Send, 0, 8);
    }
    const bool stopped = await(Duration::seconds(60), [&] { return has_stopped.load(); }, rest);
    a.reset();
    rest_for(Duration::milliseconds(50));  // by now it is known
    may_go_on = true;
    if (!stopped || !await(wait_limit, [&] { return b.cq->size() == kSends; }, rest)) {
      return false;
    }
  }
  return true;
}

/// Who still writes to a process that ended does not reach the one that came after it.
bool late_messages(Duration wait_limit) {
  LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  for (int round = 0; round < 5; ++round) {
    auto gone = std::make_unique<Program>(fabric.on("h2"));
    const Qpn qpn = gone->qp->number();
    gone.reset();
    rest_for(Duration::milliseconds(30));  // by now it is known
    Program next{fabric.on("h2")};
    next.connect(a.lid(), a.qp->number());
    next.receive(0, 8);
    a.connect(next.lid(), qpn, 10, 1);
    a.post(hca::WrOpcode::Send, 0, 8);
    hca::Wc wc;
    const bool ended = await(
        wait_limit, [&] { return a.cq->poll({&wc, 1}) == 1; },
        [&] { a.process->make_progress(*a.cq); });
    if (!ended || wc.status != hca::WcStatus::RetryExceeded) {
      return false;
    }
    hca::QpAttributes reset;
    reset.state = hca::QpState::Reset;
    EXPECT_TRUE(a.process->modify_qp(*a.qp, reset, QpAttribute::State));
  }
  return true;
}

}  // namespace

std::span<const LiveScenario> live_scenarios() {
  using enum LiveBug;
  using enum SafetyNet;
  static const std::array kScenarios{
      LiveScenario{LeaseNeverExpires,        "LeaseNeverExpires",        {},                         stopped_polling              },
      LiveScenario{StoppedPeerCounted,       "StoppedPeerCounted",       {},                         peer_is_stopped              },
      LiveScenario{
                   StoppedResponderCounted,  "StoppedResponderCounted",  {},                         peer_is_stopped_at_its_answer},
      LiveScenario{UnreadResponseCounted,    "UnreadResponseCounted",    {},                         stopped_before_timers        },
      LiveScenario{FinalScanSkipped,         "FinalScanSkipped",         {MaxSleep},                 writes_around_sleep          },
      LiveScenario{SleepAnnouncedTooLate,    "SleepAnnouncedTooLate",    {Nap},                      writes_to_a_napper           },
      LiveScenario{DoorbellNotAdded,         "DoorbellNotAdded",         {MaxSleep, FullScan},       writes_to_a_sleeper          },
      LiveScenario{DoorbellConsumedSilently,
                   "DoorbellConsumedSilently",                           {MaxSleep, FullScan},
                   writes_past_another_cq                                                                                         },
      LiveScenario{NewLaneNotPolled,         "NewLaneNotPolled",         {MaxSleep, FullScan},       first_write                  },
      LiveScenario{
                   SpaceNotSignaled,         "SpaceNotSignaled",         {MaxSleep, SpaceWaitLimit}, waits_for_room               },
      LiveScenario{HeadNeverReloaded,        "HeadNeverReloaded",        {},                         fills_rings_often            },
      LiveScenario{WaiterForgotten,          "WaiterForgotten",          {},                         writes_past_a_line           },
      LiveScenario{ResponsesWaitForRequests, "ResponsesWaitForRequests", {},                         reads_past_requests          },
      LiveScenario{DeadLaneNotDrained,       "DeadLaneNotDrained",       {},                         last_messages                },
      LiveScenario{SlotReusedAtOnce,         "SlotReusedAtOnce",         {},                         late_messages                },
  };
  return kScenarios;
}

}  // namespace weft
