#pragma once

// A TUN or TAP interface (Linux Documentation/networking/tuntap.rst) in the network namespace of
// this process, to which the host's IP stack leaves checksums and TCP segments (ulp/offload). It
// lives as long as the process has it open. Not thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "os/unique_fd.h"
#include "ulp/offload/offload.h"
#include "wire/mac_address.h"

namespace weft::programs::net {

enum class TunKind : std::uint8_t {
  Ip,        ///< a TUN, of IP packets
  Ethernet,  ///< a TAP, of frames without FCS
};

class Tun {
 public:
  /// Makes it, down, with addresses. PermissionDenied and NotFound: the reason says what is
  /// missing. Exists: somebody has an interface of this name.
  [[nodiscard]] static Result<Tun> make(const std::string& name, TunKind kind = TunKind::Ip);

  /// Up, with the MTU and the addresses, whose routes the kernel makes.
  [[nodiscard]] Result<void> bring_up(std::uint32_t mtu,
                                      std::span<const InterfaceAddress> addresses);
  [[nodiscard]] Result<void> set_mtu(std::uint32_t mtu);
  /// Of a TAP.
  [[nodiscard]] Result<void> set_mac(const wire::MacAddress& mac);
  [[nodiscard]] const std::string& name() const { return name_; }
  /// LOWER_UP, as the link is.
  void set_carrier(bool is_on);

  /// Becomes readable when the host sends.
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// What the host leaves to do, and the packet, in the caller's buffer.
  struct Sent {
    offload::Offload offload{};
    MutableByteSpan packet{};
  };
  /// Policy: a buffer of this size holds what any one read gives.
  static constexpr std::size_t kLongestPacket = 66'000;
  /// The host's next packet, in `buffer`; none: there is none now.
  [[nodiscard]] std::optional<Sent> read(MutableByteSpan buffer);
  /// A packet for the host, which may be several as one. False: it takes none now, or not this one.
  bool write(const offload::Offload& offload, ByteSpan packet);

 private:
  Tun(os::UniqueFd fd, std::string name, TunKind kind)
      : fd_(std::move(fd)), name_(std::move(name)), kind_(kind) {}

  os::UniqueFd fd_;
  std::string name_;
  TunKind kind_;
};

}  // namespace weft::programs::net
