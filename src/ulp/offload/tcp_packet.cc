#include "ulp/offload/tcp_packet.h"

#include <algorithm>
#include <span>

#include "base/internet_checksum.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::offload {
namespace {

using wire::Ipv4;
using wire::Ipv6;
using wire::kSizeOf;
using wire::Tcp;

constexpr std::size_t kIpv4Bytes = kSizeOf<Ipv4>;
constexpr std::size_t kIpv6Bytes = kSizeOf<Ipv6>;
constexpr std::size_t kDword = 4;
// Of the headers' layouts.
constexpr std::size_t kIpv4Addresses = 12;
constexpr std::size_t kIpv6Addresses = 8;

/// Whether TCP is behind the IP header.
[[nodiscard]] bool has_tcp(ByteSpan network, bool is_ipv6) {
  if (is_ipv6) {
    const auto ip = wire::parse<Ipv6>(network);
    return ip && ip->version == 6 && ip->next_header == wire::kProtocolTcp;
  }
  const auto ip = wire::parse<Ipv4>(network);
  return ip && ip->version == 4 && ip->header_dwords * kDword == kIpv4Bytes &&
         ip->protocol == wire::kProtocolTcp && !ip->more_fragments && ip->fragment_offset == 0;
}

template <class Header>
void put(MutableByteSpan packet, std::size_t at, const Header& header) {
  wire::pack(header, packet.subspan(at).first<kSizeOf<Header>>());
}

}  // namespace

std::optional<TcpPacket> parse_tcp(ByteSpan packet, std::size_t network_at) {
  if (packet.size() <= network_at) {
    return std::nullopt;
  }
  const ByteSpan network = packet.subspan(network_at);
  const bool is_ipv6 = std::to_integer<unsigned>(network.front()) >> 4 == 6;
  if (!has_tcp(network, is_ipv6)) {
    return std::nullopt;
  }
  const std::size_t ip_bytes = is_ipv6 ? kIpv6Bytes : kIpv4Bytes;
  const auto tcp = wire::parse<Tcp>(network.subspan(ip_bytes));
  if (!tcp || tcp->header_dwords * kDword < kSizeOf<Tcp> ||
      ip_bytes + tcp->header_dwords * kDword > network.size()) {
    return std::nullopt;
  }
  return TcpPacket{.is_ipv6 = is_ipv6,
                   .network_at = network_at,
                   .transport_at = network_at + ip_bytes,
                   .data_at = network_at + ip_bytes + tcp->header_dwords * kDword,
                   .tcp = *tcp};
}

std::size_t told_bytes(ByteSpan packet, const TcpPacket& at) {
  const ByteSpan network = packet.subspan(at.network_at);
  return at.is_ipv6 ? kIpv6Bytes + wire::unpack<Ipv6>(network.first<kIpv6Bytes>()).payload_length
                    : wire::unpack<Ipv4>(network.first<kIpv4Bytes>()).total_length;
}

void set_lengths(MutableByteSpan packet, const TcpPacket& at, std::uint16_t identification) {
  const MutableByteSpan network = packet.subspan(at.network_at);
  if (at.is_ipv6) {
    auto ip = wire::unpack<Ipv6>(network.first<kIpv6Bytes>());
    ip.payload_length = static_cast<std::uint16_t>(network.size() - kIpv6Bytes);
    put(network, 0, ip);
    return;
  }
  auto ip = wire::unpack<Ipv4>(network.first<kIpv4Bytes>());
  ip.total_length = static_cast<std::uint16_t>(network.size());
  ip.identification = identification;
  ip.checksum = 0;
  ip.checksum = internet_checksum(ByteSpan{wire::pack(ip)});
  put(network, 0, ip);
}

std::uint16_t identification_of(ByteSpan packet, const TcpPacket& at) {
  return at.is_ipv6
             ? std::uint16_t{}
             : wire::unpack<Ipv4>(packet.subspan(at.network_at).first<kIpv4Bytes>()).identification;
}

std::uint16_t pseudo_header_sum(ByteSpan packet, const TcpPacket& at) {
  const std::size_t from = at.network_at + (at.is_ipv6 ? kIpv6Addresses : kIpv4Addresses);
  const std::uint64_t sum =
      std::uint64_t{internet_sum(packet.subspan(from, at.transport_at - from))} +
      wire::kProtocolTcp + packet.size() - at.transport_at;
  return static_cast<std::uint16_t>(~internet_checksum(sum));
}

bool has_right_checksums(ByteSpan packet, const TcpPacket& at) {
  const bool has_right_header =
      at.is_ipv6 || internet_checksum(packet.subspan(at.network_at, kIpv4Bytes)) == 0;
  return has_right_header && internet_checksum(std::uint64_t{pseudo_header_sum(packet, at)} +
                                               internet_sum(packet.subspan(at.transport_at))) == 0;
}

void set_tcp(MutableByteSpan packet, const TcpPacket& at, wire::Tcp header, bool is_complete) {
  header.checksum = is_complete ? std::uint16_t{} : pseudo_header_sum(packet, at);
  put(packet, at.transport_at, header);
  if (is_complete) {
    header.checksum = internet_checksum(std::uint64_t{pseudo_header_sum(packet, at)} +
                                        internet_sum(packet.subspan(at.transport_at)));
    put(packet, at.transport_at, header);
  }
}

}  // namespace weft::offload
