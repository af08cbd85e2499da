#include "daemon/umad/devices.h"

#include <algorithm>

namespace weft::daemon {
namespace {

[[nodiscard]] bool is_switch(const fabric::TablesView& view, fabric::NodeIndex node) {
  return view.node(node).kind == fabric::NodeKind::Switch;
}

/// Rate of a lane in units of 0.1 Gb/s, or number of lanes, for the bits of PortInfo (IBTA vol 1
/// §14.2.5.6).
struct Bit {
  std::uint8_t bit;
  std::uint32_t value;
};
constexpr Bit kExtendedSpeeds[] = {
    {1, 140 },
    {2, 250 },
    {4, 500 },
    {8, 1000}
};
constexpr Bit kSpeeds[] = {
    {1, 25 },
    {2, 50 },
    {4, 100}
};
constexpr Bit kLanes[] = {
    {1,  1 },
    {2,  4 },
    {4,  8 },
    {8,  12},
    {16, 2 }
};

[[nodiscard]] std::uint32_t value_of(std::span<const Bit> bits, std::uint8_t active,
                                     std::uint32_t otherwise) {
  const auto found = std::ranges::find(bits, active, &Bit::bit);
  return found == bits.end() ? otherwise : found->value;
}

}  // namespace

std::vector<std::string> umad_devices(const fabric::TablesView& view, fabric::NodeIndex node) {
  if (is_switch(view, node)) {
    return {std::string{kSwitchDevice}};
  }
  std::vector<std::string> names;
  for (const fabric::HcaRecord& hca : view.hcas_of(view.node(node))) {
    if (names.size() < uabi::kMaxUmadDevices) {
      names.emplace_back(view.name(hca));
    }
  }
  return names;
}

Result<std::vector<fabric::PortIndex>> umad_ports(const fabric::TablesView& view,
                                                  fabric::NodeIndex node, std::string_view device) {
  if (is_switch(view, node) && device == kSwitchDevice) {
    return std::vector{view.node(node).first_port};
  }
  if (!is_switch(view, node)) {
    for (const fabric::HcaRecord& hca : view.hcas_of(view.node(node))) {
      if (view.name(hca) != device) {
        continue;
      }
      std::vector<fabric::PortIndex> ports;
      // libibumad has ports 0 to 9 only.
      for (std::uint32_t i = 0; i < hca.port_count && i + 1 < uabi::kMaxUmadPorts; ++i) {
        ports.emplace_back(hca.first_port.value() + i);
      }
      return ports;
    }
  }
  return fail(ErrorCode::NotFound, "{} has no device {}", view.name(view.node(node)), device);
}

Result<fabric::PortIndex> umad_port(const fabric::TablesView& view, fabric::NodeIndex node,
                                    std::string_view device, PortNumber number) {
  const auto ports = umad_ports(view, node, device);
  if (!ports) {
    return std::unexpected(ports.error());
  }
  for (const fabric::PortIndex port : *ports) {
    if (view.port(port).number == number) {
      return port;
    }
  }
  return fail(ErrorCode::NotFound, "{} of {} has no port {}", device, view.name(view.node(node)),
              number.value());
}

std::uint32_t gigabits(const wire::PortInfo& info) {
  const std::uint32_t tenths =
      value_of(kExtendedSpeeds, info.link_speed_ext_active,
               value_of(kSpeeds, info.link_speed_active, kSpeeds[0].value));
  return tenths * value_of(kLanes, info.link_width_active, 1) / 10;
}

uabi::UmadPort describe(const fabric::PortRecord& port, const wire::PortInfo& info,
                        std::span<const PKey> pkeys) {
  return {
      .number = port.number.value(),
      .state = static_cast<std::uint8_t>(info.port_state),
      .physical_state = static_cast<std::uint8_t>(info.physical_state),
      .lmc = info.lmc,
      .lid = info.lid,
      .sm_lid = info.master_sm_lid,
      .sm_sl = info.master_sm_sl,
      .is_infiniband = port.link_type == fabric::LinkType::InfiniBand,
      .gigabits = gigabits(info),
      .capability_mask = info.capability_mask.bits(),
      .pkey_violations = info.pkey_violations,
      .qkey_violations = info.qkey_violations,
      .subnet_timeout = info.subnet_timeout,
      .init_type_reply = info.init_type_reply,
      .gid = Gid{info.gid_prefix, port.guid  },
      .pkeys = {pkeys.begin(),   pkeys.end()}
  };
}

}  // namespace weft::daemon
