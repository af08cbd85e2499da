// Packets on links with faults (docs/ARCHITECTURE.md, decision 8). Fault rules apply to each packet
// of a train separately. The sender performs what the links would do.

#include <algorithm>
#include <array>
#include <mutex>

#include "base/assert.h"
#include "base/bytes.h"
#include "fabric/link_crossing.h"
#include "hca/packet_record.h"
#include "hca/train.h"
#include "hca/wire_length.h"
#include "host/lane.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// The most records that a train of `packets` can become.
[[nodiscard]] constexpr std::size_t max_records(std::size_t packets) {
  return packets * fabric::FaultEffects::kMaxCopies;
}

[[nodiscard]] bool holds_back(const fabric::LinkFault& fault) {
  return fault.rule.kind == fabric::FaultKind::Reorder;
}

}  // namespace

/// The fate of a train's packets so far.
struct Lane::Singles {
  Instant at;
  unsigned delayed{};
  unsigned lost{};
};

/// Opens the counters for losses and corruption on each hop.
void Lane::open_losses(Route& route, ServiceLevel sl, fabric::CounterPage& page,
                       PolicyLock& page_lock) const {
  const fabric::Path& path = route.path;
  if (path.faults.empty()) {
    return;
  }
  const std::lock_guard guard{page_lock};
  route.losses.resize(path.hops.size());
  for (const fabric::LinkFault& fault : path.faults) {
    HopLosses& losses = route.losses[fault.hop];
    if (fault.rule.kind == fabric::FaultKind::Drop && losses.lost == nullptr) {
      losses.lost = &page.open(fabric::discarded_at(path, fault.hop), sl);
    }
    if (fault.rule.kind == fabric::FaultKind::Corrupt && losses.damaged == nullptr) {
      losses.damaged = &page.open(fabric::damaged_at(path, fault.hop), sl);
    }
  }
}

/// Sends all of a train, or nothing if there might not be enough room in delay lines and captures
/// for every copy that rules could make.
SendOutcome Lane::delay_singles(Out& out, Route& route, const hca::PacketHeader& header,
                                std::span<const ByteSpan> gather) {
  const hca::Flow flow = &out == outs_.data() ? hca::Flow::Request : hca::Flow::Response;
  const std::size_t payload_bytes = total_bytes(gather);
  std::array<std::byte, kMaxTrainBytes> payload;
  WEFT_DEBUG_ASSERT(payload_bytes <= payload.size(), "the payload is as long as the headers say");
  MutableByteSpan rest{payload};
  for (const ByteSpan piece : gather) {
    copy_bytes(rest, piece);
    rest = rest.subspan(piece.size());
  }
  const hca::Packet train{.header = header, .payload = ByteSpan{payload}.first(payload_bytes)};

  const std::size_t records = max_records(header.packet_count);
  const std::size_t bytes =
      records * hca::kMaxRecordHeaderBytes + fabric::FaultEffects::kMaxCopies * payload_bytes;
  const bool may_be_late = std::ranges::any_of(route.path.faults, holds_back);
  if (may_be_late && route.late == nullptr) {
    route.late = &new_delay(out, flow);
  }
  if (route.delay->line.reserve(bytes).empty() ||
      (may_be_late && route.late->line.reserve(bytes).empty())) {
    route.delay->readiness.forget();
    return handle_full_ring(out, route, header, payload_bytes);
  }
  Singles made{.at = os::now()};
  const auto delay_all = [&] {
    for (std::uint32_t i = 0; i < header.packet_count; ++i) {
      delay_single(out, route, hca::single_of_train(train, i), made);
    }
  };
  if (!route.path.is_tapped) {
    delay_all();
  } else if (!taps_.with_room(route.path.hops, bytes + records * TapSet::bytes_for(0), delay_all)) {
    return SendOutcome::NoSpace;
  }
  count_wait(out, route, made.at);
  if (flow == hca::Flow::Response) {
    // No thread of this process waits for it: the peer is notified, so that its retry timer counts.
    if (LaneHead* const head = this->head(); head != nullptr && made.lost != 0) {
      head->lost_answers[own_side()].value.fetch_add(1, std::memory_order_relaxed);
    }
    return SendOutcome::Delayed;
  }
  return made.lost == 0      ? SendOutcome::Delayed
         : made.delayed == 0 ? SendOutcome::Lost
                             : SendOutcome::PartlyDelayed;
}

/// A duplicate is counted and captured as a packet sent twice.
void Lane::delay_single(Out& out, Route& route, const hca::Packet& single, Singles& made) {
  const hca::PacketHeader& header = single.header;
  const std::uint64_t words = hca::packet_length_words(header, single.payload.size());
  const fabric::CrossingPacket packet{
      .subject = {.opcode = header.opcode,
                  .slid = header.slid,
                  .dlid = header.dlid,
                  .dest_qp = header.dest_qp,
                  .psn = header.psn},
      .wire_bytes = words * 4,
      .ready = route.delay->readiness.of_packet(made.at, queue.has_waiters())
  };
  links_.crossing().cross(route.path, packet, [&](const fabric::CrossedCopy& copy) {
    if (route.path.is_tapped) {
      show(route, copy, single);
    }
    if (!copy.is_delivered()) {
      const HopLosses& losses = route.losses[copy.hop];
      (copy.end == fabric::PathEnd::Damaged ? losses.damaged : losses.lost)->count(1, words);
      ++made.lost;
      return;
    }
    LaneDelay& delay = copy.held_back == Duration{} ? *route.delay : *route.late;
    [[maybe_unused]] const bool has_room =
        !write_record(delay.line, header, {&single.payload, 1}).empty();
    WEFT_DEBUG_ASSERT(has_room, "the caller looked for room");
    commit_delayed(out, delay,
                   {.departs = copy.transit.departs,
                    .arrives = copy.transit.arrives + copy.held_back,
                    .wire_bytes = words * 4,
                    .packets = 1,
                    .counter = route.counter});
    ++made.delayed;
  });
}

/// Shows a packet to the captures of the ports that it crosses.
void Lane::show(const Route& route, const fabric::CrossedCopy& copy, const hca::Packet& single) {
  std::array<fabric::Hop, fabric::kMaxHops> room;
  std::array<std::byte, hca::kMaxRecordHeaderBytes> head;
  const std::size_t head_bytes = hca::encode_record_header(single.header, head);
  taps_.capture_now(copy.seen(route.path.hops, room), ByteSpan{head}.first(head_bytes),
                    {&single.payload, 1});
}

}  // namespace weft::host
