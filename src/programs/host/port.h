#pragma once

// A port of the host's HCA by libibverbs, as subnet management has set it.

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/keys.h"
#include "base/result.h"
#include "sa/local_port.h"

namespace weft::programs {

/// With the P_Key at that index of its table. NoSuchDevice: the device is gone.
[[nodiscard]] Result<sa::LocalPort> port_attributes(ibv_context& context, std::uint8_t port,
                                                    std::uint16_t pkey_index = 0);
/// Where the table has a key of this partition, of a full member if there is one. NotFound:
/// nowhere.
[[nodiscard]] Result<std::uint16_t> find_pkey(ibv_context& context, std::uint8_t port, PKey pkey);

enum class PortEvent : std::uint8_t {
  None,
  PortChanged,
  Reregister,  ///< SA asks for it (IBTA vol 1 §14.4.11)
  Gone,        ///< the device
};
/// The next asynchronous event; does not wait.
[[nodiscard]] PortEvent take_port_event(ibv_context& context);

}  // namespace weft::programs
