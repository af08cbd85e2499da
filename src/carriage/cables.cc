#include "carriage/cables.h"

#include <algorithm>
#include <utility>

#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/grh.h"
#include "wire/lrh.h"
#include "wire/opcode.h"

namespace weft::carriage {

using fabric::CrossedCopy;
using fabric::Hop;
using fabric::PathEnd;
using fabric::PortIndex;
using fabric::PortRecord;

namespace {

constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kLocalBytes =
    wire::kSizeOf<wire::Lrh> + wire::kSizeOf<wire::Bth> + wire::kSizeOf<wire::Deth> + kIcrcBytes;

/// LRH to ICRC, with the payload's pad; of Omni-Path the whole packet.
[[nodiscard]] std::uint64_t words_of(const PacketOnCable& packet) {
  if (packet.omni_path != nullptr) {
    return fabric::data_words(packet.bytes.size());
  }
  const std::size_t padded = (packet.bytes.size() + 3) / 4 * 4;
  return fabric::data_words(kLocalBytes + padded +
                            (packet.to.global ? wire::kSizeOf<wire::Grh> : 0));
}

[[nodiscard]] fabric::FaultSubject subject_of(const PacketOnCable& packet) {
  return {.opcode = packet.omni_path != nullptr ? kNoOpcode : wire::Opcode::UdSendOnly,
          .slid = packet.slid,
          .dlid = packet.dlid,
          .dest_qp = packet.to.qp,
          .psn = packet.psn};
}

}  // namespace

bool Cables::is_tapped(const Hop& hop) const {
  return tables_.port(hop.egress).is_tapped() ||
         (hop.ingress != fabric::kNoPort && tables_.port(hop.ingress).is_tapped());
}

bool Cables::may_cross(std::span<const Hop> hops, std::size_t payload_bytes, std::uint32_t copies,
                       Instant since) {
  if (tap_ == nullptr ||
      std::ranges::none_of(hops, [&](const Hop& hop) { return is_tapped(hop); })) {
    return true;
  }
  if (tap_->has_room(hops, payload_bytes, copies * kMaxCopies)) {
    reader_has_stopped_ = false;
    return true;
  }
  reader_has_stopped_ = reader_has_stopped_ || now_ - since >= kWaitLimit;
  return reader_has_stopped_;
}

Cables::Crossing Cables::cross(const Hop& hop, const PacketOnCable& packet, std::uint32_t copies) {
  const PortRecord& egress = tables_.port(hop.egress);
  const fabric::Cable cable{.hop = hop,
                            .rate = {takes_time_ ? egress.rate_mbps : 0},
                            .delay = takes_time_ ? egress.delay() : Duration{},
                            .rules = rules_.of(hop.egress)};
  if (cable.rules.empty() && cable.rate.megabits_per_second == 0) {  // as of most: nothing to meet
    for (std::uint32_t i = 0; i < copies; ++i) {
      show(hop, packet, true);
    }
    count(hop, packet, copies);
    return {.arrived = copies, .held_back = cable.delay, .on_wire = {}};
  }
  const fabric::CrossingPacket crosses{.subject = subject_of(packet),
                                       .wire_bytes = words_of(packet) * 4,
                                       .ready = now_,
                                       .vl15 = vl15_clock(hop.egress, packet)};
  Crossing made;
  std::uint32_t crossed = 0;
  const auto end = [&](const CrossedCopy& copy) {
    show(hop, packet, copy.is_delivered());
    crossed += copy.is_delivered() || copy.end == PathEnd::Damaged ? 1 : 0;
    if (!copy.is_delivered()) {
      drop(copy.counted_at, 1, copy.end);
      return;
    }
    made.arrived = std::min(made.arrived + 1, kMaxCopies);
    made.held_back =
        std::max(made.held_back, copy.held_back + (copy.transit.arrives - copy.transit.departs));
    made.on_wire = std::max(made.on_wire, copy.transit.departs - now_);
  };
  for (; copies != 0; --copies) {
    crossing().cross(cable, crosses, end);
  }
  if (crossed != 0) {
    count(hop, packet, crossed);
  }
  return made;
}

/// None of a link without a rate, or of what is no SMP.
fabric::DepartureClock* Cables::vl15_clock(PortIndex egress, const PacketOnCable& packet) {
  return packet.kind == mad::InterfaceKind::Smi && takes_time_ &&
                 tables_.port(egress).rate_mbps != 0
             ? &vl15_clocks_[egress]
             : nullptr;
}

Cables::TreeCrossing Cables::cross(const fabric::MulticastTree& tree, const PacketOnCable& packet) {
  const auto fits = [&](std::uint32_t edge) {
    return !packet.is_too_long(tables_.port(tree.edges[edge].egress));
  };
  crossing().cross(tree, subject_of(packet), fits, edges_);
  ends_.clear();
  if (takes_time_ && !tree.timed.empty()) {
    clocks_.reserve(now_, words_of(packet) * 4, tree, ends_);
  }
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    count_edge(tree.edges[i], edges_[i], packet);
  }
  for (const PortIndex egress : tree.dropped_at) {
    drop(egress, 1, PathEnd::PortInactive);
  }
  return {.edges = edges_, .ends = ends_};
}

void Cables::count_edge(const Hop& hop, const fabric::EdgeCrossing& edge,
                        const PacketOnCable& packet) {
  if (edge.is_crossed()) {
    count(hop, packet, edge.arrived + edge.damaged);
  }
  drop(hop.ingress, edge.damaged, PathEnd::Damaged);
  drop(hop.egress, edge.lost, PathEnd::PortInactive);
  drop(hop.egress, edge.is_too_long ? 1 : 0, PathEnd::NeighborMtu);
  for (std::uint32_t i = 0; i < edge.arrived; ++i) {
    show(hop, packet, true);
  }
  for (std::uint32_t i = 0; i < edge.damaged + edge.lost; ++i) {
    show(hop, packet, false);
  }
}

void Cables::count(const Hop& hop, const PacketOnCable& packet, std::uint32_t packets) {
  if (counters_ != nullptr) {
    fabric::count_crossing(counters_->own(hop.egress), counters_->own(hop.ingress),
                           counters_->own_details(), hop, packet.service_level(),
                           packet.is_multicast(), packets, words_of(packet) * packets);
  }
}

void Cables::show(const Hop& hop, const PacketOnCable& packet, bool arrives) {
  if (tap_ != nullptr && is_tapped(hop)) {
    tap_->show({hop.egress, arrives ? hop.ingress : fabric::kNoPort}, packet);
  }
}

void Cables::drop(PortIndex port, std::uint32_t copies, PathEnd why) {
  if (counters_ != nullptr && copies != 0) {
    count_drop(counters_->own(port), counters_->own_details(), port, why, copies);
  }
}

}  // namespace weft::carriage
