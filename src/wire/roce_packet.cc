#include "wire/roce_packet.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/internet_checksum.h"
#include "wire/crc.h"

namespace weft::wire {
namespace {

constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kBthResv8a = 4;
constexpr std::byte kOnes{0xFF};

/// Adds the IP header with its variant fields replaced by ones: IPv4 ToS, TTL and checksum; IPv6
/// traffic class, flow label and hop limit.
void add_ip(Icrc& icrc, const std::variant<Ipv4, Ipv6>& ip) {
  if (const Ipv4* v4 = std::get_if<Ipv4>(&ip)) {
    Ipv4 masked = *v4;
    masked.type_of_service = 0xFF;
    masked.time_to_live = 0xFF;
    masked.checksum = 0xFFFF;
    icrc.add(pack(masked));
    return;
  }
  Ipv6 masked = std::get<Ipv6>(ip);
  masked.traffic_class = 0xFF;
  masked.flow_label = 0xF'FFFF;
  masked.hop_limit = 0xFF;
  icrc.add(pack(masked));
}

/// `transport` is the packet from the BTH through the pad.
[[nodiscard]] std::array<std::byte, 4> icrc_over(const RocePacket& packet,
                                                 std::span<const std::byte> transport) {
  std::array<std::byte, kSizeOf<Lrh>> missing_lrh{};
  missing_lrh.fill(kOnes);
  Icrc icrc;
  icrc.add(missing_lrh);
  add_ip(icrc, packet.ip);
  Udp udp = packet.udp;
  udp.checksum = 0xFFFF;
  icrc.add(pack(udp));
  std::array<std::byte, kSizeOf<Bth>> bth{};
  std::copy_n(transport.begin(), bth.size(), bth.begin());
  bth[kBthResv8a] = kOnes;
  icrc.add(bth);
  icrc.add(transport.subspan(bth.size()));
  return icrc.bytes();
}

template <WireType T>
void append(std::vector<std::byte>& out, const T& header) {
  const auto bytes = pack(header);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <WireType T>
Result<T> take(std::span<const std::byte>& in) {
  Result<T> parsed = parse<T>(in);
  if (parsed) {
    in = in.subspan(kSizeOf<T>);
  }
  return parsed;
}

/// Parses Ethernet through UDP. Leaves `in` at the BTH, limited to the datagram.
Result<RocePacket> parse_outer(std::span<const std::byte>& in) {
  RocePacket packet;
  const auto ethernet = take<Ethernet>(in);
  if (!ethernet) {
    return std::unexpected(ethernet.error());
  }
  packet.ethernet = *ethernet;
  std::uint16_t ether_type = ethernet->ether_type;
  if (ether_type == kEtherTypeVlan) {
    const auto vlan = take<Vlan>(in);
    if (!vlan) {
      return std::unexpected(vlan.error());
    }
    packet.vlan = *vlan;
    ether_type = vlan->ether_type;
  }
  std::uint8_t protocol = 0;
  if (ether_type == kEtherTypeIpv4) {
    const auto ip = take<Ipv4>(in);
    if (!ip) {
      return std::unexpected(ip.error());
    }
    if (ip->version != 4) {
      return fail(ErrorCode::Io, "IPv4 Version is {}", ip->version);
    }
    if (ip->header_dwords != 5 || ip->more_fragments || ip->fragment_offset != 0) {
      return fail(ErrorCode::NotSupported, "IPv4 with options or in fragments carries no RoCE");
    }
    packet.ip = *ip;
    protocol = ip->protocol;
  } else if (ether_type == kEtherTypeIpv6) {
    const auto ip = take<Ipv6>(in);
    if (!ip) {
      return std::unexpected(ip.error());
    }
    packet.ip = *ip;
    protocol = ip->next_header;
  } else {
    return fail(ErrorCode::NotSupported, "EtherType {:#06x} is neither IPv4 nor IPv6", ether_type);
  }
  if (protocol != 17) {
    return fail(ErrorCode::NotSupported, "IP Protocol {} is not UDP", protocol);
  }
  const auto udp = take<Udp>(in);
  if (!udp) {
    return std::unexpected(udp.error());
  }
  packet.udp = *udp;
  if (udp->destination_port != kRoceUdpPort) {
    return fail(ErrorCode::NotSupported, "UDP DestinationPort {} is not {}", udp->destination_port,
                kRoceUdpPort);
  }
  if (udp->length < kSizeOf<Udp> || udp->length - kSizeOf<Udp> > in.size()) {
    return fail(ErrorCode::Io, "UDP Length is {}, but the packet has {} bytes", udp->length,
                in.size() + kSizeOf<Udp>);
  }
  in = in.first(udp->length - kSizeOf<Udp>);
  return packet;
}

}  // namespace

std::uint16_t ipv4_checksum(const Ipv4& header) {
  Ipv4 zeroed = header;
  zeroed.checksum = 0;
  return internet_checksum(ByteSpan{pack(zeroed)});
}

void serialise(const RocePacket& packet, std::vector<std::byte>& out) {
  out.clear();
  append(out, packet.ethernet);
  if (packet.vlan) {
    append(out, *packet.vlan);
  }
  std::visit([&](const auto& ip) { append(out, ip); }, packet.ip);
  append(out, packet.udp);
  const std::size_t transport_at = out.size();
  TransportHeaders transport = packet.transport;
  transport.bth.pad_count = static_cast<std::uint8_t>((4 - packet.payload.size() % 4) % 4);
  std::array<std::byte, kMaxTransportHeaderBytes> headers{};
  const std::size_t header_bytes = pack(transport, headers);
  out.insert(out.end(), headers.begin(),
             headers.begin() + static_cast<std::ptrdiff_t>(header_bytes));
  out.insert(out.end(), packet.payload.begin(), packet.payload.end());
  out.insert(out.end(), transport.bth.pad_count, std::byte{0});
  const auto icrc = icrc_over(packet, std::span{out}.subspan(transport_at));
  out.insert(out.end(), icrc.begin(), icrc.end());
}

bool is_roce_v2(std::span<const std::byte> frame) { return parse_outer(frame).has_value(); }

Result<RocePacket> parse_roce_packet(std::span<const std::byte> frame, CrcCheck check) {
  std::span<const std::byte> in = frame;
  Result<RocePacket> packet = parse_outer(in);
  if (!packet) {
    return packet;
  }
  if (in.size() < kSizeOf<Bth> + kIcrcBytes) {
    return fail(ErrorCode::Io, "{} bytes after UDP are too few for a BTH and an ICRC", in.size());
  }
  const std::span<const std::byte> covered = in.first(in.size() - kIcrcBytes);
  const auto transport = parse_transport_headers(covered);
  if (!transport) {
    return std::unexpected(transport.error());
  }
  packet->transport = *transport;
  const OpcodeInfo& info = *opcode_info(transport->bth.opcode);
  const std::span<const std::byte> padded = covered.subspan(transport_header_bytes(info));
  if (padded.size() % 4 != 0) {  // IBTA vol 1 §9.2.3: PadCnt must align the payload
    return fail(ErrorCode::Io, "{} bytes of payload with pad are no multiple of 4", padded.size());
  }
  if (transport->bth.pad_count > padded.size()) {
    return fail(ErrorCode::Io, "BTH PadCnt is {}, the payload with pad has {} bytes",
                transport->bth.pad_count, padded.size());
  }
  packet->payload = padded.first(padded.size() - transport->bth.pad_count);
  if (info.payload == PayloadRule::None && !packet->payload.empty()) {
    return fail(ErrorCode::Io, "{} carries no payload, but has {} bytes", info.name,
                packet->payload.size());
  }
  if (check == CrcCheck::Verify) {
    const RoceIcrc icrc = icrc_of(*packet, frame);
    if (icrc.found != icrc.expected) {
      return fail(ErrorCode::Io, "the ICRC is wrong");
    }
  }
  return packet;
}

RoceIcrc icrc_of(const RocePacket& packet, std::span<const std::byte> frame) {
  const std::size_t ip_bytes =
      std::visit([]<class Ip>(const Ip&) { return kSizeOf<Ip>; }, packet.ip);
  const std::size_t transport_at =
      kSizeOf<Ethernet> + (packet.vlan ? kSizeOf<Vlan> : 0) + ip_bytes + kSizeOf<Udp>;
  const std::size_t transport_bytes = packet.udp.length - kSizeOf<Udp>;
  WEFT_DEBUG_ASSERT(transport_at + transport_bytes <= frame.size(),
                    "the frame's length was asked for");
  const auto transport = frame.subspan(transport_at, transport_bytes - kIcrcBytes);
  RoceIcrc icrc{.found = {}, .expected = icrc_over(packet, transport)};
  std::ranges::copy(frame.subspan(transport_at + transport.size(), kIcrcBytes), icrc.found.begin());
  return icrc;
}

}  // namespace weft::wire
