#include "host/application_poller.h"

#include <sched.h>

namespace weft::host {
namespace {

/// Polls that find nothing, of some 50 ns each, before the CPU is offered to others; policy. Powers
/// of two.
constexpr std::uint32_t kPollsBeforeYield = 256;
constexpr std::uint32_t kPollsBeforeYieldWhenContended = 16;  // or on few CPUs

/// Reading the clock costs as much as the rest of a poll. If a program polls too rarely for this,
/// the progress thread handles its timers.
constexpr std::uint32_t kPollsBetweenTimers = 8;

}  // namespace

[[gnu::always_inline]] inline std::size_t ApplicationPoller::poll_lane(Lane& lane,
                                                                       std::uint32_t empty_polls) {
  lane.turns.note_poll();
  const std::size_t responses = receiver_.take_responses(lane);
  const station::RequestTurn turn = lane.turns.take_request_turn(empty_polls);
  if (turn == station::RequestTurn::TakeNone) {
    return responses;
  }
  return responses + receiver_.take_requests(lane, turn == station::RequestTurn::TakeSends
                                                       ? RecordFilter::NotOneSided
                                                       : RecordFilter::All);
}

void ApplicationPoller::poll(CqDriverState& cq) {
  ProcessSleeper& sleeper = progress_.sleeper;
  sleeper.begin_lease();
  sleeper.consume_doorbells([this](std::uint32_t number) { return number < lanes_.count(); });
  const std::uint32_t empty_polls = cq.empty_polls.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  const auto look = [&](std::uint32_t number) { taken += poll_lane(*lanes_[number], empty_polls); };
  Lane* const only = cq.only_lane.load(std::memory_order_acquire);
  if (cq.takes_all.load(std::memory_order_relaxed)) {
    sleeper.for_each_polled_lane(look);
  } else if (only != nullptr) {
    taken = sleeper.watches(only->number) ? poll_lane(*only, empty_polls) : 0;
  } else {
    cq.lanes.for_each([&](std::uint32_t number) {
      if (sleeper.watches(number)) {
        look(number);
      }
    });
  }
  const std::uint32_t polls = cq.polls.load(std::memory_order_relaxed);
  cq.polls.store(polls + 1, std::memory_order_relaxed);
  const bool timers_too = polls % kPollsBetweenTimers == 0;
  if (timers_too || maintenance_.is_needed()) [[unlikely]] {
    maintenance_.run(timers_too);
  }
  if (taken == 0) {
    cq.empty_polls.store(empty_polls + 1, std::memory_order_relaxed);
    yield_to_others(empty_polls + 1);
  } else if (empty_polls != 0) {
    cq.empty_polls.store(0, std::memory_order_relaxed);
  }
}

/// After a poll that found nothing. Where programs outnumber CPUs, the peer that this one waits for
/// may be waiting for this very CPU.
void ApplicationPoller::yield_to_others(std::uint32_t empty_polls) {
  const bool is_contended = progress_.shares_cpus.load(std::memory_order_relaxed);
  if ((empty_polls & ((is_contended ? kPollsBeforeYieldWhenContended : kPollsBeforeYield) - 1)) ==
      0) {
    sched_yield();
  }
}

}  // namespace weft::host
