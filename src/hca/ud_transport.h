#pragma once

#include <memory>

#include "hca/qp_core.h"

namespace weft::hca {

/// Bytes in front of every UD payload in the receive buffer: the GRH when the packet had one, else
/// undefined (§11.4.2.1).
inline constexpr std::uint32_t kGrhBytes = 40;

/// Unreliable datagram (IBTA vol 1 §9.8.3): every message is one packet.
[[nodiscard]] std::unique_ptr<Transport> make_ud_transport(QpCore& core);

}  // namespace weft::hca
