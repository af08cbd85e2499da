#include "core/ah.h"

#include <memory>
#include <utility>

#include "core/device.h"

namespace weft::core {
namespace {

/// Rates of the verbs API: 0 the port's own, 1 none, 2 to 23.
[[nodiscard]] constexpr bool is_rate(std::uint8_t rate) { return rate != 1 && rate <= 23; }

/// The attributes with the source GID that they name, or why there is none.
[[nodiscard]] Result<AhAttributes> with_sgid(Device& device, const AhAttributes& attributes) {
  AhAttributes filled = attributes;
  if (filled.address.is_global && !filled.sgid) {
    auto found = get_gid(device, filled.address.port, filled.address.grh.sgid_index);
    if (!found) {
      return fail(ErrorCode::InvalidArgument, "no source GID: {}", found.error().reason);
    }
    filled.sgid = std::move(*found);
  }
  return filled;
}

Result<Ah*> create(Pd& pd, const AhAttributes& attributes, AhFlags flags, UserData* user_data) {
  Device& device = pd.device();
  if (device.operations().create_ah == nullptr) {
    return fail(ErrorCode::NotSupported, "the driver of {} has no address handles", device.name());
  }
  auto filled = with_sgid(device, attributes);
  if (!filled) {
    return std::unexpected(filled.error());
  }
  auto ah = std::make_unique<Ah>(pd, *filled);
  if (const auto made = device.operations().create_ah(*ah, *filled, flags, user_data); !made) {
    return std::unexpected(made.error());
  }
  pd.hold();
  device.add_resource(*ah);
  return ah.release();
}

}  // namespace

Ah::Ah(Pd& pd, AhAttributes attributes)
    : Resource(pd.device(), ResourceKind::Ah, "core"),
      pd_(pd),
      port_(attributes.address.port),
      sgid_(std::move(attributes.sgid)) {}

void move_grh_sgid(AhAttributes& attributes, const Gid& dgid, const GrhFields& fields,
                   GidReference sgid) {
  attributes.address.is_global = true;
  attributes.address.grh = {.dgid = dgid,
                            .flow_label = fields.flow_label,
                            .sgid_index = static_cast<std::uint8_t>(sgid ? sgid->index() : 0),
                            .hop_limit = fields.hop_limit,
                            .traffic_class = fields.traffic_class};
  attributes.sgid = std::move(sgid);
}

Result<void> check_ah_attributes(Device& device, const AhAttributes& attributes) {
  const verbs::AddressVector& address = attributes.address;
  if (auto known = device.check_port(address.port); !known) {
    return known;
  }
  if (!is_rate(address.static_rate)) {
    return fail(ErrorCode::InvalidArgument, "there is no rate of code {}", address.static_rate);
  }
  if (device.port_can(address.port, PortCapability::EthernetAddressHandles) && !address.is_global) {
    return fail(ErrorCode::InvalidArgument, "a destination on Ethernet needs a GRH");
  }
  const std::uint32_t gids = device.immutable(address.port).gid_table_length;
  if (address.is_global && address.grh.sgid_index >= gids) {
    return fail(ErrorCode::InvalidArgument, "GID index {} is not below {} of port {}",
                address.grh.sgid_index, gids, address.port.value());
  }
  if (attributes.sgid &&
      (&attributes.sgid->device() != &device || attributes.sgid->port() != address.port ||
       attributes.sgid->index() != address.grh.sgid_index)) {
    return fail(ErrorCode::InvalidArgument,
                "the source GID that is held is not the one of port {} with index {}",
                address.port.value(), address.grh.sgid_index);
  }
  if (device.operations().check_ah != nullptr) {
    return device.operations().check_ah(device, attributes);
  }
  return {};
}

Result<Ah*> create_ah(Pd& pd, const AhAttributes& attributes, AhFlags flags) {
  if (const auto checked = check_ah_attributes(pd.device(), attributes); !checked) {
    return std::unexpected(checked.error());
  }
  return create(pd, attributes, flags, nullptr);
}

Result<Ah*> create_user_ah(Pd& pd, const AhAttributes& attributes, UserData* user_data) {
  Device& device = pd.device();
  if (const auto checked = check_ah_attributes(device, attributes); !checked) {
    return std::unexpected(checked.error());
  }
  AhAttributes resolved = attributes;
  if (device.port_can(attributes.address.port, PortCapability::EthernetAddressHandles)) {
    if (device.operations().resolve_mac == nullptr) {
      return fail(ErrorCode::NotSupported, "the driver of {} finds no MAC addresses",
                  device.name());
    }
    const auto mac = device.operations().resolve_mac(device, attributes);
    if (!mac) {
      return std::unexpected(mac.error());
    }
    resolved.destination_mac = *mac;
  }
  return create(pd, resolved, AhFlag::Sleepable, user_data);
}

Result<void> modify_ah(Ah& ah, const AhAttributes& attributes) {
  Device& device = ah.device();
  if (device.operations().modify_ah == nullptr) {
    return fail(ErrorCode::NotSupported, "the driver of {} changes no address handles",
                device.name());
  }
  if (const auto checked = check_ah_attributes(device, attributes); !checked) {
    return checked;
  }
  auto filled = with_sgid(device, attributes);
  if (!filled) {
    return std::unexpected(filled.error());
  }
  if (const auto changed = device.operations().modify_ah(ah, *filled); !changed) {
    return changed;
  }
  ah.port_ = filled->address.port;
  ah.sgid_ = std::move(filled->sgid);
  return {};
}

Result<AhAttributes> query_ah(Ah& ah) {
  if (ah.device().operations().query_ah == nullptr) {
    return fail(ErrorCode::NotSupported, "the driver of {} tells nothing of address handles",
                ah.device().name());
  }
  auto attributes = ah.device().operations().query_ah(ah);
  if (attributes) {
    attributes->sgid = ah.sgid();
  }
  return attributes;
}

Result<void> destroy_ah(Ah& ah, AhFlags flags) {
  Device& device = ah.device();
  if (auto gone = device.operations().destroy_ah(ah, flags); !gone) {
    return gone;
  }
  device.remove_resource(ah);
  ah.pd().put();
  std::unique_ptr<Ah>{&ah}.reset();
  return {};
}

Result<AhAttributes> ah_attributes_from_wc(Device& device, PortNumber port, const Wc& wc,
                                           const wire::Grh* grh) {
  if (const auto known = device.check_port(port); !known) {
    return std::unexpected(known.error());
  }
  AhAttributes attributes;
  attributes.address.port = port;
  attributes.address.dlid = wc.slid;
  attributes.address.sl = wc.sl;
  attributes.address.source_path_bits = wc.dlid_path_bits;
  if (!wc.flags.has(verbs::Completion::Grh)) {
    return attributes;
  }
  if (grh == nullptr) {
    return fail(ErrorCode::InvalidArgument, "the packet came with a GRH, which is not given");
  }
  // What was sent to a group leads back from the port's first GID.
  auto own = grh->dgid.is_multicast() ? get_gid(device, port, 0)
                                      : find_cached_gid(device, port, grh->dgid);
  if (!own) {
    return std::unexpected(own.error());
  }
  constexpr std::uint8_t kMostHops = 0xFF;
  move_grh_sgid(
      attributes, grh->sgid,
      {.flow_label = grh->flow_label, .hop_limit = kMostHops, .traffic_class = grh->traffic_class},
      std::move(*own));
  return attributes;
}

Result<Ah*> create_ah_from_wc(Pd& pd, const Wc& wc, const wire::Grh* grh, PortNumber port) {
  const auto attributes = ah_attributes_from_wc(pd.device(), port, wc, grh);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  return create_ah(pd, *attributes);
}

}  // namespace weft::core
