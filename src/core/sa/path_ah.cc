#include "core/sa/path_ah.h"

#include <utility>

#include "core/device.h"

namespace weft::core {
namespace {

Result<GidReference> find_sgid(Device& device, PortNumber port, const Gid& gid) {
  auto found = find_cached_gid(device, port, gid);
  if (!found) {
    return fail(ErrorCode::InvalidArgument, "the path's source GID is not of port {}: {}",
                port.value(), found.error().reason);
  }
  return found;
}

}  // namespace

Result<AhAttributes> init_ah_attributes_from_path(Device& device, PortNumber port,
                                                  const wire::PathRecord& path, GidReference sgid) {
  if (const auto known = device.check_port(port); !known) {
    return std::unexpected(known.error());
  }
  const bool is_ethernet = device.port_can(port, PortCapability::EthernetAddressHandles);
  AhAttributes attributes;
  attributes.address.port = port;
  attributes.address.sl = path.sl;
  attributes.address.static_rate = path.rate;
  if (!is_ethernet) {
    const unsigned path_bits = (1U << device.cache(port).lmc()) - 1;
    attributes.address.dlid = path.dlid;
    attributes.address.source_path_bits = static_cast<std::uint8_t>(path.slid.value() & path_bits);
  }
  if (is_ethernet || path.hop_limit > 1) {
    if (!sgid) {
      auto found = find_sgid(device, port, path.sgid);
      if (!found) {
        return std::unexpected(found.error());
      }
      sgid = std::move(*found);
    }
    move_grh_sgid(
        attributes, path.dgid,
        {.flow_label = path.flow_label, .hop_limit = path.hop_limit, .traffic_class = path.tclass},
        std::move(sgid));
  }
  if (const auto checked = check_ah_attributes(device, attributes); !checked) {
    return std::unexpected(checked.error());
  }
  if (is_ethernet) {
    if (device.operations().resolve_mac == nullptr) {
      return fail(ErrorCode::NoSuchDevice, "the driver of {} finds no MAC addresses",
                  device.name());
    }
    const auto mac = device.operations().resolve_mac(device, attributes);
    if (!mac) {
      return std::unexpected(mac.error());
    }
    attributes.destination_mac = *mac;
  }
  return attributes;
}

}  // namespace weft::core
