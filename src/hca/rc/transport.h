#pragma once

#include <memory>

#include "hca/hca.h"
#include "hca/limits.h"
#include "hca/qp_core.h"

namespace weft::hca {

/// The reliable-connected protocol of one QP (IBTA vol 1 §9.7): requester and responder.
[[nodiscard]] std::unique_ptr<Transport> make_rc_transport(QpCore& core, LossModel loss_model,
                                                           const DeviceLimits& limits);

}  // namespace weft::hca
