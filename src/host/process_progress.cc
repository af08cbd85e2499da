// Packets in, timers, and the thread that serves an application which does not poll (DESIGN.md,
// decision 4).

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "host/clock.h"
#include "host/futex.h"
#include "host/process_impl.h"
#include "host/schedule.h"

namespace weft::host {
namespace {

/// Records of one ring before the others have their turn; policy.
constexpr std::size_t kBatch = 32;
constexpr unsigned kAnswerBudget = 4;

/// Polls in vain, of some 50 ns each, before a CPU is offered to others; policy.
constexpr std::uint64_t kPollsBeforeYield = 256;
constexpr std::uint64_t kPollsBeforeYieldInACrowd = 16;  // or on few CPUs

/// While senders wait for room, how long the thread sleeps at most: their peers may be stopped.
constexpr Duration kRoomPatience = Duration::milliseconds(1);

/// Bells and wakes are hints, which a liar among the peers may take back (AttentionPage): who
/// sleeps looks at everything this often.
constexpr Duration kLongestSleep = Duration::seconds(1);

/// How long a thread spins whose naps do not last; policy.
constexpr Duration kLongestSpin = Duration::microseconds(320);

/// Of the spinning thread; policy.
constexpr unsigned kRoundsBetweenLooks = 16;

/// While the thread is hot, the application looks for SENDs that it left only so often, unless
/// told.
constexpr std::uint64_t kPollsBetweenLooks = 16;

/// Answers to an application that polled so lately are left to it: it is the one that waits for
/// them, and what they change lies in its cache; policy.
constexpr Duration kPatienceWithAnswers = Duration::microseconds(5);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// The opcode is the record's first byte; a record that lies about it is refused when it is
/// decoded.
[[nodiscard]] bool is_one_sided(ByteSpan record) {
  return !record.empty() &&
         host::is_one_sided(static_cast<wire::Opcode>(std::to_integer<std::uint8_t>(record[0])));
}

/// Spinning pays only when everybody who spins has a CPU: two programs with two threads each.
[[nodiscard]] bool has_cpus_to_spin() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  constexpr int kEnough = 4;
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= kEnough;
}

/// Whether this thread loses its CPU to others: spinning beside them costs all of them. Asked when
/// a spin has ended without work, which makes a system call anyway.
class Crowding {
 public:
  [[nodiscard]] bool is_crowded(Instant at) {
    const Duration passed = at - asked_at_;
    if (passed > kPeriod) {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      const long lost = usage.ru_nivcsw - std::exchange(switches_, usage.ru_nivcsw);
      crowded_ = lost >= kLeast && passed < kBetweenSwitches * lost;
      asked_at_ = at;
    }
    return crowded_;
  }

 private:
  // Policy: so often only a thread is switched that shares its CPU with others that are woken all
  // the time; one that loses a time slice now and then is better off spinning.
  static constexpr Duration kPeriod = Duration::milliseconds(50);
  static constexpr Duration kBetweenSwitches = Duration::milliseconds(2);
  static constexpr long kLeast = 4;
  long switches_{};
  Instant asked_at_{};
  bool crowded_{};
};

}  // namespace

bool is_one_sided(wire::Opcode opcode) {
  const wire::OpcodeInfo* const info = wire::opcode_info(opcode);
  if (info == nullptr) {
    return false;
  }
  switch (info->operation) {
    case wire::Operation::RdmaWrite:
      return !info->headers.has(wire::ExtensionHeader::Immediate);
    case wire::Operation::RdmaReadRequest:
    case wire::Operation::CompareSwap:
    case wire::Operation::FetchAdd:
      return true;
    case wire::Operation::Send:
    case wire::Operation::RdmaReadResponse:
    case wire::Operation::Acknowledge:
    case wire::Operation::AtomicAcknowledge:
    case wire::Operation::CongestionNotification:
      return false;
  }
  return false;
}

