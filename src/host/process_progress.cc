// Packets in, timers, and the thread that serves an application which does not poll (DESIGN.md,
// decision 4).

#include <sched.h>

#include <algorithm>
#include <mutex>

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
constexpr std::uint64_t kPollsBeforeYieldOnFewCpus = 16;

/// While senders wait for room, how long the thread sleeps at most: their peers may be stopped.
constexpr Duration kRoomPatience = Duration::milliseconds(1);
constexpr Duration kLongestSleep = Duration::seconds(3'600);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// What the responder answers without the application: WRITE, READ, atomics. The opcode is the
/// record's first byte; a record that lies about it is refused when it is decoded.
[[nodiscard]] bool is_one_sided(ByteSpan record) {
  const wire::OpcodeInfo* const info =
      record.empty()
          ? nullptr
          : wire::opcode_info(static_cast<wire::Opcode>(std::to_integer<int>(record[0])));
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

/// Spinning pays only when everybody who spins has a CPU: two programs with two threads each.
[[nodiscard]] bool has_cpus_to_spin() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  constexpr int kEnough = 4;
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= kEnough;
}

}  // namespace

/// A record of another process: copied, checked, and delivered where its addresses say.
void Process::Impl::deliver(Lane& lane, hca::Flow flow, ByteSpan record,
                            std::span<QpCarrier*> touched, std::size_t& touched_count) {
  const auto packet = hca::decode_record(record);
  if (!packet) {
    return;
  }
  const hca::PacketHeader& header = packet->header;
  const Instant at = now();
  const bool is_ud = header.opcode == wire::Opcode::UdSendOnly ||
                     header.opcode == wire::Opcode::UdSendOnlyWithImmediate;
  if (is_ud && slot_of(header.extension.deth.src_qp) != lane.peer.slot) {
    return;  // it speaks for another process
  }
  if (header.dlid.is_multicast()) {
    if (map.node_of(header.slid) == lane.peer.node) {
      for (const auto& slot : slots) {
        static_cast<void>(slot->engine->handle_packet(PortNumber{1}, *packet, at));
      }
    }
    return;
  }
  const FabricMap::LocalPort* const port = lane.arrival(flow, header);
  if (port == nullptr || port->hca >= slots.size()) {
    return;
  }
  hca::Qp* const qp = slots[port->hca]->engine->handle_packet(port->port, *packet, at);
  if (qp == nullptr) {
    return;
  }
  auto* const carrier = static_cast<QpCarrier*>(qp->carrier);
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
  while (taken < kBatch) {
    const auto front = in.front();
    if (front.state != ring::Consumer<>::State::Record) {
      break;
    }
    if (only_one_sided || leave_one_sided) {
      const bool one_sided = is_one_sided(front.body);
      if ((only_one_sided && !one_sided) || (leave_one_sided && one_sided)) {
        break;
      }
    }
    deliver(lane, flow, front.body, touched, touched_count);
    in.pop();
    ++taken;
  }
  if (taken != 0) {
    const Instant at = now();
    for (std::size_t i = 0; i < touched_count; ++i) {
      carry(*touched[i], at, kAnswerBudget);
      arm(*touched[i]);
    }
  }
  // After a pass in vain too: who found no room may have said so just after the last record went.
  if (taken != 0 || flow == hca::Flow::Response) {
    lane.tell_room();
  }
  return taken;
}

std::size_t Process::Impl::take_requests(Taker taker, bool application_is_active) {
  if (!request_owner.try_lock()) {
    return 0;
  }
  const std::lock_guard owner{request_owner, std::adopt_lock};
  const bool only_one_sided = taker == Taker::Thread && application_is_active;
  const bool leave_one_sided =
      taker == Taker::Application && thread_is_hot.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    taken += drain(*lanes[i], hca::Flow::Request, only_one_sided, leave_one_sided);
  }
  return taken;
}

std::size_t Process::Impl::take_responses() {
  if (!response_owner.try_lock()) {
    return 0;
  }
  const std::lock_guard owner{response_owner, std::adopt_lock};
  std::size_t taken = 0;
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    taken += drain(*lanes[i], hca::Flow::Response, false, false);
  }
  resume_waiting_as_owner();
  if (timers.earliest() != Instant::never()) {
    handle_timers(now());
  }
  return taken;
}

std::size_t Process::Impl::progress(Taker taker, bool application_is_active) {
  std::size_t taken = 0;
  if (taker == Taker::Application || !application_is_active) {
    taken += take_responses();
  }
  taken += take_requests(taker, application_is_active);
  if (taken != 0) {
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

bool Process::Impl::anything_arrived() {
  const std::scoped_lock owners{request_owner, response_owner};
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes[i]->has_arrivals()) {
      return true;
    }
  }
  return false;
}

void Process::Impl::sleep_until_woken(Instant at) {
  const std::uint32_t seen = attention->wake.load(std::memory_order_acquire);
  thread_sleeps.store(true, std::memory_order_seq_cst);
  const auto for_each_open = [this](auto act) {
    // Lanes close only under both ownerships; take them, so that no memory goes away meanwhile.
    const std::scoped_lock owners{request_owner, response_owner};
    const std::size_t count = lane_count.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
      if (lanes[i]->state() == LaneState::Open) {
        act(*lanes[i]);
      }
    }
  };
  for_each_open([](Lane& lane) {
    lane.announce_sleep();
    lane.tell_room();
  });
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
  if (!late && !stopping.load() && !anything_arrived() && !resume_waiting() &&
      longest > Duration{}) {
    futex_wait(attention->wake, seen, longest);
  }
  thread_sleeps.store(false, std::memory_order_relaxed);
  thread_wakes_at_ns.store(0, std::memory_order_relaxed);
  for_each_open([](Lane& lane) { lane.announce_awake(); });
}

void Process::Impl::run_progress() {
  ask_to_run_promptly();
  const bool spins = has_cpus_to_spin();
  const Duration budget = spins ? Process::kSpinBudget : Duration{};
  polls_before_yield.store(spins ? kPollsBeforeYield : kPollsBeforeYieldOnFewCpus,
                           std::memory_order_relaxed);
  std::uint64_t seen_polls = polls.load(std::memory_order_relaxed);
  Instant polled_at{};  // when a new poll of the application was last seen
  Instant worked_at = now();
  while (!stopping.load(std::memory_order_relaxed)) {
    const Instant at = now();
    if (const std::uint64_t count = polls.load(std::memory_order_relaxed); count != seen_polls) {
      seen_polls = count;
      polled_at = at;
    }
    const bool has_lease = !lease_ended.load(std::memory_order_seq_cst);
    const bool is_active = has_lease && at - polled_at < kFreshPoll;
    if (progress(Taker::Thread, is_active) != 0) {
      worked_at = at;
      thread_is_hot.store(budget > Duration{}, std::memory_order_relaxed);
      continue;
    }
    if (at - worked_at < budget) {
      pause();
      continue;
    }
    thread_is_hot.store(false, std::memory_order_relaxed);
    if (has_lease && at - polled_at < kPollingLease) {
      const std::uint32_t seen = attention->wake.load(std::memory_order_acquire);
      thread_naps.store(true, std::memory_order_seq_cst);
      if (!lease_ended.load(std::memory_order_seq_cst) && !stopping.load()) {
        futex_wait(attention->wake, seen, kNap);
      }
      thread_naps.store(false, std::memory_order_relaxed);
    } else {
      sleep_until_woken(at);
    }
  }
}

}  // namespace weft::host
