#include "agents/mad_cables.h"

#include <algorithm>

#include "fabric/link_model.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/grh.h"
#include "wire/lrh.h"
#include "wire/opcode.h"

namespace weft::agents {

using fabric::Fate;
using fabric::Hop;
using fabric::PortIndex;

namespace {

constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kLocalBytes =
    wire::kSizeOf<wire::Lrh> + wire::kSizeOf<wire::Bth> + wire::kSizeOf<wire::Deth> + kIcrcBytes;

/// LRH to ICRC, with the payload's pad.
[[nodiscard]] std::uint64_t words_of(const MadOnCable& mad) {
  const std::size_t padded = (mad.bytes.size() + 3) / 4 * 4;
  return fabric::data_words(kLocalBytes + padded + (mad.to.global ? wire::kSizeOf<wire::Grh> : 0));
}

}  // namespace

std::span<const fabric::LinkFault> MadCables::rules_of(PortIndex egress) {
  if (tables_.faults().empty()) {
    return {};
  }
  if (rules_as_of_ != tables_.fault_changes()) {
    rules_.clear();
    rules_as_of_ = tables_.fault_changes();
  }
  const auto [place, is_new] = rules_.try_emplace(egress);
  if (is_new) {
    for (const fabric::FaultRecord& rule : tables_.faults()) {
      if (rule.egress == fabric::kNoPort || rule.egress == egress) {
        place->second.push_back({.hop = 0, .rule = rule});
      }
    }
  }
  return place->second;
}

void MadCables::count(const Hop& hop, const MadOnCable& mad, std::uint32_t packets) {
  const std::uint64_t words = words_of(mad);
  const bool is_multicast = mad.dlid.is_multicast();
  fabric::PortCounters& out = counters_->own(hop.egress);
  out.xmit_packets += packets;
  (is_multicast ? out.multicast_xmit_packets : out.unicast_xmit_packets) += packets;
  out.xmit_data += words * packets;
  fabric::PortCounters& in = counters_->own(hop.ingress);
  in.rcv_packets += packets;
  (is_multicast ? in.multicast_rcv_packets : in.unicast_rcv_packets) += packets;
  in.rcv_data += words * packets;
  count_xmit_data(counters_->own_details(), hop.egress, mad.to.sl, words * packets);
  count_rcv_data(counters_->own_details(), hop.ingress, mad.to.sl, words * packets);
}

void MadCables::show(const Hop& hop, const MadOnCable& mad) {
  if (tap_ != nullptr &&
      (tables_.port(hop.egress).is_tapped() ||
       (hop.ingress != fabric::kNoPort && tables_.port(hop.ingress).is_tapped()))) {
    tap_->show(hop, mad);
  }
}

MadCables::Crossing MadCables::cross(const Hop& hop, const MadOnCable& mad, std::uint32_t copies) {
  const std::span<const fabric::LinkFault> rules = rules_of(hop.egress);
  const auto on_wire = send_on(hop.egress, words_of(mad) * 4 * copies);
  if (!on_wire) {
    show({hop.egress, fabric::kNoPort}, mad);
    drop(hop.egress, copies, fabric::PathEnd::HeadOfQueueLimit);
    return {};
  }
  Crossing crossing{.arrived = 0, .held_back = {}, .on_wire = *on_wire};
  std::uint32_t crossed = 0;
  const auto carry = [&](const Fate& fate) {
    const Hop seen{hop.egress, fate.end == Fate::End::Arrives ? hop.ingress : fabric::kNoPort};
    show(seen, mad);
    switch (fate.end) {
      case Fate::End::Arrives:
        ++crossed;
        crossing.arrived = std::min(crossing.arrived + 1, kMostCopies);
        crossing.held_back = std::max(crossing.held_back, fate.held_back);
        break;
      case Fate::End::Damaged:
        ++crossed;
        drop(hop.ingress, 1, fabric::PathEnd::Damaged);
        break;
      case Fate::End::Lost:
        drop(hop.egress, 1, fabric::PathEnd::PortInactive);
        break;
    }
  };
  const fabric::FaultSubject subject{.opcode = wire::Opcode::UdSendOnly,
                                     .slid = mad.slid,
                                     .dlid = mad.dlid,
                                     .dest_qp = mad.to.qp,
                                     .psn = mad.psn};
  for (; copies != 0; --copies) {
    const fabric::Fates fates = fabric::cross(rules, subject, faults_);
    for (const Fate& fate : fates.all()) {
      carry(fate);
    }
  }
  if (counters_ != nullptr && crossed != 0) {
    count(hop, mad, crossed);
  }
  if (takes_time_) {
    crossing.held_back = crossing.held_back + tables_.port(hop.egress).delay();
  }
  return crossing;
}

/// How long until so many bytes have left, behind what was sent before; none when they would wait
/// there for longer than packets may (IBTA vol 1 §18.2.5.4).
std::optional<Duration> MadCables::send_on(PortIndex egress, std::uint64_t bytes) {
  const fabric::LinkRate rate{tables_.port(egress).rate_mbps};
  if (rate.megabits_per_second == 0 || !takes_time_) {
    return Duration{};
  }
  Instant& free_at = free_at_[egress];
  const fabric::Transit transit = fabric::transit(now_, free_at, bytes, rate, {});
  if (fabric::HeadOfQueueLife{}.must_discard(now_, transit.starts)) {
    return std::nullopt;
  }
  free_at = transit.departs;
  return transit.departs - now_;
}

void MadCables::drop(PortIndex port, std::uint32_t copies, fabric::PathEnd why) {
  if (counters_ != nullptr) {
    count_drop(counters_->own(port), counters_->own_details(), port, why, copies);
  }
}

}  // namespace weft::agents