/// A record of another process: copied, checked, and delivered where its addresses say.
void Process::Impl::deliver(Lane& lane, hca::Flow flow, ByteSpan record, Instant at,
                            std::span<QpCarrier*> touched, std::size_t& touched_count) {
  hca::Packet& packet = arriving[flow == hca::Flow::Response ? 1 : 0].packet;
  if (!hca::read_record(record, packet).empty()) {
    refuse(lane, uabi::Misbehaviour::MalformedRecord);
    return;
  }
  packet.source_slot = lane.peer.slot;
  const hca::PacketHeader& header = packet.header;
  const bool is_ud = header.opcode == wire::Opcode::UdSendOnly ||
                     header.opcode == wire::Opcode::UdSendOnlyWithImmediate;
  if (is_ud && slot_of(header.extension.deth.src_qp) != lane.peer.slot) {
    refuse(lane, uabi::Misbehaviour::ForgedQpn);
    return;
  }
  if (header.dlid.is_multicast()) {
    if (const auto lie = lane.lie_of_multicast(header)) {
      refuse(lane, *lie);
      return;
    }
    for (const auto& slot : slots) {
      static_cast<void>(slot->engine->handle_packet(PortNumber{1}, packet, at));
    }
    return;
  }
  const FabricMap::LocalPort* const port = lane.arrival(flow, header);
  if (port == nullptr || port->hca >= slots.size()) {
    refuse(lane, lane.lie(flow));
    return;
  }
  hca::Qp* const qp = slots[port->hca]->engine->handle_packet(port->port, packet, at);
  if (qp == nullptr) {
    refuse(lane, header.dest_qp == kQp0 || header.dest_qp == kQp1
                     ? uabi::Misbehaviour::ManagementQpn
                     : uabi::Misbehaviour::NobodyThere);
    return;
  }
  auto* const carrier = static_cast<QpCarrier*>(qp->carrier);
  if (!is_ud && carrier != nullptr && carrier->lane.load(std::memory_order_relaxed) != &lane) {
    refuse(lane, uabi::Misbehaviour::OthersConnection);  // the QP has dropped it
    return;
  }
  if (carrier != nullptr &&
      std::find(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(touched_count),
                carrier) == touched.begin() + static_cast<std::ptrdiff_t>(touched_count)) {
    touched[touched_count++] = carrier;
  }
}

/// Takes what lies in one ring, at most a batch, then lets the QPs concerned answer: one ACK for
/// many packets. The caller owns the ring.
std::size_t Process::Impl::drain(Lane& lane, hca::Flow flow, bool only_one_sided,
                                 bool leave_one_sided) {
  if (lane.state() != LaneState::Open) {
    return 0;
  }
  ring::Consumer<>& in = flow == hca::Flow::Request ? lane.request_in : lane.response_in;
  std::array<QpCarrier*, kBatch> touched;
  std::size_t touched_count = 0;
  std::size_t taken = 0;
  Instant at;
  while (taken < kBatch) {
    const auto front = in.front();
    if (front.state != ring::Consumer<>::State::Record) {
      if (front.state == ring::Consumer<>::State::Corrupt) {
        refuse(lane, uabi::Misbehaviour::CorruptRing);
      }
      break;
    }
    if (only_one_sided || leave_one_sided) {
      const bool one_sided = is_one_sided(front.body);
      if (only_one_sided && !one_sided) {
        if (!sends_wait.load(std::memory_order_relaxed)) {
          sends_wait.store(true, std::memory_order_relaxed);
        }
        break;
      }
      if (leave_one_sided && one_sided) {
        break;
      }
    }
    if (taken == 0) {
      at = clock.read();
    }
    deliver(lane, flow, front.body, at, touched, touched_count);
    in.pop();
    ++taken;
  }
  if (taken != 0) {
    for (std::size_t i = 0; i < touched_count; ++i) {
      if (flow == hca::Flow::Request) {
        answer(*touched[i], kAnswerBudget);
      } else {
        carry(*touched[i], at, kAnswerBudget);
        arm(*touched[i]);
      }
    }
  }
  // After a pass in vain too: who found no room may have said so just after the last record went.
  if (taken != 0 || flow == hca::Flow::Response) {
    lane.tell_room();
  }
  return taken;
}

std::size_t Process::Impl::take_requests(Taker taker, bool application_is_active) {
  const bool leave_one_sided =
      taker == Taker::Application && thread_is_hot.load(std::memory_order_relaxed);
  if (leave_one_sided) {
    // The thread has the ring. Its lock's cache line is left alone until there is something here.
    if (!sends_wait.load(std::memory_order_relaxed) &&
        polls.load(std::memory_order_relaxed) % kPollsBetweenLooks != 0) {
      return 0;
    }
    sends_wait.store(false, std::memory_order_relaxed);
  }
  if (!request_owner.try_lock()) {
    return 0;
  }
  const std::lock_guard owner{request_owner, std::adopt_lock};
  const bool only_one_sided = taker == Taker::Thread && application_is_active;
  std::size_t taken = 0;
  for_each_watched([&](Lane& lane) {
    taken += drain(lane, hca::Flow::Request, only_one_sided, leave_one_sided);
  });
  return taken;
}

