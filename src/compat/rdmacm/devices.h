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
  bool is_listed{};  // by rdma_get_devices(), and not freed since
  std::uint32_t max_qp_wr{};
  std::uint8_t initiator_depth{};      // maximum of a QP
  std::uint8_t responder_resources{};  // likewise
};

/// References the named device for an id; null after refuse().
[[nodiscard]] Device* take_device(const std::string& name);
/// Drops a reference of take_device().
void give_back(Device& device);
/// Closes those that have gone since they were last given back: as long as they are open, the
/// program finds no device that comes instead.
void close_gone_devices();

/// Null after refuse().
[[nodiscard]] ibv_xrcd* shared_xrc_domain(Device& device);

}  // namespace weft::compat
