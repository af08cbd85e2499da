// TCP over loopback for the programs of this folder: blocking, and bounded in time by kWaitLimit.
// A call that fails ends the program with its reason: these are measurements, there is nothing to
// save.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace weft::bench {

constexpr int kWaitLimitSeconds = 30;  // policy: what takes longer is stuck

[[noreturn]] inline void fail(const char* what, int error = errno) {
  std::fprintf(stderr, "%s: %s\n", what, error == 0 ? "wrong" : std::strerror(error));
  std::_Exit(1);  // other threads may be at work
}

inline void require(bool right, const char* what) {
  if (!right) {
    fail(what);
  }
}

/// The same for a call that returns its error number.
inline void require_zero(int error, const char* what) {
  if (error != 0) {
    fail(what, error);
  }
}

inline void set_wait_limit(int descriptor) {
  const timeval patience{.tv_sec = kWaitLimitSeconds, .tv_usec = 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    setsockopt(descriptor, SOL_SOCKET, option, &patience, sizeof(patience));
  }
}

/// Closed at its end.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {
    require(descriptor_ >= 0, "socket");
    set_wait_limit(descriptor_);
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(descriptor_); }

  [[nodiscard]] int descriptor() const { return descriptor_; }

  void send(std::span<const std::byte> octets) const {
    while (!octets.empty()) {
      const ssize_t sent = ::send(descriptor_, octets.data(), octets.size(), MSG_NOSIGNAL);
      require(sent > 0, "send");
      octets = octets.subspan(static_cast<std::size_t>(sent));
    }
  }

  /// At least one octet, or none when the other side has sent its last.
  [[nodiscard]] std::size_t receive_some(std::span<std::byte> octets) const {
    const ssize_t received = recv(descriptor_, octets.data(), octets.size(), 0);
    require(received >= 0, "receive");
    return static_cast<std::size_t>(received);
  }

  void receive(std::span<std::byte> octets) const {
    while (!octets.empty()) {
      const std::size_t received = receive_some(octets);
      if (received == 0) {
        fail("receive: the other side ended", ECONNRESET);
      }
      octets = octets.subspan(received);
    }
  }

  /// Native memory: both sides are programs of one machine.
  template <class Value>
  void send_value(const Value& value) const {
    send(std::as_bytes(std::span<const Value, 1>(&value, 1)));
  }
  template <class Value>
  [[nodiscard]] Value receive_value() const {
    Value value{};
    receive(std::as_writable_bytes(std::span<Value, 1>(&value, 1)));
    return value;
  }

 private:
  int descriptor_;
};

[[nodiscard]] inline sockaddr_in address_of(const char* address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  require(inet_pton(AF_INET, address, &result.sin_addr) == 1, "address");
  return result;
}

/// Of every address of the loopback device, 127.77.x.y among them; port 0 leaves the choice to the
/// kernel.
[[nodiscard]] inline int listen_on_loopback(std::uint16_t port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const char device[] = "lo";
  const sockaddr_in any = address_of("0.0.0.0", port);
  require(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0, "reuse address");
  require(setsockopt(listener, SOL_SOCKET, SO_BINDTODEVICE, device, sizeof(device)) == 0,
          "bind to the loopback device");
  require(bind(listener, std::bit_cast<const sockaddr*>(&any), sizeof(any)) == 0, "bind");
  require(listen(listener, 1) == 0, "listen");
  set_wait_limit(listener);
  return listener;
}

[[nodiscard]] inline int connect_to(const char* address, std::uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in peer = address_of(address, port);
  require(connect(descriptor, std::bit_cast<const sockaddr*>(&peer), sizeof(peer)) == 0, "connect");
  return descriptor;
}

}  // namespace weft::bench
