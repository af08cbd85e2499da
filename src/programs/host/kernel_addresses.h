#pragma once

// What the kernel of a host knows of an interface by itself, and the fabric's daemon, which is that
// for RDMA, does not: the addresses of an interface that a program carries (uabi::CarryAddresses).
// RDMA-CM then has them as the host's own. Any one thread.

#include <span>
#include <utility>

#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "os/packet_socket.h"

namespace weft::programs {

class KernelAddresses {
 public:
  /// Of the host that this process is on. Refused: there is no daemon.
  [[nodiscard]] static Result<KernelAddresses> open();

  /// Those of the host's first port from now on, until the next call or the end of this object;
  /// waits until RDMA-CM has them. With the daemon's reason: it does not take them.
  [[nodiscard]] Result<void> set(PKey pkey, std::span<const InterfaceAddress> addresses);

 private:
  explicit KernelAddresses(os::PacketSocket socket) : socket_(std::move(socket)) {}

  os::PacketSocket socket_;
};

}  // namespace weft::programs
