#pragma once

// Values between the C interface and the daemon's messages.

#include <sys/socket.h>

#include <optional>
#include <span>
#include <vector>

#include "compat/rdmacm/abi.h"
#include "uabi/messages.h"

namespace weft::compat {

/// Of AF_INET, AF_INET6 and AF_IB; 0 for any other.
[[nodiscard]] socklen_t length_of(const sockaddr* address);

/// Nothing for a family that RDMA-CM does not have. Null is the address of no family.
[[nodiscard]] std::optional<uabi::RdmaCmAddress> to_daemon(const sockaddr* address);
/// Leaves `out` as it is when there is no address.
void from_daemon(const uabi::RdmaCmAddress& address, sockaddr_storage& out);

/// The port in network order, of AF_IB out of the service id; 0 without an address.
[[nodiscard]] __be16 port_of(const sockaddr* address);

[[nodiscard]] ibv_gid from_daemon(const Gid& gid);
[[nodiscard]] ibv_ah_attr from_daemon(const uabi::RdmaCmAddressVector& vector);
[[nodiscard]] ibv_sa_path_rec from_daemon(const uabi::RdmaCmPath& path);
[[nodiscard]] uabi::RdmaCmPath to_daemon(const ibv_path_data& path);
[[nodiscard]] ibv_qp_attr from_daemon(const uabi::RdmaCmQpAttributes& attributes);

[[nodiscard]] uabi::RdmaCmPrivateData private_data(const void* data, std::size_t bytes);

/// A program's pointer to an address of any family.
[[nodiscard]] inline const sockaddr* generic(const sockaddr_storage& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

}  // namespace weft::compat
