#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/net_device.h"

struct net_device;

namespace weft::kernel {

/// Net devices of Linux with those of the core: the latter stay as long as the process, since
/// devices and look-ups hold them. Any thread.
class NetDeviceFaces {
 public:
  [[nodiscard]] core::NetDevice& core_of(net_device& device);
  /// Null: it is none of C's.
  [[nodiscard]] net_device* face_of(const core::NetDevice& device);

 private:
  std::mutex mutex_;
  std::unordered_map<net_device*, std::unique_ptr<core::NetDevice>> made_;
};

[[nodiscard]] NetDeviceFaces& net_device_faces();

}  // namespace weft::kernel
