#include "programs/net/tun.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace weft::programs::net {
namespace {

/// Policy: packets that the host has sent and nobody has read. A TUN drops what is beyond, and does
/// not hold the host's TCP back as other interfaces do, since it forgets whose a packet is when it
/// takes it; so a TCP window has to fit, and Linux's 500 do not hold that.
constexpr std::uint32_t kQueue = 4'096;

/// `struct virtio_net_hdr` (virtio 1.2 §5.1.6), here of the machine's byte order (tuntap.rst:
/// unless TUNSETVNETLE is asked). Linux's own header of it is none for C++.
struct PacketHeader {
  std::uint8_t flags;
  std::uint8_t gso_type;
  std::uint16_t hdr_len;
  std::uint16_t gso_size;
  std::uint16_t csum_start;
  std::uint16_t csum_offset;
};
static_assert(sizeof(PacketHeader) == 10);
constexpr std::uint8_t kNeedsChecksum = 1;  // VIRTIO_NET_HDR_F_NEEDS_CSUM
// VIRTIO_NET_HDR_GSO_
constexpr std::uint8_t kGsoTcpIpv4 = 1;
constexpr std::uint8_t kGsoTcpIpv6 = 4;
constexpr std::uint8_t kGsoEcn = 0x80;  // ored

[[nodiscard]] offload::Offload offload_of(const PacketHeader& header) {
  offload::Offload offload{.needs_checksum = (header.flags & kNeedsChecksum) != 0,
                           .header_bytes = header.hdr_len,
                           .segment_bytes = header.gso_size,
                           .checksum_start = header.csum_start,
                           .checksum_at = header.csum_offset};
  switch (header.gso_type & ~kGsoEcn) {
    case kGsoTcpIpv4:
      offload.segments = offload::Segments::TcpIpv4;
      break;
    case kGsoTcpIpv6:
      offload.segments = offload::Segments::TcpIpv6;
      break;
    default:
      break;
  }
  return offload;
}

[[nodiscard]] PacketHeader header_of(const offload::Offload& offload) {
  PacketHeader header{};
  if (offload.needs_checksum) {
    header.flags = kNeedsChecksum;
    header.csum_start = offload.checksum_start;
    header.csum_offset = offload.checksum_at;
  }
  if (offload.segments != offload::Segments::One) {
    header.gso_type = offload.segments == offload::Segments::TcpIpv4 ? kGsoTcpIpv4 : kGsoTcpIpv6;
    header.hdr_len = offload.header_bytes;
    header.gso_size = offload.segment_bytes;
  }
  return header;
}

[[nodiscard]] ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return request;
}

[[nodiscard]] std::unexpected<Error> refused(const std::string& what) {
  const int error = errno;
  if (error == EPERM || error == EACCES) {
    return fail(ErrorCode::PermissionDenied,
                "{}: {}; in a container, /dev/net/tun must be allowed (docker run --device "
                "/dev/net/tun)",
                what, std::strerror(error));
  }
  return fail(error == EEXIST || error == EBUSY ? ErrorCode::Exists : ErrorCode::Io, "{}: {}", what,
              std::strerror(error));
}

/// Interfaces are set by ioctls of any socket of the family (netdevice(7)).
[[nodiscard]] Result<void> set(int family, unsigned long what, void* request,
                               const std::string& words) {
  const os::UniqueFd socket{::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!socket || ioctl(socket.get(), what, request) != 0) {
    return refused(words);
  }
  return {};
}

/// An attribute of rtnetlink(7) with four octets.
struct Attribute {
  rtattr header;
  std::uint32_t value;
};

[[nodiscard]] Attribute attribute_of(std::uint16_t type, std::uint32_t value) {
  return {
      .header = {.rta_len = RTA_LENGTH(sizeof value), .rta_type = type},
        .value = value
  };
}

