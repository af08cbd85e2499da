// Socket options: those of SOL_SOCKET, TCP and IPv6 that apply, and those of rsockets.

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/sockets.h"
#include "ulp/rsocket/stream_protocol.h"

namespace weft::rsockets {
namespace {

[[nodiscard]] int number_of(const void* value, socklen_t bytes, int& out) {
  if (value == nullptr || bytes < sizeof out) {
    return compat::refuse(EINVAL, "the option's value is an int");
  }
  std::memcpy(&out, value, sizeof out);
  return 0;
}

int unknown_option() { return compat::refuse(ENOTSUP, "rsockets have no such option"); }

void set_switch(std::uint64_t& switches, int name, bool is_on) {
  const std::uint64_t bit = std::uint64_t{1} << name;
  switches = is_on ? switches | bit : switches & ~bit;
}

[[nodiscard]] int set_socket_option(Socket& socket, int name, const void* value, socklen_t bytes) {
  int number = 0;
  if (number_of(value, bytes, number) != 0) {
    return -1;
  }
  SocketOptions& options = socket.options();
  switch (name) {
    case SO_REUSEADDR:
      set_switch(options.socket_switches, name, number != 0);
      return socket.is_open() ? 0 : socket.set_id_option(RDMA_OPTION_ID_REUSEADDR, number);
    case SO_RCVBUF:
    case SO_SNDBUF: {
      if (number <= 0) {
        return compat::refuse(EINVAL, "a buffer has a positive size");
      }
      std::uint32_t& size = name == SO_RCVBUF ? options.receive_bytes : options.send_bytes;
      if (!socket.is_open()) {
        size = static_cast<std::uint32_t>(std::min(number, 1 << 27)) * 2;  // as sockets do
      }
      return 0;
    }
    case SO_LINGER:
    case SO_KEEPALIVE:  // the daemon detects a dead peer
    case SO_OOBINLINE:
      set_switch(options.socket_switches, name, number != 0);
      return 0;
    default:
      return unknown_option();
  }
}

[[nodiscard]] int set_rdma_option(Socket& socket, int name, const void* value, socklen_t bytes) {
  SocketOptions& options = socket.options();
  if (socket.is_open()) {
    return compat::refuse(EINVAL, "the socket's queues are made when it is connected");
  }
  if (name == RDMA_ROUTE) {
    const auto* const octets = static_cast<const std::byte*>(value);
    options.route.assign(octets, octets + bytes);
    return 0;
  }
  int number = 0;
  if (number_of(value, bytes, number) != 0) {
    return -1;
  }
  const auto size = static_cast<std::uint32_t>(std::clamp(number, 0, 0xFFFE));
  switch (name) {
    case RDMA_SQSIZE:
      options.send_depth = size;
      return 0;
    case RDMA_RQSIZE:
      options.receive_depth = size;
      return 0;
    case RDMA_INLINE:
      options.inline_bytes = size;
      return 0;
    case RDMA_IOMAPSIZE:
      options.io_map_entries = size_of_scale(scale_of_size(std::min(size, 0x7F00U)));
      return 0;
    default:
      return unknown_option();
  }
}

[[nodiscard]] int set_protocol_option(Socket& socket, int level, int name, const void* value,
                                      socklen_t bytes) {
  int number = 0;
  if (number_of(value, bytes, number) != 0) {
    return -1;
  }
  SocketOptions& options = socket.options();
  if (level == IPPROTO_IPV6) {
    if (name != IPV6_V6ONLY) {
      return unknown_option();
    }
    set_switch(options.ip6_switches, name, number != 0);
    return socket.set_id_option(RDMA_OPTION_ID_AFONLY, number);
  }
  switch (name) {
    case TCP_NODELAY:
      set_switch(options.tcp_switches, name, number != 0);
      return 0;
    case TCP_KEEPIDLE:
      options.keep_idle_s = number;
      return number > 0 ? 0 : compat::refuse(EINVAL, "TCP_KEEPIDLE is a number of seconds");
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
    case TCP_MAXSEG:
      return 0;  // the connection is reliable by itself
    default:
      return unknown_option();
  }
}

/// The present value of an int option; -1 after refuse().
[[nodiscard]] int read_option(Socket& socket, int level, int name, int& out) {
  const SocketOptions& options = socket.options();
  const auto is_on = [&](std::uint64_t switches) { return (switches >> name & 1) != 0 ? 1 : 0; };
  const auto as_int = [](std::uint32_t value) { return static_cast<int>(value); };
  switch (level) {
    case SOL_SOCKET:
      switch (name) {
        case SO_REUSEADDR:
        case SO_KEEPALIVE:
        case SO_OOBINLINE:
          out = is_on(options.socket_switches);
          return 0;
        case SO_RCVBUF:
          out = as_int(options.receive_bytes);
          return 0;
        case SO_SNDBUF:
          out = as_int(options.send_bytes);
          return 0;
        case SO_ERROR:
          out = socket.take_error();
          return 0;
        default:
          return unknown_option();
      }
    case IPPROTO_TCP:
      switch (name) {
        case TCP_NODELAY:
          out = is_on(options.tcp_switches);
          return 0;
        case TCP_KEEPIDLE:
          out = options.keep_idle_s;
          return 0;
        case TCP_KEEPCNT:
        case TCP_KEEPINTVL:
          out = 1;
          return 0;
        case TCP_MAXSEG:
          out = socket.segment_bytes();
          return 0;
        default:
          return unknown_option();
      }
    case IPPROTO_IPV6:
      out = is_on(options.ip6_switches);
      return name == IPV6_V6ONLY ? 0 : unknown_option();
    case SOL_RDMA:
      switch (name) {
        case RDMA_SQSIZE:
          out = as_int(options.send_depth);
          return 0;
        case RDMA_RQSIZE:
          out = as_int(options.receive_depth);
          return 0;
        case RDMA_INLINE:
          out = as_int(options.inline_bytes);
          return 0;
        case RDMA_IOMAPSIZE:
          out = as_int(options.io_map_entries);
          return 0;
        default:
          return unknown_option();
      }
    default:
      return unknown_option();
  }
}

}  // namespace

int set_option(Socket& socket, int level, int name, const void* value, socklen_t bytes) {
  switch (level) {
    case SOL_SOCKET:
      return set_socket_option(socket, name, value, bytes);
    case IPPROTO_TCP:
    case IPPROTO_IPV6:
      return set_protocol_option(socket, level, name, value, bytes);
    case SOL_RDMA:
      return set_rdma_option(socket, name, value, bytes);
    default:
      return unknown_option();
  }
}

int get_option(Socket& socket, int level, int name, void* value, socklen_t* bytes) {
  if (level == SOL_SOCKET && name == SO_LINGER) {
    const linger out{.l_onoff = (socket.options().socket_switches >> SO_LINGER & 1) != 0 ? 1 : 0,
                     .l_linger = 0};
    *bytes = std::min<socklen_t>(*bytes, sizeof out);
    std::memcpy(value, &out, *bytes);
    return 0;
  }
  int number = 0;
  if (read_option(socket, level, name, number) != 0) {
    return -1;
  }
  *bytes = std::min<socklen_t>(*bytes, sizeof number);
  std::memcpy(value, &number, *bytes);
  return 0;
}

}  // namespace weft::rsockets
