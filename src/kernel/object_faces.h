#pragma once

// The core's objects behind those of include/rdma, which are made and freed with them.

#include <rdma/ib_verbs.h>

#include "core/ah.h"
#include "core/cq.h"
#include "core/mr.h"
#include "core/pd.h"
#include "core/qp.h"
#include "core/srq.h"
#include "core/wq.h"
#include "kernel/freed_objects.h"

namespace weft::kernel {

// `call` is who uses the object, for builds that check that it was not destroyed.
[[nodiscard]] inline core::Pd& core_of(const ib_pd& pd, const Call& call = Call::current()) {
  require_alive(&pd, call);
  return *static_cast<core::Pd*>(pd.weft);
}
[[nodiscard]] inline core::Cq& core_of(const ib_cq& cq, const Call& call = Call::current()) {
  require_alive(&cq, call);
  return *static_cast<core::Cq*>(cq.weft);
}
[[nodiscard]] inline core::Qp& core_of(const ib_qp& qp, const Call& call = Call::current()) {
  require_alive(&qp, call);
  return *static_cast<core::Qp*>(qp.weft);
}
[[nodiscard]] inline core::Srq& core_of(const ib_srq& srq, const Call& call = Call::current()) {
  require_alive(&srq, call);
  return *static_cast<core::Srq*>(srq.weft);
}
[[nodiscard]] inline core::Ah& core_of(const ib_ah& ah, const Call& call = Call::current()) {
  require_alive(&ah, call);
  return *static_cast<core::Ah*>(ah.weft);
}
[[nodiscard]] inline core::Mr& core_of(const ib_mr& mr, const Call& call = Call::current()) {
  require_alive(&mr, call);
  return *static_cast<core::Mr*>(mr.weft);
}
[[nodiscard]] inline core::Wq& core_of(const ib_wq& wq, const Call& call = Call::current()) {
  require_alive(&wq, call);
  return *static_cast<core::Wq*>(wq.weft);
}

/// What `attributes` ask for, with `face` as the context; the sizes are those of `face`'s QP when
/// it is made.
[[nodiscard]] core::QpInit qp_init_of(const ib_qp_init_attr& attributes, ib_qp& face,
                                      const Call& call);
/// Fills the face of a QP that was made, and says the actual sizes.
void fill_qp_face(ib_qp& face, core::Qp& qp, const core::QpInit& init, ib_pd* pd,
                  ib_qp_init_attr& attributes);

}  // namespace weft::kernel
