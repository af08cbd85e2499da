#pragma once

// What a node has behind umad: the HCAs of a host; of a switch one device, whose port is port 0.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keys.h"
#include "base/result.h"
#include "fabric/tables.h"
#include "uabi/messages.h"
#include "wire/mad/port_info.h"

namespace weft::daemon {

/// Of a switch.
inline constexpr std::string_view kSwitchDevice = "weft0";

[[nodiscard]] std::vector<std::string> umad_devices(const fabric::TablesView& view,
                                                    fabric::NodeIndex node);

/// The ports of a device that a program may open, the lowest number first.
[[nodiscard]] Result<std::vector<fabric::PortIndex>> umad_ports(const fabric::TablesView& view,
                                                                fabric::NodeIndex node,
                                                                std::string_view device);
[[nodiscard]] Result<fabric::PortIndex> umad_port(const fabric::TablesView& view,
                                                  fabric::NodeIndex node, std::string_view device,
                                                  PortNumber number);

[[nodiscard]] uabi::UmadPort describe(const fabric::PortRecord& port, const wire::PortInfo& info,
                                      std::span<const PKey> pkeys);

/// The rate of a link as sysfs has it: whole Gb/s.
[[nodiscard]] std::uint32_t gigabits(const wire::PortInfo& info);

}  // namespace weft::daemon
