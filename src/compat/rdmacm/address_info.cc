// rdma_getaddrinfo(3): names and services to addresses, QP type and port space.

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "compat/rdmacm/address_request.h"
#include "compat/rdmacm/later.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

[[nodiscard]] int out_of_memory() { return refuse(ENOMEM, "no memory for address information"); }

/// Copies to memory of malloc(), which rdma_freeaddrinfo() frees. Returns 0, or -1 after refuse().
[[nodiscard]] int copy(const void* from, std::size_t bytes, void** to) {
  if (from == nullptr || bytes == 0) {
    return 0;
  }
  *to = std::malloc(bytes);
  if (*to == nullptr) {
    return out_of_memory();
  }
  std::memcpy(*to, from, bytes);
  return 0;
}

[[nodiscard]] int copy(const sockaddr* from, socklen_t bytes, sockaddr** to, socklen_t* to_bytes) {
  void* memory = nullptr;
  if (copy(from, bytes, &memory) != 0) {
    return -1;
  }
  *to = static_cast<sockaddr*>(memory);
  *to_bytes = memory == nullptr ? 0 : bytes;
  return 0;
}

/// The socket type that corresponds to a QP type and port space.
[[nodiscard]] int socket_type_of(int qp_type) {
  switch (qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return SOCK_STREAM;
    case IBV_QPT_UD:
      return SOCK_DGRAM;
    default:
      return 0;
  }
}

[[nodiscard]] int protocol_of(int port_space, int socket_type) {
  switch (port_space) {
    case RDMA_PS_TCP:
      return IPPROTO_TCP;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      return IPPROTO_UDP;
    case RDMA_PS_IB:
      return socket_type == SOCK_STREAM ? int{IPPROTO_TCP}
                                        : (socket_type == SOCK_DGRAM ? int{IPPROTO_UDP} : 0);
    default:
      return 0;
  }
}

