#include "hca/held_objects.h"

#include <mutex>

#include "hca/hca_state.h"
#include "hca/qp.h"

namespace weft::hca {

/// With `objects` held, so that each PD that an object names is there, and each QP stays.
HeldObjects Hca::held_objects() {
  State& state = *state_;
  HeldObjects held;
  const std::lock_guard guard{state.objects};
  state.pds.for_each([&](ProtectionDomain& pd, std::uint32_t number) {
    held.pds.push_back({.number = number, .uses = pd.uses.load()});
  });
  state.cqs.for_each([&](CompletionQueue& cq, std::uint32_t number) {
    held.cqs.push_back({.number = number, .capacity = cq.capacity(), .uses = cq.uses.load()});
  });
  state.memory.for_each([&](const MemoryRegion& region) {
    held.mrs.push_back({.number = region.lkey.value() >> kKeyIndexShift,
                        .lkey = region.lkey,
                        .rkey = region.rkey,
                        .length = region.length,
                        .pd = state.pds.number_of(region.pd)});
  });
  state.srqs.for_each([&](SharedReceiveQueue& srq, std::uint32_t number) {
    const XrcSrqInit& xrc = srq.xrc();
    held.srqs.push_back(
        {.number = number,
         .is_xrc = xrc.domain != nullptr,
         .pd = state.pds.number_of(&srq.pd()),
         .cq = xrc.cq == nullptr ? std::nullopt : std::optional{state.cqs.number_of(xrc.cq)}});
  });
  state.each_qp([&](Qp& qp) {
    if (qp.core_->proxy_for) {
      return;  // no program sees it
    }
    const QpAttributes attributes = qp.query();
    held.qps.push_back({.number = qp.number(),
                        .type = qp.type(),
                        .state = attributes.state,
                        .port = attributes.port,
                        .dest = attributes.dest_qpn,
                        .rq_psn = attributes.rq_psn,
                        .sq_psn = attributes.sq_psn,
                        .migration = attributes.migration,
                        .pd = state.pds.number_of(&qp.core_->pd)});
  });
  return held;
}

}  // namespace weft::hca
