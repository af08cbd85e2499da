#pragma once

// What datagram sockets say to each other, as rdma-core's do (librdmacm's docs/rsocket). Datagrams
// go from UD QP to UD QP behind a header that names their sender. Who does not know the other's QP
// sends them over UDP, behind a longer header that says its own; the other answers with such a
// header alone. Both in network order, and of two forms: their version is their address's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ulp/rsocket/datagram_name.h"
#include "wire/layout.h"

namespace weft::rsockets {

inline constexpr std::uint8_t kIpVersion = 4;
inline constexpr std::uint8_t kIp6Version = 6;

/// Before each datagram between QPs: where it comes from.
struct DatagramHeader {
  std::uint8_t version{kIpVersion};
  std::uint8_t length{8};  // of this header
  std::uint16_t port{};
  std::uint32_t address{};
  bool operator==(const DatagramHeader&) const = default;
  // clang-format off
  using Wire = wire::Layout<8,
      wire::Field<"Version",  8, &DatagramHeader::version>,
      wire::Field<"Length",   8, &DatagramHeader::length>,
      wire::Field<"Port",    16, &DatagramHeader::port>,
      wire::Field<"Address", 32, &DatagramHeader::address>>;
  // clang-format on
};
inline constexpr std::size_t kDatagramHeaderBytes = wire::kSizeOf<DatagramHeader>;

struct DatagramHeader6 {
  std::uint8_t version{kIp6Version};
  std::uint8_t length{24};
  std::uint16_t port{};
  std::uint32_t flow_info{};
  IpAddress::V6Octets address{};
  bool operator==(const DatagramHeader6&) const = default;
  // clang-format off
  using Wire = wire::Layout<24,
      wire::Field<"Version",  8, &DatagramHeader6::version>,
      wire::Field<"Length",   8, &DatagramHeader6::length>,
      wire::Field<"Port",    16, &DatagramHeader6::port>,
      wire::Field<"FlowInfo", 32, &DatagramHeader6::flow_info>,
      wire::Octets<"Address", 16, &DatagramHeader6::address>>;
  // clang-format on
};
inline constexpr std::size_t kDatagramHeader6Bytes = wire::kSizeOf<DatagramHeader6>;

inline constexpr std::uint32_t kUdpTag = 0x5555'5555;
enum class UdpOperation : std::uint8_t {
  Data = 0,     // a datagram follows
  Control = 7,  // the QPN alone
};

/// Before what goes over UDP.
struct UdpHeader {
  std::uint32_t tag{kUdpTag};
  std::uint8_t version{kIpVersion};
  UdpOperation operation{};
  std::uint8_t length{16};  // of this header
  std::uint32_t qpn{};      // of who sends it, in the lower 24 bits
  std::uint32_t address{};  // of who sends it
  bool operator==(const UdpHeader&) const = default;
  // clang-format off
  using Wire = wire::Layout<16,
      wire::Field<"Tag",       32, &UdpHeader::tag>,
      wire::Field<"Version",    8, &UdpHeader::version>,
      wire::Field<"Operation",  8, &UdpHeader::operation>,
      wire::Field<"Length",     8, &UdpHeader::length>,
      wire::Reserved<8>,
      wire::Field<"Qpn",       32, &UdpHeader::qpn>,
      wire::Field<"Address",   32, &UdpHeader::address>>;
  // clang-format on
};
inline constexpr std::size_t kUdpHeaderBytes = wire::kSizeOf<UdpHeader>;

struct UdpHeader6 {
  std::uint32_t tag{kUdpTag};
  std::uint8_t version{kIp6Version};
  UdpOperation operation{};
  std::uint8_t length{28};
  std::uint32_t qpn{};
  IpAddress::V6Octets address{};
  bool operator==(const UdpHeader6&) const = default;
  // clang-format off
  using Wire = wire::Layout<28,
      wire::Field<"Tag",       32, &UdpHeader6::tag>,
      wire::Field<"Version",    8, &UdpHeader6::version>,
      wire::Field<"Operation",  8, &UdpHeader6::operation>,
      wire::Field<"Length",     8, &UdpHeader6::length>,
      wire::Reserved<8>,
      wire::Field<"Qpn",       32, &UdpHeader6::qpn>,
      wire::Octets<"Address",  16, &UdpHeader6::address>>;
  // clang-format on
};
inline constexpr std::size_t kUdpHeader6Bytes = wire::kSizeOf<UdpHeader6>;

/// What a receive buffer holds, both headers of the socket included; rdma-core's.
inline constexpr std::size_t kDatagramSlotBytes = 2'048;
/// The longest datagram that fits one either way, from an address of IPv4 and of IPv6.
inline constexpr std::size_t kMaxDatagramBytes = kDatagramSlotBytes - kUdpHeaderBytes;
inline constexpr std::size_t kMaxDatagram6Bytes = kDatagramSlotBytes - kUdpHeader6Bytes;

/// What the header of a QP's datagram says.
struct DatagramOrigin {
  DatagramName from;
  std::size_t header_bytes{};
  bool operator==(const DatagramOrigin&) const = default;
};

/// What the header of a UDP message says.
struct UdpOrigin {
  UdpOperation operation{};
  std::uint32_t qpn{};
  IpAddress address;
  std::size_t header_bytes{};
  bool operator==(const UdpOrigin&) const = default;
};

/// Nothing if these octets are no datagram of a QP's.
[[nodiscard]] std::optional<DatagramOrigin> read_datagram(std::span<const std::byte> octets);

/// Nothing if these octets came over UDP from somebody who is no rsocket.
[[nodiscard]] std::optional<UdpOrigin> read_udp(std::span<const std::byte> octets);

/// Both return how many octets the header has; a slot has room for either.
[[nodiscard]] std::size_t write_datagram_header(const DatagramName& from, std::byte* to);
[[nodiscard]] std::size_t write_udp_header(UdpOperation operation, std::uint32_t qpn,
                                           const IpAddress& from, std::byte* to);

}  // namespace weft::rsockets
