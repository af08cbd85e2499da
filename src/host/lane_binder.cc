#include "host/lane_binder.h"

#include "base/process_slot.h"

namespace weft::host {

bool LaneBinder::bind(QpDriverState& qp_state) {
  if (qp_state.qp->type() == hca::QpType::Ud) {
    return false;
  }
  const std::lock_guard guard{lock_};
  const hca::QpAttributes attributes = qp_state.qp->query();
  auto node = map_.node_of(attributes.address.dlid, attributes.dest_qpn);
  if (!node && attributes.alternate_port.value() != 0) {
    // The same node; the QP may migrate.
    node = map_.node_of(attributes.alternate_address.dlid, attributes.dest_qpn);
  }
  Lane& lane = node ? lanes_.lane_to({*node, slot_of(attributes.dest_qpn)}, qp_state.qp->number(),
                                     attributes.dest_qpn)
                    : lanes_.null_lane();
  if (qp_state.lane.load(std::memory_order_relaxed) == &lane) {
    return false;
  }
  station::WaitQueue::leave(qp_state);
  for (CqDriverState* const cq : qp_state.cqs) {
    if (cq != nullptr && !cq->lanes.has(lane.number)) {
      cq->only_lane.store(cq->lanes.is_quiet() ? &lane : nullptr, std::memory_order_release);
      cq->lanes.add(lane.number);
    }
  }
  qp_state.lane.store(&lane, std::memory_order_release);
  return true;
}

Lane& LaneBinder::lane_of(QpDriverState& qp_state, const hca::PacketHeader& header) {
  if (!knows_lane(qp_state, header)) {
    const std::uint64_t generation = map_.generation();
    const auto node = map_.node_of(header.dlid, header.dest_qp);
    qp_state.newest_qpn = header.dest_qp;
    qp_state.newest_lane = node ? &lanes_.lane_to({*node, slot_of(header.dest_qp)},
                                                  qp_state.qp->number(), header.dest_qp)
                                : &lanes_.null_lane();
    qp_state.newest_dlid = header.dlid;
    qp_state.newest_generation = generation;
  }
  return *qp_state.newest_lane;
}

}  // namespace weft::host
