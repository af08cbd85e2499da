#include "ulp/opa_vnic/frame.h"

#include <algorithm>

#include "wire/ethernet.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/layout.h"
#include "wire/vlan.h"

namespace weft::opa_vnic {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::size_t kPortBytes = 4;  // source and destination port, at the head of both

/// FNV-1a, a hash that is the same on every host.
class FlowHash {
 public:
  void add(ByteSpan bytes) {
    for (const std::byte octet : bytes) {
      hash_ = (hash_ ^ std::to_integer<std::uint32_t>(octet)) * 0x0100'0193U;
    }
  }
  /// All octets of the hash, folded into one.
  [[nodiscard]] std::uint8_t fold() const {
    return static_cast<std::uint8_t>(hash_ ^ hash_ >> 8 ^ hash_ >> 16 ^ hash_ >> 24);
  }

 private:
  std::uint32_t hash_{0x811C'9DC5U};
};

void add_ports(FlowHash& hash, ByteSpan transport) {
  hash.add(transport.first(std::min(transport.size(), kPortBytes)));
}

PacketKind look_at_ipv4(FlowHash& hash, ByteSpan packet) {
  const auto header = wire::parse<wire::Ipv4>(packet);
  if (!header) {
    return PacketKind::Other;
  }
  constexpr std::size_t kAddresses = 12;
  hash.add(packet.subspan(kAddresses, 8));
  const std::size_t length = std::size_t{header->header_dwords} * 4;
  const bool is_fragment = header->more_fragments || header->fragment_offset != 0;
  // Later fragments have no ports, and a flow keeps one path.
  if (!is_fragment && length >= wire::kSizeOf<wire::Ipv4> && length <= packet.size()) {
    add_ports(hash, packet.subspan(length));
  }
  return header->protocol == kTcp   ? PacketKind::Ipv4Tcp
         : header->protocol == kUdp ? PacketKind::Ipv4Udp
                                    : PacketKind::Ipv4;
}

PacketKind look_at_ipv6(FlowHash& hash, ByteSpan packet) {
  const auto header = wire::parse<wire::Ipv6>(packet);
  if (!header) {
    return PacketKind::Other;
  }
  constexpr std::size_t kAddresses = 8;
  hash.add(packet.subspan(kAddresses, 32));
  if (header->next_header != kTcp && header->next_header != kUdp) {
    return PacketKind::Ipv6;
  }
  add_ports(hash, packet.subspan(wire::kSizeOf<wire::Ipv6>));
  return header->next_header == kTcp ? PacketKind::Ipv6Tcp : PacketKind::Ipv6Udp;
}

}  // namespace

std::optional<FrameFacts> facts_of(ByteSpan frame) {
  const auto ethernet = wire::parse<wire::Ethernet>(frame);
  if (!ethernet) {
    return std::nullopt;
  }
  FrameFacts facts{.destination = wire::MacAddress{ethernet->destination},
                   .source = wire::MacAddress{ethernet->source}};
  std::uint16_t ether_type = ethernet->ether_type;
  ByteSpan rest = frame.subspan(wire::kSizeOf<wire::Ethernet>);
  if (ether_type == wire::kEtherTypeVlan) {
    if (const auto tag = wire::parse<wire::Vlan>(rest)) {
      facts.priority = tag->priority;
      ether_type = tag->ether_type;
      rest = rest.subspan(wire::kSizeOf<wire::Vlan>);
    }
  }
  FlowHash hash;
  if (ether_type == wire::kEtherTypeIpv4) {
    facts.kind = look_at_ipv4(hash, rest);
  } else if (ether_type == wire::kEtherTypeIpv6) {
    facts.kind = look_at_ipv6(hash, rest);
  }
  if (facts.kind == PacketKind::Other) {
    hash.add(frame.first(2 * wire::MacAddress::kSize));
  }
  facts.entropy = hash.fold();
  return facts;
}

}  // namespace weft::opa_vnic
