#pragma once

#include <memory>

#include "hca/qp_core.h"

namespace weft::hca {

/// Unreliable connected service (IBTA vol 1 §9.8.2): messages are not acknowledged, and a PSN gap
/// loses the message in which it falls.
[[nodiscard]] std::unique_ptr<Transport> make_uc_transport(QpCore& core);

}  // namespace weft::hca
