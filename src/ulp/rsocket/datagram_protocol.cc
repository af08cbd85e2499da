#include "ulp/rsocket/datagram_protocol.h"

#include <algorithm>

namespace weft::rsockets {
namespace {

constexpr std::uint32_t kQpnMask = 0xFF'FFFF;

/// A header of either form, if there are so many octets.
template <class Header>
[[nodiscard]] std::optional<Header> unpacked(std::span<const std::byte> octets) {
  constexpr std::size_t kBytes = wire::kSizeOf<Header>;
  if (octets.size() < kBytes) {
    return std::nullopt;
  }
  const auto header = wire::unpack<Header>(octets.template first<kBytes>());
  return header.version == Header{}.version && header.length == kBytes ? std::optional{header}
                                                                       : std::nullopt;
}

template <class Header>
[[nodiscard]] std::optional<UdpOrigin> origin_of(const Header& header, const IpAddress& address) {
  if (header.tag != kUdpTag ||
      (header.operation != UdpOperation::Data && header.operation != UdpOperation::Control)) {
    return std::nullopt;
  }
  return UdpOrigin{.operation = header.operation,
                   .qpn = header.qpn & kQpnMask,
                   .address = address,
                   .header_bytes = wire::kSizeOf<Header>};
}

template <class Header>
[[nodiscard]] std::size_t write(const Header& header, std::byte* to) {
  const auto octets = wire::pack(header);
  std::ranges::copy(octets, to);
  return octets.size();
}

}  // namespace

std::optional<DatagramOrigin> read_datagram(std::span<const std::byte> octets) {
  if (const auto header = unpacked<DatagramHeader>(octets)) {
    return DatagramOrigin{
        .from = {.address = IpAddress::v4(header->address), .port = header->port},
        .header_bytes = kDatagramHeaderBytes
    };
  }
  if (const auto header = unpacked<DatagramHeader6>(octets)) {
    return DatagramOrigin{
        .from = {.address = IpAddress{header->address}, .port = header->port},
        .header_bytes = kDatagramHeader6Bytes
    };
  }
  return std::nullopt;
}

std::optional<UdpOrigin> read_udp(std::span<const std::byte> octets) {
  if (const auto header = unpacked<UdpHeader>(octets)) {
    return origin_of(*header, IpAddress::v4(header->address));
  }
  if (const auto header = unpacked<UdpHeader6>(octets)) {
    return origin_of(*header, IpAddress{header->address});
  }
  return std::nullopt;
}

std::size_t write_datagram_header(const DatagramName& from, std::byte* to) {
  return from.address.is_v4()
             ? write(DatagramHeader{.port = from.port, .address = from.address.v4_number()}, to)
             : write(DatagramHeader6{.port = from.port, .address = from.address.v6_octets()}, to);
}

std::size_t write_udp_header(UdpOperation operation, std::uint32_t qpn, const IpAddress& from,
                             std::byte* to) {
  return from.is_v4()
             ? write(UdpHeader{.operation = operation, .qpn = qpn, .address = from.v4_number()}, to)
             : write(UdpHeader6{.operation = operation, .qpn = qpn, .address = from.v6_octets()},
                     to);
}

}  // namespace weft::rsockets