[[nodiscard]] addrinfo question_of(const rdma_addrinfo& hints) {
  addrinfo out{};
  out.ai_flags = ((hints.ai_flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0) |
                 ((hints.ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
  out.ai_family = hints.ai_family == AF_IB ? AF_UNSPEC : hints.ai_family;
  out.ai_socktype = socket_type_of(hints.ai_qp_type);
  out.ai_protocol = protocol_of(hints.ai_port_space, out.ai_socktype);
  return out;
}

/// Converts a numeric IPv6 address that is meant as a GID.
[[nodiscard]] sockaddr_ib as_gid(const addrinfo& found, int port_space) {
  sockaddr_in6 from{};
  std::memcpy(&from, found.ai_addr, sizeof from);
  const auto space = static_cast<std::uint64_t>(port_space);
  const std::uint64_t port = be16toh(from.sin6_port);
  sockaddr_ib out{};
  out.sib_family = AF_IB;
  out.sib_pkey = htobe16(0xFFFF);
  out.sib_flowinfo = from.sin6_flowinfo;
  std::memcpy(&out.sib_addr, &from.sin6_addr, sizeof out.sib_addr);
  out.sib_sid = htobe64(space << 16 | port);
  out.sib_sid_mask =
      htobe64((space != 0 ? RDMA_IB_IP_PS_MASK : 0) | (port != 0 ? RDMA_IB_IP_PORT_MASK : 0));
  out.sib_scope_id = from.sin6_scope_id;
  return out;
}

[[nodiscard]] bool wants_gid(const rdma_addrinfo& hints) {
  return (hints.ai_flags & RAI_FAMILY) != 0 && hints.ai_family == AF_IB &&
         (hints.ai_flags & RAI_NUMERICHOST) != 0;
}

/// Takes over the first result of getaddrinfo(3). Returns 0, or -1 after refuse().
[[nodiscard]] int take(rdma_addrinfo& out, const rdma_addrinfo& hints, const addrinfo& found) {
  const bool is_datagram = found.ai_socktype == SOCK_DGRAM;
  const bool is_udp = found.ai_protocol == IPPROTO_UDP;
  out.ai_qp_type =
      hints.ai_qp_type != 0 ? hints.ai_qp_type : (is_datagram ? IBV_QPT_UD : IBV_QPT_RC);
  out.ai_port_space =
      hints.ai_port_space != 0 ? hints.ai_port_space : (is_udp ? RDMA_PS_UDP : RDMA_PS_TCP);
  const bool is_passive = (found.ai_flags & AI_PASSIVE) != 0;
  out.ai_flags = is_passive ? RAI_PASSIVE : 0;
  char*& name = is_passive ? out.ai_src_canonname : out.ai_dst_canonname;
  name = found.ai_canonname == nullptr ? nullptr : strdup(found.ai_canonname);
  sockaddr** const address = is_passive ? &out.ai_src_addr : &out.ai_dst_addr;
  socklen_t* const bytes = is_passive ? &out.ai_src_len : &out.ai_dst_len;
  if (wants_gid(hints) && found.ai_family == AF_INET6) {
    const sockaddr_ib gid = as_gid(found, out.ai_port_space);
    out.ai_family = AF_IB;
    return copy(static_cast<const sockaddr*>(static_cast<const void*>(&gid)), sizeof gid, address,
                bytes);
  }
  out.ai_family = found.ai_family;
  return copy(found.ai_addr, found.ai_addrlen, address, bytes);
}

/// Resolves name or service. Returns 0, -1 after refuse(), or an error of getaddrinfo(3), which
/// rdma_getaddrinfo() returns unchanged.
[[nodiscard]] int look_up(const char* node, const char* service, const rdma_addrinfo* hints,
                          rdma_addrinfo& out) {
  static constexpr rdma_addrinfo kNone{};
  const addrinfo question = question_of(hints == nullptr ? kNone : *hints);
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(node, service, hints == nullptr ? nullptr : &question, &found)) {
    refuse(errno, gai_strerror(error));
    return error;
  }
  const int taken = take(out, hints == nullptr ? kNone : *hints, *found);
  freeaddrinfo(found);
  return taken;
}

/// Without a name, uses the addresses and the family of the hints.
[[nodiscard]] int take_hints(const rdma_addrinfo& hints, rdma_addrinfo& out) {
  out.ai_flags = hints.ai_flags;
  out.ai_family = hints.ai_family;
  out.ai_qp_type = hints.ai_qp_type;
  out.ai_port_space = hints.ai_port_space;
  if (out.ai_family == AF_UNSPEC && hints.ai_dst_len != 0) {
    out.ai_family = hints.ai_dst_addr->sa_family;
  } else if (out.ai_family == AF_UNSPEC && hints.ai_src_len != 0) {
    out.ai_family = hints.ai_src_addr->sa_family;
  }
  return copy(hints.ai_dst_addr, hints.ai_dst_len, &out.ai_dst_addr, &out.ai_dst_len);
}

/// Copies a route and private data that the program supplied.
[[nodiscard]] int take_more(const rdma_addrinfo& hints, rdma_addrinfo& out) {
  if (out.ai_src_len == 0 &&
      copy(hints.ai_src_addr, hints.ai_src_len, &out.ai_src_addr, &out.ai_src_len) != 0) {
    return -1;
  }
  if (copy(hints.ai_route, hints.ai_route_len, &out.ai_route) != 0 ||
      copy(hints.ai_connect, hints.ai_connect_len, &out.ai_connect) != 0) {
    return -1;
  }
  out.ai_route_len = out.ai_route == nullptr ? 0 : hints.ai_route_len;
  out.ai_connect_len = out.ai_connect == nullptr ? 0 : hints.ai_connect_len;
  return 0;
}

[[nodiscard]] Information new_information() {
  return Information{static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)))};
}

}  // namespace

Information copy_of(const rdma_addrinfo& hints) {
  Information made = new_information();
  if (made == nullptr) {
    static_cast<void>(out_of_memory());
    return nullptr;
  }
  if (take_hints(hints, *made) != 0 || take_more(hints, *made) != 0) {
    return nullptr;
  }
  made->ai_family = hints.ai_family;
  return made;
}

}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                                 rdma_addrinfo** out) {
  if (node == nullptr && service == nullptr && hints == nullptr) {
    return refuse(EINVAL, "neither a name nor a service nor hints were given");
  }
  const int flags = hints == nullptr ? 0 : hints->ai_flags;
  if ((flags & kFromSa) != 0) {
    return node != nullptr || service == nullptr || (flags & kFromDns) != 0
               ? refuse(EOPNOTSUPP, "RAI_SA takes a service, no node, and not RAI_DNS")
               : look_for_service(service, out);
  }
  Information made = new_information();
  if (made == nullptr) {
    return out_of_memory();
  }
  const bool has_name = node != nullptr || service != nullptr;
  if (const int error =
          has_name ? look_up(node, service, hints, *made) : take_hints(*hints, *made)) {
    return error;
  }
  if (hints != nullptr && take_more(*hints, *made) != 0) {
    return -1;
  }
  *out = made.release();
  return 0;
}

WEFT_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* information) {
  while (information != nullptr) {
    rdma_addrinfo* const next = information->ai_next;
    std::free(information->ai_connect);
    std::free(information->ai_route);
    std::free(information->ai_src_canonname);
    std::free(information->ai_dst_canonname);
    std::free(information->ai_src_addr);
    std::free(information->ai_dst_addr);
    std::free(information);
    information = next;
  }
}

}  // extern "C"
