#pragma once

#include <memory>

#include "hca/qp_core.h"

namespace weft::hca {

/// Bytes in front of every UD payload in the receive buffer: the packet's GRH if it had one, else
/// undefined (IBTA vol 1 §11.4.2.1).
inline constexpr std::uint32_t kGrhBytes = 40;

/// Unreliable datagram service (IBTA vol 1 §9.8.3): every message is one packet.
[[nodiscard]] std::unique_ptr<Transport> make_ud_transport(QpCore& core);

}  // namespace weft::hca
