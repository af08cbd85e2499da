#pragma once

#include <string_view>

#include "base/result.h"
#include "hca/types.h"

namespace weft::hca {

/// What a transition needs and allows for one QP type (R-QP table; IBTA vol 1 §11.2.5.2,
/// Table 91..).
struct QpTransition {
  QpAttributeMask required;
  QpAttributeMask optional;
};

/// The transition's attributes, or nothing when the type may not go from `from` to `to`.
[[nodiscard]] const QpTransition* qp_transition(QpType type, QpState from, QpState to);

/// Refuses a modify that leaves out a required attribute, names one that the transition does not
/// allow, or asks for a transition that does not exist; the reason names attributes and states.
[[nodiscard]] Result<void> check_qp_transition(QpType type, QpState from, QpState to,
                                               QpAttributeMask mask);

[[nodiscard]] std::string_view name(QpState state);
[[nodiscard]] std::string_view name(QpType type);
[[nodiscard]] std::string_view name(QpAttribute attribute);

}  // namespace weft::hca
