#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>

#include <memory>

#include "core/device.h"
#include "core/registry.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/net_device_face.h"
#include "kernel/socket_address.h"
#include "kernel/values.h"

namespace weft::kernel {

NetDeviceFaces& net_device_faces() {
  static NetDeviceFaces made;
  return made;
}

core::NetDevice& NetDeviceFaces::core_of(net_device& device) {
  const std::lock_guard lock{mutex_};
  auto& made = made_[&device];
  if (made == nullptr) {
    made = std::make_unique<core::NetDevice>(device.name);
  }
  return *made;
}

net_device* NetDeviceFaces::face_of(const core::NetDevice& device) {
  const std::lock_guard lock{mutex_};
  for (const auto& [face, made] : made_) {
    if (made.get() == &device) {
      return face;
    }
  }
  return nullptr;
}

}  // namespace weft::kernel

using weft::kernel::core_of;
using weft::kernel::net_device_faces;

int ib_device_set_netdev(ib_device* ib_dev, net_device* ndev, unsigned port) {
  constexpr unsigned kMostPorts = 255;
  if (port > kMostPorts) {
    return weft::kernel::refuse({weft::ErrorCode::InvalidArgument, "there is no such port"});
  }
  return weft::kernel::returned(core_of(*ib_dev).set_net_device(
      ndev != nullptr ? &net_device_faces().core_of(*ndev) : nullptr,
      weft::PortNumber{static_cast<std::uint8_t>(port)}));
}

ib_device* ib_device_get_by_netdev(net_device* ndev, rdma_driver_id driver_id) {
  const auto host = weft::kernel::host();
  if (!host) {
    return nullptr;
  }
  auto found = host->registry->get_device_by_net_device(net_device_faces().core_of(*ndev),
                                                        static_cast<std::uint32_t>(driver_id));
  ib_device* const face = found ? weft::kernel::face_of(*found) : nullptr;
  if (face != nullptr) {
    static_cast<void>(found.release());
  }
  return face;
}

net_device* ib_get_net_dev_by_params(ib_device* dev, std::uint8_t port, std::uint16_t pkey,
                                     const ib_gid* gid, const sockaddr* addr) {
  weft::core::NetDeviceParameters parameters{.port = weft::PortNumber{port},
                                             .pkey = weft::PKey{pkey}};
  const weft::Gid wanted = gid != nullptr ? weft::kernel::gid_of(*gid) : weft::Gid{};
  const auto address = weft::kernel::address_of(addr);
  parameters.gid = gid != nullptr ? &wanted : nullptr;
  parameters.address = address ? &address->address : nullptr;
  const auto found = weft::core::net_device_by_parameters(core_of(*dev), parameters);
  return found ? net_device_faces().face_of(*found.get()) : nullptr;
}

void ib_enum_roce_netdev(ib_device* ib_dev, roce_netdev_callback cb, void* cookie) {
  weft::core::Device& wanted = core_of(*ib_dev);
  wanted.registry().for_each_roce_net_device(
      [&](weft::core::Device& device, weft::PortNumber port, weft::core::NetDevice& found) {
        if (&device == &wanted) {
          cb(ib_dev, port.value(), net_device_faces().face_of(found), cookie);
        }
      });
}

bool rdma_dev_access_netns(const ib_device* device, const net* /*net*/) {
  return core_of(*device).is_accessible_from(nullptr);  // a process is in one network
}
