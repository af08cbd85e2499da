#pragma once

// A TUN interface (Linux Documentation/networking/tuntap.rst) in the network namespace of this
// process. It lives as long as the process has it open. Not thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::programs::net {

class Tun {
 public:
  /// Makes it, down, with addresses. PermissionDenied and NotFound: the reason says what is
  /// missing. Exists: somebody has an interface of this name.
  [[nodiscard]] static Result<Tun> make(const std::string& name);

  /// Up, with the MTU and the addresses, whose routes the kernel makes.
  [[nodiscard]] Result<void> bring_up(std::uint32_t mtu,
                                      std::span<const InterfaceAddress> addresses);
  [[nodiscard]] Result<void> set_mtu(std::uint32_t mtu);
  /// LOWER_UP, as the link is.
  void set_carrier(bool is_on);

  /// Becomes readable when the host sends.
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The host's next packet, in `buffer`; none: there is none now.
  [[nodiscard]] std::optional<ByteSpan> read(MutableByteSpan buffer);
  /// A packet for the host. False: it takes none now, or not this one.
  bool write(ByteSpan packet);

 private:
  Tun(os::UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  os::UniqueFd fd_;
  std::string name_;
};

}  // namespace weft::programs::net