/// A request of rtnetlink(7), or its first `bytes`.
template <class Request>
[[nodiscard]] Result<void> ask_kernel(Request& request, std::size_t bytes,
                                      const std::string& words) {
  request.header.nlmsg_len = static_cast<std::uint32_t>(bytes);
  request.header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
  struct {
    nlmsghdr header;
    nlmsgerr error;
  } answer{};
  const os::UniqueFd socket{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
  if (!socket || send(socket.get(), &request, bytes, 0) < 0 ||
      recv(socket.get(), &answer, sizeof answer, 0) < static_cast<ssize_t>(sizeof answer)) {
    return refused(words);
  }
  errno = -answer.error.error;
  return errno == 0 ? Result<void>{} : refused(words);
}

/// The ioctl of this wants root of the machine.
[[nodiscard]] Result<void> set_queue(const std::string& name) {
  struct {
    nlmsghdr header;
    ifinfomsg interface;
    Attribute length;
  } request{};
  request.header.nlmsg_type = RTM_NEWLINK;
  request.interface.ifi_index = static_cast<int>(if_nametoindex(name.c_str()));
  request.length = attribute_of(IFLA_TXQLEN, kQueue);
  return ask_kernel(request, sizeof request, name + ": transmit queue");
}

/// The ioctl of this would take the place of the address that the interface has.
[[nodiscard]] Result<void> add_ipv4_address(const std::string& name, TunKind kind,
                                            const InterfaceAddress& address) {
  struct {
    nlmsghdr header;
    ifaddrmsg interface;
    Attribute local;
    Attribute broadcast;
  } request{};
  const std::uint32_t number = address.address.v4_number();
  request.header.nlmsg_type = RTM_NEWADDR;
  request.header.nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE;
  request.interface.ifa_family = AF_INET;
  request.interface.ifa_prefixlen = address.prefix_bits;
  request.interface.ifa_index = if_nametoindex(name.c_str());
  request.local = attribute_of(IFA_LOCAL, htonl(number));
  const bool has_broadcast =
      kind == TunKind::Ethernet && address.prefix_bits < 31;  // others have none (RFC 3021 §2.2)
  request.broadcast =
      attribute_of(IFA_BROADCAST, htonl(has_broadcast ? number | ~0U >> address.prefix_bits : 0));
  return ask_kernel(request, sizeof request - (has_broadcast ? 0 : sizeof request.broadcast),
                    name + ": " + to_string(address));
}

[[nodiscard]] Result<void> add_address(const std::string& name, TunKind kind,
                                       const InterfaceAddress& address) {
  if (address.address.is_v4()) {
    return add_ipv4_address(name, kind, address);
  }
  const std::string words = name + ": " + to_string(address);
  ifreq request = request_for(name);
  if (auto known = set(AF_INET6, SIOCGIFINDEX, &request, words); !known) {
    return known;
  }
  in6_ifreq request6{};
  const auto octets = address.address.v6_octets();
  std::memcpy(&request6.ifr6_addr, octets.data(), octets.size());
  request6.ifr6_prefixlen = address.prefix_bits;
  request6.ifr6_ifindex = request.ifr_ifindex;
  return set(AF_INET6, SIOCSIFADDR, &request6, words);
}

}  // namespace

Result<Tun> Tun::make(const std::string& name, TunKind kind) {
  os::UniqueFd fd{open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)};
  if (!fd) {
    return refused("/dev/net/tun");
  }
  ifreq request = request_for(name);
  request.ifr_flags =
      static_cast<short>((kind == TunKind::Ip ? IFF_TUN : IFF_TAP) | IFF_NO_PI | IFF_VNET_HDR);
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) {
    return refused("interface " + name);
  }
  // A kernel that refuses this leaves nothing to the interface, and sends no less.
  ioctl(fd.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN);
  if (auto done = set_queue(name); !done) {
    return std::unexpected(std::move(done.error()));
  }
  return Tun{std::move(fd), name, kind};
}

Result<void> Tun::bring_up(std::uint32_t mtu, std::span<const InterfaceAddress> addresses) {
  if (kind_ == TunKind::Ip) {
    // Its link-local address is among `addresses`: one that the kernel chose, neighbours could not
    // ask for. 1 is IN6_ADDR_GEN_MODE_NONE.
    std::ofstream{"/proc/sys/net/ipv6/conf/" + name_ + "/addr_gen_mode"} << 1;
  }
  if (auto done = set_mtu(mtu); !done) {
    return done;
  }
  ifreq request = request_for(name_);
  if (auto done = set(AF_INET, SIOCGIFFLAGS, &request, name_); !done) {
    return done;
  }
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (auto done = set(AF_INET, SIOCSIFFLAGS, &request, name_); !done) {
    return done;
  }
  for (const InterfaceAddress& address : addresses) {
    if (auto done = add_address(name_, kind_, address); !done) {
      return done;
    }
  }
  return {};
}

Result<void> Tun::set_mtu(std::uint32_t mtu) {
  ifreq request = request_for(name_);
  request.ifr_mtu = static_cast<int>(mtu);
  return set(AF_INET, SIOCSIFMTU, &request, name_ + ": MTU " + std::to_string(mtu));
}

Result<void> Tun::set_mac(const wire::MacAddress& mac) {
  ifreq request = request_for(name_);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.octets().data(), wire::MacAddress::kSize);
  return set(AF_INET, SIOCSIFHWADDR, &request, name_ + ": link address");
}

void Tun::set_carrier(bool is_on) {
  int carrier = is_on ? 1 : 0;
  ioctl(fd_.get(), TUNSETCARRIER, &carrier);  // older kernels have none: then it stays on
}

std::optional<Tun::Sent> Tun::read(MutableByteSpan buffer) {
  PacketHeader header{};
  const std::array<iovec, 2> pieces{
      {{.iov_base = &header, .iov_len = sizeof header},
       {.iov_base = buffer.data(), .iov_len = buffer.size()}}
  };
  const ssize_t bytes = readv(fd_.get(), pieces.data(), pieces.size());
  if (bytes <= static_cast<ssize_t>(sizeof header)) {
    return std::nullopt;
  }
  return Sent{.offload = offload_of(header),
              .packet = buffer.first(static_cast<std::size_t>(bytes) - sizeof header)};
}

bool Tun::write(const offload::Offload& offload, ByteSpan packet) {
  PacketHeader header = header_of(offload);
  const std::array<iovec, 2> pieces{
      {{.iov_base = &header, .iov_len = sizeof header},
       {.iov_base = const_cast<std::byte*>(packet.data()), .iov_len = packet.size()}}
  };
  return writev(fd_.get(), pieces.data(), pieces.size()) ==
         static_cast<ssize_t>(sizeof header + packet.size());
}

}  // namespace weft::programs::net
