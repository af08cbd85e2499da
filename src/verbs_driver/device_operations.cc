// The device itself and its ports.

#include <cerrno>

#include "core/device.h"
#include "core/port_cache.h"
#include "verbs_driver/translation.h"
#include "verbs_driver/verbs_device.h"
#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

using core::PortCapability;

// No Mad, Smi, IbCm or Sa: a program has no QP0 and QP1, and connects by librdmacm.
constexpr auto kInfiniband = core::PortCapabilities{PortCapability::Multicast} |
                             PortCapability::AddressFamilyIb | PortCapability::ProtocolIb;
constexpr auto kEthernet = core::PortCapabilities{PortCapability::Multicast} |
                           PortCapability::EthernetAddressHandles | PortCapability::ProtocolRoceUdp;

Result<core::DeviceAttributes> query_device(core::Device& device) {
  VerbsDevice& own = verbs_device_of(device);
  ibv_device_attr attributes{};
  if (const auto asked =
          check_call(own.library().query_device(&own.context(), &attributes), "ibv_query_device");
      !asked) {
    return std::unexpected(asked.error());
  }
  core::DeviceAttributes made = attributes_of(attributes, own.uses_on_demand_paging());
  if (own.registers_by_windows()) {
    constexpr std::uint32_t kMostPages = 512;  // policy: 2 MiB in a piece
    made.capabilities |= core::DeviceCapability::MemoryManagementExtensions;
    made.max_fast_registration_entries = kMostPages;
  }
  return made;
}

/// What verbs.h calls ibv_query_port: by the context where it can, since the function of that name
/// fills an older structure.
Result<ibv_port_attr> ask_port(VerbsDevice& own, PortNumber port) {
  ibv_port_attr attributes{};
  const verbs_context* const extended = __extension__ verbs_get_ctx_op(&own.context(), query_port);
  if (extended == nullptr) {
    return fail(ErrorCode::NotSupported, "this libibverbs is older than rdma-core 18");
  }
  if (const auto asked = check_call(
          extended->query_port(&own.context(), port.value(), &attributes, sizeof attributes),
          "ibv_query_port");
      !asked) {
    return std::unexpected(asked.error());
  }
  return attributes;
}

Result<Gid> read_gid(core::Device& device, PortNumber port, std::uint32_t index) {
  VerbsDevice& own = verbs_device_of(device);
  ibv_gid gid{};
  if (own.library().query_gid(&own.context(), port.value(), static_cast<int>(index), &gid) != 0) {
    return Gid{};  // an empty entry, of which some providers say so in this way
  }
  return gid_of(gid);
}

Result<core::PortDescription> query_port(core::Device& device, PortNumber port) {
  const auto attributes = ask_port(verbs_device_of(device), port);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  const auto first = read_gid(device, port, 0);
  return port_of(*attributes, first ? first->prefix() : kDefaultGidPrefix);
}

Result<core::PortImmutable> get_port_immutable(core::Device& device, PortNumber port) {
  const auto attributes = ask_port(verbs_device_of(device), port);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  const bool is_ethernet = attributes->link_layer == IBV_LINK_LAYER_ETHERNET;
  return core::PortImmutable{
      .pkey_table_length = attributes->pkey_tbl_len,
      .gid_table_length = static_cast<std::uint32_t>(attributes->gid_tbl_len),
      .capabilities = is_ethernet ? kEthernet : kInfiniband};
}

Result<PKey> query_pkey(core::Device& device, PortNumber port, std::uint32_t index) {
  VerbsDevice& own = verbs_device_of(device);
  std::uint16_t pkey = 0;
  if (const auto asked = check_call(
          own.library().query_pkey(&own.context(), port.value(), static_cast<int>(index), &pkey),
          "ibv_query_pkey");
      !asked) {
    return std::unexpected(asked.error());
  }
  return PKey{be16toh(pkey)};
}

/// RoCE: the table is the kernel's, and the core is told what is in it. Indices are the same up to
/// the first empty entry.
Result<void> enable_driver(core::Device& device) {
  for (std::uint8_t number = 1; number <= device.port_count(); ++number) {
    const PortNumber port{number};
    if (device.port_can(port, PortCapability::ProtocolIb)) {
      continue;
    }
    for (std::uint32_t i = 0; i < device.immutable(port).gid_table_length; ++i) {
      const auto gid = read_gid(device, port, i);
      if (!gid || gid->is_zero()) {
        break;
      }
      // Each address is there twice, for RoCE v1 and v2; the core only has to know both indices.
      const auto type = i % 2 == 0 ? core::GidType::RoceV1 : core::GidType::RoceV2;
      if (const auto added = device.cache(port).add_gid(*gid, type, {}); !added) {
        break;
      }
    }
  }
  return {};
}

}  // namespace

void add_device_operations(core::DeviceOperations& operations) {
  operations.driver_id = kVerbsDriver;
  operations.query_device = query_device;
  operations.query_port = query_port;
  operations.get_port_immutable = get_port_immutable;
  operations.query_gid = read_gid;
  operations.query_pkey = query_pkey;
  operations.add_gid = [](const core::GidEntry& /*entry*/) { return Result<void>{}; };
  operations.remove_gid = [](const core::GidEntry& /*entry*/) {};
  operations.enable_driver = enable_driver;
}

core::DeviceOperations verbs_operations() {
  core::DeviceOperations operations;
  add_device_operations(operations);
  add_object_operations(operations);
  add_memory_operations(operations);
  add_qp_operations(operations);
  add_window_operations(operations);
  return operations;
}

}  // namespace weft::verbs_driver
