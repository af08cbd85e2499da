#pragma once

// What a driver of an iWARP device that runs as a program of a host says to the host's kernel side
// by RDMA netlink, and what comes back. On Linux drivers are part of the kernel and call it; these
// operations of RDMA_NL_IWCM are Weft's own, and Linux has none with these numbers. The forms are
// those of netlink_messages.h: a request is AddMapping, QueryMapping or RemoveMapping, in version
// 4, and every request but a removal is answered by ConnectionInfo with the request's number.

#include <cstdint>

#include "wire/iwpm/netlink_messages.h"

namespace weft::wire::iwpm {

enum class DriverOperation : std::uint16_t {
  Map = 0x080,      ///< AddMapping: of a listener
  Connect = 0x081,  ///< QueryMapping: of who connects
  Unmap = 0x082,    ///< RemoveMapping: of either
  /// QueryMapping, whose addresses are the mapped ones of a connection that came: whose it is.
  FindRemote = 0x083,
  Answer = 0x084,  ///< ConnectionInfo
};

[[nodiscard]] constexpr bool is_driver_operation(std::uint16_t operation) {
  return operation >= static_cast<std::uint16_t>(DriverOperation::Map) &&
         operation <= static_cast<std::uint16_t>(DriverOperation::Answer);
}
/// For append().
[[nodiscard]] constexpr Operation as_operation(DriverOperation operation) {
  return static_cast<Operation>(operation);
}

// The error of an answer is 0, one of DaemonError, or one of these, which are errno of Linux that
// none of DaemonError equals.
inline constexpr std::uint16_t kDriverInvalid = 22;     ///< EINVAL
inline constexpr std::uint16_t kDriverNoBuffers = 105;  ///< ENOBUFS: too much is open
inline constexpr std::uint16_t kDriverTimedOut = 110;   ///< ETIMEDOUT: the daemon is silent
inline constexpr std::uint16_t kDriverUnknown = 2;      ///< ENOENT: no such remote is known

}  // namespace weft::wire::iwpm