std::size_t Process::Impl::take_responses() {
  if (!response_owner.try_lock()) {
    return 0;
  }
  const std::lock_guard owner{response_owner, std::adopt_lock};
  std::size_t taken = 0;
  for_each_watched([&](Lane& lane) { taken += drain(lane, hca::Flow::Response, false, false); });
  if (waiting_count.load(std::memory_order_relaxed) != 0) {
    resume_waiting_as_owner();
  }
  if (timers.earliest() != Instant::never()) {
    handle_timers(clock.read());
  }
  return taken;
}

/// Lanes that were rung are looked at from now on.
void Process::Impl::answer_bells() {
  if (!attention->rung.is_quiet()) {
    attention->rung.take([this](std::uint32_t number) {
      if (number < lane_count.load(std::memory_order_acquire)) {
        watch(*lanes[number]);
      }
    });
  }
}

/// A bell can get lost by somebody's malice only; what was rung shows in the lane itself, too.
void Process::Impl::look_at_all() {
  const std::scoped_lock owners{request_owner, response_owner};
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes[i]->state() == LaneState::Open && (lanes[i]->is_to_self() || lanes[i]->was_rung())) {
      watch(*lanes[i]);
    }
  }
}

std::size_t Process::Impl::progress(Taker taker, Activity application) {
  answer_bells();
  std::size_t taken = 0;
  if (taker == Taker::Application || !application.polled_lately) {
    taken += take_responses();
  }
  taken += take_requests(taker, application.polls_now);
  if (taken != 0 && taker == Taker::Application) {
    polls_when_found.store(polls.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  return taken;
}

/// A descheduled peer is not a lost packet: an expiry counts only once the peer has read all that
/// was sent to it and still has not answered, or is gone (DESIGN.md, decision 7).
void Process::Impl::handle_timers(Instant at) {
  while (QpCarrier* const carrier = timers.take_due(at)) {
    carrier->armed_ns.store(QpCarrier::kNotArmed, std::memory_order_relaxed);
    if (carrier->qp->deadline() <= at) {
      Lane* const lane = carrier->lane.load(std::memory_order_acquire);
      if (lane == nullptr || lane->is_drained()) {
        carrier->qp->report_loss();
      }
      carrier->qp->handle_timeout(at);
      carry(*carrier, at, kAnswerBudget);
    }
    arm(*carrier);
  }
}

/// After a poll that found nothing. Where programs outnumber CPUs, the peer that this one waits for
/// may be waiting for this very CPU.
void Process::Impl::let_others_run() {
  const std::uint64_t in_vain =
      polls.load(std::memory_order_relaxed) - polls_when_found.load(std::memory_order_relaxed);
  if (in_vain != 0 && in_vain % polls_before_yield.load(std::memory_order_relaxed) == 0) {
    sched_yield();
  }
}

/// Every lane that was looked at is asked to ring from now on; those that have something already
/// are looked at again. True if there are such.
bool Process::Impl::stop_looking() {
  // Lanes close only under both ownerships; take them, so that no memory goes away meanwhile. Who
  // has one is at work on the rings, and might wait for this CPU.
  if (std::try_lock(request_owner, response_owner) != -1) {
    sched_yield();
    return true;
  }
  const std::scoped_lock owners{std::adopt_lock, request_owner, response_owner};
  bool anything = false;
  watched.take([&](std::uint32_t number) {
    Lane& lane = *lanes[number];
    if (lane.state() != LaneState::Open) {
      return;
    }
    lane.announce_sleep(ring::Sleep::Sound);
    lane.tell_room();
    if (lane.has_arrivals()) {
      lane.announce_awake();
      watched.add(number);
      anything = true;
    }
  });
  return anything;
}

void Process::Impl::sleep_until_woken(Instant at) {
  const std::uint32_t seen = attention->wake.load(std::memory_order_acquire);
  thread_sleeps.store(true, std::memory_order_seq_cst);
  const bool anything = stop_looking();
  Duration longest = kLongestSleep;
  if (waiting_count.load(std::memory_order_relaxed) != 0) {
    longest = kRoomPatience;
  }
  const Instant due = timers.earliest();
  if (due != Instant::never()) {
    longest = std::min(longest, std::max(due - at, Duration{}));
  }
  thread_wakes_at_ns.store((at + longest).since_start().nanoseconds(), std::memory_order_seq_cst);
  const bool late = timers.earliest() < at + longest;
  // The last look at rings, in and out, comes after all was announced: that is why no wake is lost.
  bool has_slept = false;
  if (!late && !anything && !stopping.load() && attention->rung.is_quiet() && !resume_waiting() &&
      longest > Duration{}) {
    futex_wait(attention->wake, seen, longest);
    has_slept = true;
  }
  thread_sleeps.store(false, std::memory_order_relaxed);
  thread_wakes_at_ns.store(0, std::memory_order_relaxed);
  if (has_slept && attention->rung.is_quiet()) {
    look_at_all();
  }
}

/// While the application polls, the thread rests for a moment. A one-sided request, which the
/// application does not take, ends it; true if one did.
bool Process::Impl::nap() {
  const std::uint32_t seen = attention->wake.load(std::memory_order_acquire);
  thread_naps.store(true, std::memory_order_seq_cst);
  const auto for_each_open = [this](auto act) {
    if (request_owner.try_lock()) {  // else the application is at it
      const std::lock_guard owner{request_owner, std::adopt_lock};
      for_each_watched([&](Lane& lane) {
        if (lane.state() == LaneState::Open && !lane.is_to_self()) {
          act(lane);
        }
      });
    }
  };
  bool anything = false;
  for_each_open([&](Lane& lane) {
    lane.announce_sleep(ring::Sleep::Napping);
    const auto front = lane.request_in.front();
    anything =
        anything || (front.state == ring::Consumer<>::State::Record && is_one_sided(front.body));
  });
  if (!anything && !lease_ended.load(std::memory_order_seq_cst) && !stopping.load()) {
    futex_wait(attention->wake, seen, Process::kNap);
  }
  thread_naps.store(false, std::memory_order_relaxed);
  for_each_open([](Lane& lane) { lane.announce_awake(); });
  return anything || attention->wake.load(std::memory_order_relaxed) != seen;
}

void Process::Impl::run_progress() {
  ask_to_run_promptly();
  const bool spins = has_cpus_to_spin();
  const Duration least_budget = spins ? Process::kSpinBudget : Duration{};
  Duration budget = least_budget;
  Crowding crowding;
  polls_before_yield.store(spins ? kPollsBeforeYield : kPollsBeforeYieldInACrowd,
                           std::memory_order_relaxed);
  std::uint64_t seen_polls = polls.load(std::memory_order_relaxed);
  Instant polled_at{};  // when a new poll of the application was last seen
  Instant worked_at = now();
  bool has_lease = false;
  Activity application;
  for (unsigned round = 0; !stopping.load(std::memory_order_relaxed); ++round) {
    const Instant at = clock.read();
    if (round % kRoundsBetweenLooks == 0) {  // the application writes that line: not every round
      if (const std::uint64_t count = polls.load(std::memory_order_relaxed); count != seen_polls) {
        seen_polls = count;
        polled_at = at;
      }
      has_lease = !lease_ended.load(std::memory_order_seq_cst);
      application = {.polls_now = has_lease && at - polled_at < kFreshPoll,
                     .polled_lately = has_lease && at - polled_at < kPatienceWithAnswers};
    }
    if (progress(Taker::Thread, application) != 0) {
      worked_at = at;
      if (!thread_is_hot.load(std::memory_order_relaxed)) {
        thread_is_hot.store(budget > Duration{}, std::memory_order_relaxed);
      }
      continue;
    }
    if (at - worked_at < budget) {
      pause();
      continue;
    }
    thread_is_hot.store(false, std::memory_order_relaxed);
    const bool is_crowded = crowding.is_crowded(at);
    if (has_lease && at - polled_at < kPollingLease) {
      // Work during a nap: waking took longer than waiting would have, and if the other side naps
      // for the same reason, each wakes the other for ever.
      budget = nap() ? std::min(budget * 2, kLongestSpin) : budget / 2;
    } else {
      sleep_until_woken(now());
    }
    budget = is_crowded ? Duration{} : std::max(budget, least_budget);
    polls_before_yield.store(spins && !is_crowded ? kPollsBeforeYield : kPollsBeforeYieldInACrowd,
                             std::memory_order_relaxed);
    round = kRoundsBetweenLooks - 1;
  }
}

}  // namespace weft::host
