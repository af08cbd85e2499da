// The requester's side of direct placement (hca/placement.h). A message that is placed takes no PSN
// and no message sequence number: both ends count the packets between them, and agree. It is moved
// when everything before it is done and before anything after it starts, so the order of the send
// queue (IBTA vol 1 §10.8.3) holds without the peer's help.

#include <algorithm>

#include "hca/planted_bug.h"
#include "hca/rc/requester.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

[[nodiscard]] Access right_for(WrOpcode opcode) {
  return opcode == WrOpcode::RdmaRead    ? Access::RemoteRead
         : opcode == WrOpcode::RdmaWrite ? Access::RemoteWrite
                                         : Access::RemoteAtomic;
}

[[nodiscard]] wire::Opcode request_opcode(WrOpcode opcode) {
  return opcode == WrOpcode::RdmaRead      ? wire::Opcode::RcRdmaReadRequest
         : opcode == WrOpcode::CompareSwap ? wire::Opcode::RcCompareSwap
         : opcode == WrOpcode::FetchAdd    ? wire::Opcode::RcFetchAdd
                                           : wire::Opcode::RcRdmaWriteOnly;
}

}  // namespace

/// Asked before anything is gathered, which would be for nothing where nobody places; but not while
/// pages are shared, which place() finds out soon enough when they are no more.
PlacementMeans RcRequester::means_for(TransmitSink& sink, const SendWqe& wqe, Attempt attempt) {
  if (pages_.are_shared()) {
    return PlacementMeans::SharedPages;
  }
  const PacketHeader& request =
      core_.header(Half::Requester, wire::Opcode::RcRdmaWriteOnly, next_psn_);
  const PlacementMeans means = sink.may_place({.request = request,
                                               .right = right_for(wqe.opcode),
                                               .rkey = wqe.rkey,
                                               .address = wqe.remote_address,
                                               .length = wqe.length});
  pages_.note(means);
  return means == PlacementMeans::SystemCall &&
                 (attempt == Attempt::AskForPages || !is_for_calls(wqe))
             ? PlacementMeans::None
             : means;
}

/// For a WQE that has no PSNs yet.
RcRequester::Placed RcRequester::try_to_place(TransmitSink& sink, SendWqe& wqe, Instant now,
                                              Attempt attempt) {
  const bool is_next = is_oldest() || planted(PlantedBug::PlacementOvertakesPackets);
  const PlacementMeans found =
      is_next || may_wait(wqe, true) ? means_for(sink, wqe, attempt) : PlacementMeans::None;
  places_ = found != PlacementMeans::None &&
            (is_next || may_wait(wqe, found == PlacementMeans::SharedPages));
  if (!places_ && !(is_next && planted(PlantedBug::RefusedPlacementCompletes))) {
    return Placed::No;
  }
  if (!is_next) {
    return Placed::Later;
  }
  const PlacementMeans means = place(sink, wqe);
  pages_.note(means);
  places_ = means != PlacementMeans::None;
  if (!places_ || (is_atomic(wqe) && planted(PlantedBug::PlacedAtomicSentAsWell))) {
    return Placed::No;
  }
  if (core_.placement == PlacementPolicy::WhereQuicker && means == PlacementMeans::SystemCall) {
    choice_.count_placed(now, sink.time_after(now));
  }
  if (planted(PlantedBug::PlacementTakesPsns)) {
    next_psn_ = unacknowledged_ = next_psn_ + core_.packets(wqe.length);
  }
  wqe.first_psn = next_psn_;
  wqe.packet_count = 0;
  wqe.done = true;
  ++next_new_;
  cursor_packet_ = 0;
  advance_cursor();
  finish_in_order();
  return Placed::Yes;
}

/// Called for each message that starts as packets.
void RcRequester::time_packets(const SendWqe& wqe, Instant now) {
  if (is_oldest() && is_for_calls(wqe) && is_one_sided(wqe)) {
    choice_.begin_timing(now, wqe.length, wqe.opcode == WrOpcode::RdmaRead);
  } else {
    choice_.stop_timing();
  }
}

/// None if a part of it was refused. That part and those before it are then sent as packets, which
/// is what a retry would do; an atomic is one part, and refused only if it was not performed.
PlacementMeans RcRequester::place(TransmitSink& sink, SendWqe& wqe) {
  PlacementMeans means = PlacementMeans::None;
  for (std::uint32_t offset = 0; offset < wqe.length;) {
    const std::uint32_t bytes = std::min(wqe.length - offset, kMostPlacedBytes);
    means = place_part(sink, wqe, offset, bytes);
    if (means == PlacementMeans::None) {
      return planted(PlantedBug::RefusedPlacementCompletes) ? PlacementMeans::SystemCall : means;
    }
    offset += bytes;
  }
  return means;
}

PlacementMeans RcRequester::place_part(TransmitSink& sink, const SendWqe& wqe, std::uint32_t offset,
                                       std::uint32_t bytes) {
  const PacketHeader& request =
      core_.header(Half::Requester, request_opcode(wqe.opcode), next_psn_);
  Placement part{
      .target = {.request = request,
                 .right = right_for(wqe.opcode),
                 .rkey = wqe.rkey,
                 .address = wqe.remote_address + offset,
                 .length = bytes},
      .from = {},
      .to = {},
      .atomic = {},
      .is_first = offset == 0,
      .is_last = offset + bytes == wqe.length,
      .path_mtu = core_.attributes.path_mtu
  };
  if (wqe.opcode == WrOpcode::RdmaWrite) {
    if (core_.gather(cursor_, offset, bytes) != WcStatus::Success) {
      return PlacementMeans::None;
    }
    part.from = core_.gathered.pieces();
    return sink.place(part);
  }
  part.to = core_.find_targets(cursor_, offset, bytes);
  if (part.to.empty()) {
    return PlacementMeans::None;
  }
  if (is_atomic(wqe)) {
    part.atomic = wqe.atomic();
  }
  return sink.place(part);
}

}  // namespace weft::hca
