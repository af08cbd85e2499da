#pragma once

// A port of the host's HCA by libibverbs, as subnet management has set it.

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/result.h"
#include "sa/local_port.h"

namespace weft::programs {

/// NoSuchDevice: the device is gone.
[[nodiscard]] Result<sa::LocalPort> port_attributes(ibv_context& context, std::uint8_t port);

enum class PortEvent : std::uint8_t {
  None,
  PortChanged,
  Reregister,  ///< SA asks for it (IBTA vol 1 §14.4.11)
  Gone,        ///< the device
};
/// The next asynchronous event; does not wait.
[[nodiscard]] PortEvent take_port_event(ibv_context& context);

}  // namespace weft::programs
