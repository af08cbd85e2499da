#pragma once

// The verbs devices to which ids are bound. Each is opened once for all ids of the program, which
// share its PD and XRC domain. Any thread.

#include <cstdint>
#include <string>

#include "compat/rdmacm/abi.h"

namespace weft::compat {

/// An open device.
struct Device {
  std::string name;
  ibv_context* verbs{};
  ibv_pd* pd{};      // while any id is bound to the device
  ibv_xrcd* xrcd{};  // the same, once requested
  unsigned users{};
  std::uint32_t max_qp_wr{};
  std::uint8_t initiator_depth{};      // maximum of a QP
  std::uint8_t responder_resources{};  // likewise
};

/// References the named device for an id; null after refuse().
[[nodiscard]] Device* take_device(const std::string& name);
/// Drops a reference of take_device().
void give_back(Device& device);

/// Null after refuse().
[[nodiscard]] ibv_xrcd* shared_xrc_domain(Device& device);

}  // namespace weft::compat
