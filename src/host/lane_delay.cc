// Packets that take time: the sender keeps them until they arrive (docs/ARCHITECTURE.md, decision
// 8).

#include <algorithm>
#include <mutex>
#include <utility>

#include "hca/packet_record.h"
#include "hca/wire_length.h"
#include "host/lane.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// Policy: records per doorbell, after which other threads may use the lane.
constexpr unsigned kBatch = 32;

/// The first byte of a record.
[[nodiscard]] wire::Opcode opcode_of(ByteSpan record) {
  return static_cast<wire::Opcode>(std::to_integer<std::uint8_t>(record[0]));
}

}  // namespace

MutableByteSpan write_record(station::DelayLine& line, const hca::PacketHeader& header,
                             std::span<const ByteSpan> gather) {
  const hca::RecordHeader head{header};
  const MutableByteSpan record = line.reserve(head.bytes() + total_bytes(gather));
  if (!record.empty()) {
    head.write(record.data(), gather);
  }
  return record;
}

/// Without delayed packets, the path's packets go straight into the ring, as before it took time.
bool Lane::takes_time(const Route& route) {
  const auto has_any = [](const LaneDelay* delay) {
    return delay != nullptr && !delay->line.is_empty();
  };
  return route.path.is_timed() || !route.path.faults.empty() || has_any(route.delay) ||
         has_any(route.late);
}

LaneDelay& Lane::new_delay(Out& out, hca::Flow flow) {
  return *out.delays.emplace_back(std::make_unique<LaneDelay>(*this, flow));
}

void Lane::commit_delayed(Out& out, LaneDelay& delay, const station::DelayedPacket& packet) {
  delay.line.commit(packet);
  ++out.delayed;
  links_.delayed.fetch_add(1, std::memory_order_relaxed);
  if (!delay.is_due_somewhere && !delay.is_blocked) {
    delay.is_due_somewhere = true;
    links_.due.arm(delay, delay.line.next_event());
  }
}

/// Link clocks are advanced only once the packet is certain to be sent. Packets that wait for
/// departure are bounded as by a full ring, except for acknowledgements, which are short.
SendOutcome Lane::delay_packet(Out& out, Route& route, const hca::PacketHeader& header,
                               std::span<const ByteSpan> gather) {
  const hca::Flow flow = &out == outs_.data() ? hca::Flow::Request : hca::Flow::Response;
  if (route.delay == nullptr) {
    route.delay = &new_delay(out, flow);
  }
  station::DelayLine& line = route.delay->line;
  const Instant at = os::now();
  const std::uint64_t bytes = hca::packet_length_words(header, total_bytes(gather)) * 4;
  const std::uint64_t ahead = line.bytes_to_depart(at);
  const bool is_short = flow == hca::Flow::Response && gather.empty();
  const bool may_go =
      is_short || ahead == 0 || ahead + bytes <= station::max_ahead(route.path.rate_mbps);
  station::Readiness& readiness = route.delay->readiness;
  if (!may_go) {
    readiness.must_wait(at);
  }
  if (may_go && !route.path.faults.empty()) {
    return delay_singles(out, route, header, gather);
  }
  const MutableByteSpan record = may_go ? write_record(line, header, gather) : MutableByteSpan{};
  if (may_go && record.empty()) {
    readiness.forget();
  }
  if (record.empty()) {
    return handle_full_ring(out, route, header, total_bytes(gather));
  }
  const std::size_t head_bytes = record.size() - total_bytes(gather);
  if (route.path.is_tapped && !taps_.show(route.path.hops, record.first(head_bytes), gather)) {
    return SendOutcome::NoSpace;
  }
  count_wait(out, route, at);
  const fabric::Transit transit =
      links_.clocks.reserve(readiness.of_packet(at, queue.has_waiters()), bytes, route.path);
  commit_delayed(out, *route.delay,
                 {.departs = transit.departs,
                  .arrives = transit.arrives,
                  .wire_bytes = bytes,
                  .packets = header.packet_count,
                  .counter = route.counter});
  return SendOutcome::Delayed;
}

