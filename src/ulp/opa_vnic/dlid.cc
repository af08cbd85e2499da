#include "ulp/opa_vnic/dlid.h"

#include <vector>

namespace weft::opa_vnic {

FlowTable make_flow_table(std::uint16_t default_port_mask) {
  std::vector<std::uint8_t> ports;
  for (std::uint8_t port = 0; port < wire::kMaxDefaultPorts; ++port) {
    if ((default_port_mask >> port & 1U) != 0) {
      ports.push_back(port);
    }
  }
  FlowTable flows{};
  for (std::size_t i = 0; i < flows.size() && !ports.empty(); ++i) {
    flows[i] = ports[i % ports.size()];
  }
  return flows;
}

std::uint32_t choose_dlid(const wire::MacAddress& destination, std::uint8_t entropy,
                          const wire::VeswInfo& vesw, const MacTable& macs,
                          const FlowTable& flows) {
  if (const auto known = macs.find_destination(destination)) {
    return *known;
  }
  if (destination.is_multicast()) {
    return vesw.multicast_dlid;
  }
  if (destination.is_locally_administered()) {
    const auto octet = [&](std::size_t i) {
      return std::to_integer<std::uint32_t>(destination.octets()[i]);
    };
    return octet(5) << 16 | octet(4) << 8 | octet(3);
  }
  const std::size_t flow = (entropy >> 4) + (entropy & 0xFU);
  const auto port = flows[flow % kFlowTableSize];
  return port ? vesw.unicast_dlids[*port] : 0;
}

}  // namespace weft::opa_vnic
