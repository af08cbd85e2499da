#pragma once

// The verbs devices that ids are bound to: each open once for all ids of the program, with a PD and
// an XRC domain that ids share. Any thread may call anything.

#include <cstdint>
#include <string>

#include "compat/rdmacm/abi.h"

namespace weft::compat {

struct Device {
  std::string name;
  ibv_context* verbs{};
  ibv_pd* pd{};      // while any id is bound to the device
  ibv_xrcd* xrcd{};  // the same, once one was asked for
  unsigned users{};
  std::uint32_t max_qp_wr{};
  std::uint8_t initiator_depth{};      // at most, of a QP
  std::uint8_t responder_resources{};  // the same
};

/// For an id that is bound to the device of that name; null after refuse().
[[nodiscard]] Device* take_device(const std::string& name);
void give_back(Device& device);

/// Null after refuse().
[[nodiscard]] ibv_xrcd* shared_xrc_domain(Device& device);

}  // namespace weft::compat
