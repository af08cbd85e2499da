#pragma once

// Conversion of values between the C interface and the daemon's messages. Pure functions.

#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "compat/rdmacm/abi.h"
#include "uabi/messages.h"
#include "verbs/address_vector.h"
#include "verbs/path.h"
#include "verbs/qp_attributes.h"

namespace weft::compat {

/// Size of an address of AF_INET, AF_INET6 or AF_IB; 0 for any other family.
[[nodiscard]] socklen_t length_of(const sockaddr* address);

/// Nullopt for a family that RDMA-CM does not support. A null pointer becomes the unspecified
/// address.
[[nodiscard]] std::optional<uabi::RdmaCmAddress> to_daemon(const sockaddr* address);
/// Does not change `out` if `address` is unspecified.
void from_daemon(const uabi::RdmaCmAddress& address, sockaddr_storage& out);

/// The port in network order, for AF_IB from the service ID; 0 without an address.
[[nodiscard]] __be16 port_of(const sockaddr* address);

/// Structures of the C interface from those of the daemon's messages, and back.
[[nodiscard]] ibv_gid from_daemon(const Gid& gid);
[[nodiscard]] ibv_ah_attr from_daemon(const verbs::AddressVector& vector);
[[nodiscard]] ibv_sa_path_rec from_daemon(const verbs::Path& path, bool is_primary);
/// Nothing for a path of an MTU that does not exist.
[[nodiscard]] std::optional<verbs::Path> to_daemon(const ibv_path_data& path);
[[nodiscard]] ibv_qp_attr from_daemon(const verbs::QpAttributes& attributes);

/// At most as much as an 8-bit length allows.
[[nodiscard]] std::vector<std::byte> private_data(const void* data, std::size_t bytes);

/// An address of any family as the pointer that the C interface takes.
[[nodiscard]] inline const sockaddr* generic(const sockaddr_storage& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

}  // namespace weft::compat
