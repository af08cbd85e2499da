#pragma once

#include <memory>

#include "hca/qp_core.h"

namespace weft::hca {

/// Unreliable connected (IBTA vol 1 §9.8.2): messages without acknowledgement; a gap loses the
/// message it falls in.
[[nodiscard]] std::unique_ptr<Transport> make_uc_transport(QpCore& core);

}  // namespace weft::hca
