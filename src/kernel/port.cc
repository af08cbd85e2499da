#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include <cstring>
#include <optional>
#include <string>

#include "core/device.h"
#include "core/port_cache.h"
#include "kernel/device_face.h"
#include "kernel/gid_face.h"
#include "kernel/host.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

/// 0, and the value where it is to go; or the error.
template <class To, class T>
int give(const Result<T>& found, To* into) {
  if (!found) {
    return refuse(found.error());
  }
  if (into != nullptr) {
    *into = static_cast<To>(*found);
  }
  return 0;
}

int give(const Result<PKey>& found, std::uint16_t* into) {
  return found ? give(Result<std::uint16_t>{found->value()}, into) : refuse(found.error());
}

[[nodiscard]] bool has(const ib_device* device, std::uint8_t port_num,
                       core::PortCapability capability) {
  return core_of(*device).port_can(PortNumber{port_num}, capability);
}

[[nodiscard]] const ib_gid_attr* give_gid(Result<core::GidReference> found) {
  return found ? make_gid_face(*std::move(found))
               : refuse_pointer<const ib_gid_attr>(found.error());
}

}  // namespace
}  // namespace weft::kernel

using weft::PortNumber;
using weft::kernel::core_of;
using weft::kernel::give;

int ib_query_port(ib_device* device, std::uint8_t port_num, ib_port_attr* port_attr) {
  const auto found = weft::core::query_port(core_of(*device), PortNumber{port_num});
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *port_attr = weft::kernel::to_c(*found);
  return 0;
}

int ib_query_pkey(ib_device* device, std::uint8_t port_num, std::uint16_t index,
                  std::uint16_t* pkey) {
  return give(weft::core::query_pkey(core_of(*device), PortNumber{port_num}, index), pkey);
}

int ib_modify_device(ib_device* device, int device_modify_mask, ib_device_modify* device_modify) {
  weft::core::DeviceModification modification;
  modification.mask = weft::Flags<weft::core::DeviceChange>::from_bits(
      static_cast<std::uint32_t>(device_modify_mask));
  modification.system_image_guid = weft::Guid{device_modify->sys_image_guid};
  modification.node_description = std::string{
      device_modify->node_desc, strnlen(device_modify->node_desc, sizeof device_modify->node_desc)};
  return weft::kernel::returned(weft::core::modify_device(core_of(*device), modification));
}

int ib_modify_port(ib_device* device, std::uint8_t port_num, int port_modify_mask,
                   ib_port_modify* port_modify) {
  weft::core::PortModification modification;
  modification.mask =
      weft::Flags<weft::core::PortChange>::from_bits(static_cast<std::uint32_t>(port_modify_mask));
  if (port_modify != nullptr) {
    modification.set_capabilities = port_modify->set_port_cap_mask;
    modification.clear_capabilities = port_modify->clr_port_cap_mask;
    modification.init_type = port_modify->init_type;
  }
  return weft::kernel::returned(
      weft::core::modify_port(core_of(*device), PortNumber{port_num}, modification));
}

int ib_find_gid(ib_device* device, ib_gid* gid, std::uint8_t* port_num, std::uint16_t* index) {
  const auto found = weft::core::find_gid(core_of(*device), weft::kernel::gid_of(*gid));
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *port_num = found->port.value();
  if (index != nullptr) {
    *index = found->index;
  }
  return 0;
}

int ib_find_pkey(ib_device* device, std::uint8_t port_num, std::uint16_t pkey,
                 std::uint16_t* index) {
  return give(weft::core::find_pkey(core_of(*device), PortNumber{port_num}, weft::PKey{pkey}),
              index);
}

int rdma_query_gid(ib_device* device, std::uint8_t port_num, int index, ib_gid* gid) {
  if (index < 0) {
    return weft::kernel::refuse({weft::ErrorCode::InvalidArgument, "GID indices begin with 0"});
  }
  const auto found = weft::core::get_gid(core_of(*device), PortNumber{port_num},
                                         static_cast<std::uint32_t>(index));
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *gid = weft::kernel::to_c((*found)->gid());
  return 0;
}