bool Lane::delay_copy(const hca::PacketHeader& header, std::span<const ByteSpan> gather,
                      const fabric::Transit& transit, Duration held_back) {
  Out& out = outs_[0];
  if (state() != LaneState::Open) {
    return false;
  }
  LaneDelay*& copies = held_back == Duration{} ? out.copies : out.late_copies;
  if (copies == nullptr) {
    copies = &new_delay(out, hca::Flow::Request);
  }
  if (write_record(copies->line, header, gather).empty()) {
    return false;
  }
  commit_delayed(out, *copies,
                 {.departs = transit.departs,
                  .arrives = transit.arrives + held_back,
                  .wire_bytes = hca::packet_length_words(header, total_bytes(gather)) * 4,
                  .packets = 1,
                  .counter = nullptr});
  return true;
}

bool Lane::release(LaneDelay& delay, Instant now) {
  const std::lock_guard guard{out_lock(delay.flow)};
  delay.is_due_somewhere = false;
  return release_arrived(out(delay.flow), delay, now);
}

bool Lane::release_blocked(Instant now) {
  bool has_released = false;
  for (Out& out : outs_) {
    if (out.blocked.load(std::memory_order_relaxed) == 0) {
      continue;
    }
    const std::lock_guard guard{out.lock};
    for (const auto& delay : out.delays) {
      if (delay->is_blocked) {
        has_released = release_arrived(out, *delay, now) || has_released;
      }
    }
  }
  return has_released;
}

/// Caller must hold the lock of `out`.
bool Lane::release_arrived(Out& out, LaneDelay& delay, Instant now) {
  station::DelayLine& line = delay.line;
  const auto set_blocked = [&](bool is_blocked) {
    if (std::exchange(delay.is_blocked, is_blocked) != is_blocked) {
      const std::uint32_t step = is_blocked ? 1U : ~0U;
      out.blocked.fetch_add(step, std::memory_order_relaxed);
      links_.blocked.fetch_add(step, std::memory_order_relaxed);
    }
  };
  set_blocked(false);
  static_cast<void>(line.bytes_to_depart(now));
  bool has_released = false;
  station::SeriesUrgency urgency;
  for (unsigned turn = 0; turn < kBatch && !line.is_empty() && line.front().arrives <= now;
       ++turn) {
    const station::DelayedPacket& packet = line.front();
    const ByteSpan record = line.front_record();
    const wire::Opcode opcode = opcode_of(record);
    const MutableByteSpan room = out.ring.reserve(record.size());
    const std::uint64_t words = packet.wire_bytes / 4;
    if (!room.empty()) {
      copy_bytes(room, record);
      out.ring.commit();
      has_released = true;
      urgency.note(opcode);
      if (packet.counter != nullptr) {
        packet.counter->count(packet.packets, words);
      }
    } else if (!may_discard(delay.blocked_since, opcode)) {
      set_blocked(true);
      request_space();
      break;
    } else if (packet.counter != nullptr) {
      packet.counter->count_discarded(packet.packets, words);
    }
    delay.blocked_since = room.empty() ? delay.blocked_since : Instant::never();
    line.pop();
    --out.delayed;
    links_.delayed.fetch_sub(1, std::memory_order_relaxed);
  }
  if (has_released) {
    ring_doorbell(urgency.take());
  }
  if (!line.is_empty() && !delay.is_blocked && !delay.is_due_somewhere) {
    delay.is_due_somewhere = true;
    links_.due.arm(delay, line.next_event());
  }
  return has_released;
}

/// Discards the packets in flight on a lane that closes.
void Lane::drop_delayed(Out& out) {
  links_.delayed.fetch_sub(static_cast<std::uint32_t>(std::exchange(out.delayed, 0)),
                           std::memory_order_relaxed);
  links_.blocked.fetch_sub(out.blocked.exchange(0, std::memory_order_relaxed),
                           std::memory_order_relaxed);
  for (const auto& delay : out.delays) {
    delay->line.clear();
    delay->is_blocked = false;
  }
}

}  // namespace weft::host
