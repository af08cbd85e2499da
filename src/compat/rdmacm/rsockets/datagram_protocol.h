#pragma once

// What datagram sockets say to each other, as rdma-core's do (librdmacm's docs/rsocket). Datagrams
// go from UD QP to UD QP behind a header that names their sender. Who does not know the other's QP
// sends them over UDP, behind a longer header that says its own; the other answers with such a
// header alone. Both in network order; addresses are IPv4's.

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/layout.h"

namespace weft::rsockets {

inline constexpr std::uint8_t kIpVersion = 4;

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

/// What a receive buffer holds, both headers of the socket included; rdma-core's.
inline constexpr std::size_t kDatagramSlotBytes = 2'048;
/// The longest datagram that fits one either way.
inline constexpr std::size_t kMostDatagramBytes = kDatagramSlotBytes - kUdpHeaderBytes;

/// Nothing if these octets are no datagram of a QP's.
[[nodiscard]] inline std::optional<DatagramHeader> read_datagram(
    std::span<const std::byte> octets) {
  if (octets.size() < kDatagramHeaderBytes) {
    return std::nullopt;
  }
  const auto header = wire::unpack<DatagramHeader>(octets.first<kDatagramHeaderBytes>());
  const bool is_ours = header.version == kIpVersion && header.length == kDatagramHeaderBytes;
  return is_ours ? std::optional{header} : std::nullopt;
}

/// Nothing if these octets came over UDP from somebody who is no rsocket.
[[nodiscard]] inline std::optional<UdpHeader> read_udp(std::span<const std::byte> octets) {
  if (octets.size() < kUdpHeaderBytes) {
    return std::nullopt;
  }
  auto header = wire::unpack<UdpHeader>(octets.first<kUdpHeaderBytes>());
  const bool is_ours =
      header.tag == kUdpTag && header.version == kIpVersion && header.length == kUdpHeaderBytes &&
      (header.operation == UdpOperation::Data || header.operation == UdpOperation::Control);
  header.qpn &= 0xFF'FFFF;
  return is_ours ? std::optional{header} : std::nullopt;
}

}  // namespace weft::rsockets
