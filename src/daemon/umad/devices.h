#pragma once

// The umad devices of a node: the HCAs of a host, or a single device with port 0 for a switch.

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

/// Device name of a switch.
inline constexpr std::string_view kSwitchDevice = "weft0";

[[nodiscard]] std::vector<std::string> umad_devices(const fabric::TablesView& view,
                                                    fabric::NodeIndex node);

/// The ports of a device that programs may open, in order of their numbers.
[[nodiscard]] Result<std::vector<fabric::PortIndex>> umad_ports(const fabric::TablesView& view,
                                                                fabric::NodeIndex node,
                                                                std::string_view device);
[[nodiscard]] Result<fabric::PortIndex> umad_port(const fabric::TablesView& view,
                                                  fabric::NodeIndex node, std::string_view device,
                                                  PortNumber number);

[[nodiscard]] uabi::UmadPort describe(const fabric::PortRecord& port, const wire::PortInfo& info,
                                      std::span<const PKey> pkeys);

/// The link rate in whole Gb/s, as in sysfs.
[[nodiscard]] std::uint32_t gigabits(const wire::PortInfo& info);

}  // namespace weft::daemon
