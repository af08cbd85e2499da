#pragma once

#include "base/result.h"
#include "hca/types.h"

namespace weft::hca {

/// Attributes that a state transition requires and allows, for one QP type (R-QP table; IBTA vol 1
/// §11.2.5.2, Table 91).
struct QpTransition {
  QpAttributeMask required;
  QpAttributeMask optional;
};

/// The attributes of a transition; null if QPs of `type` have no such transition.
[[nodiscard]] const QpTransition* qp_transition(QpType type, QpState from, QpState to);

/// Refuses a transition that does not exist, a missing required attribute, and an attribute that
/// the transition does not allow. The reason names states and attributes.
[[nodiscard]] Result<void> check_qp_transition(QpType type, QpState from, QpState to,
                                               QpAttributeMask mask);

}  // namespace weft::hca