rdma_link_layer rdma_port_get_link_layer(ib_device* device, std::uint8_t port_num) {
  return static_cast<rdma_link_layer>(core_of(*device).link_layer(PortNumber{port_num}));
}

bool rdma_protocol_ib(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::ProtocolIb);
}
bool rdma_protocol_roce(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::ProtocolRoce) ||
         weft::kernel::has(device, port_num, weft::core::PortCapability::ProtocolRoceUdp);
}
bool rdma_protocol_iwarp(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::ProtocolIwarp);
}
bool rdma_cap_ib_mad(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::Mad);
}
bool rdma_cap_ib_cm(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::IbCm);
}
bool rdma_cap_iw_cm(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::IwCm);
}
bool rdma_cap_ib_sa(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::Sa);
}
bool rdma_cap_ib_mcast(const ib_device* device, std::uint8_t port_num) {
  return weft::kernel::has(device, port_num, weft::core::PortCapability::Multicast);
}
bool rdma_cap_read_inv(ib_device* device, std::uint32_t port_num) {
  return rdma_protocol_iwarp(device, static_cast<std::uint8_t>(port_num));
}

const ib_gid_attr* rdma_get_gid_attr(ib_device* device, std::uint8_t port_num, int index) {
  if (index < 0) {
    return weft::kernel::refuse_pointer<const ib_gid_attr>(
        {weft::ErrorCode::InvalidArgument, "GID indices begin with 0"});
  }
  return weft::kernel::give_gid(weft::core::get_gid(core_of(*device), PortNumber{port_num},
                                                    static_cast<std::uint32_t>(index)));
}

const ib_gid_attr* rdma_find_gid(ib_device* device, const ib_gid* gid, ib_gid_type gid_type,
                                 net_device* /*ndev*/) {
  return weft::kernel::give_gid(weft::core::find_cached_gid(
      core_of(*device), weft::kernel::gid_of(*gid), static_cast<weft::core::GidType>(gid_type)));
}

const ib_gid_attr* rdma_find_gid_by_port(ib_device* device, const ib_gid* gid, ib_gid_type gid_type,
                                         std::uint8_t port, net_device* /*ndev*/) {
  return weft::kernel::give_gid(
      weft::core::find_cached_gid(core_of(*device), PortNumber{port}, weft::kernel::gid_of(*gid),
                                  static_cast<weft::core::GidType>(gid_type)));
}

int ib_get_cached_pkey(ib_device* device, std::uint8_t port_num, int index, std::uint16_t* pkey) {
  return give(weft::core::get_cached_pkey(core_of(*device), PortNumber{port_num},
                                          static_cast<std::uint32_t>(index)),
              pkey);
}

int ib_find_cached_pkey(ib_device* device, std::uint8_t port_num, std::uint16_t pkey,
                        std::uint16_t* index) {
  return give(
      weft::core::find_cached_pkey(core_of(*device), PortNumber{port_num}, weft::PKey{pkey}),
      index);
}

int ib_find_exact_cached_pkey(ib_device* device, std::uint8_t port_num, std::uint16_t pkey,
                              std::uint16_t* index) {
  return give(
      weft::core::find_exact_cached_pkey(core_of(*device), PortNumber{port_num}, weft::PKey{pkey}),
      index);
}

int ib_get_cached_lmc(ib_device* device, std::uint8_t port_num, std::uint8_t* lmc) {
  return give(weft::core::get_cached_lmc(core_of(*device), PortNumber{port_num}), lmc);
}

int ib_get_cached_port_state(ib_device* device, std::uint8_t port_num, ib_port_state* port_active) {
  return give(weft::core::get_cached_port_state(core_of(*device), PortNumber{port_num}),
              port_active);
}
