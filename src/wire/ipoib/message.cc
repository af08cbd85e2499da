#include "wire/ipoib/message.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/internet_checksum.h"
#include "wire/ethernet.h"
#include "wire/ipv6.h"

namespace weft::wire {
namespace {

void append(std::vector<std::byte>& to, ByteSpan bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

[[nodiscard]] Result<IpoibMessage> parse_arp(ByteSpan bytes) {
  const auto arp = parse<IpoibArp>(bytes);
  if (!arp) {
    return std::unexpected(arp.error());
  }
  const IpoibArp usual;
  if (arp->hardware_type != usual.hardware_type || arp->protocol_type != usual.protocol_type ||
      arp->hardware_bytes != usual.hardware_bytes || arp->protocol_bytes != usual.protocol_bytes) {
    return fail(ErrorCode::Io, "ARP of hardware {}, {} bytes, and protocol {:#06x}, {} bytes",
                arp->hardware_type, arp->hardware_bytes, arp->protocol_type, arp->protocol_bytes);
  }
  if (arp->operation != ArpOperation::Request && arp->operation != ArpOperation::Reply) {
    return fail(ErrorCode::Io, "ARP operation {} is neither request nor reply",
                std::to_underlying(arp->operation));
  }
  return ArpMessage{.operation = arp->operation,
                    .sender_hardware = arp->sender_hardware,
                    .sender = IpAddress{arp->sender_protocol},
                    .target_hardware = arp->target_hardware,
                    .target = IpAddress{arp->target_protocol}};
}

/// Finds the link-layer address option. Skips unknown options; refuses options of length zero or
/// beyond the end (RFC 4861 §7.1).
[[nodiscard]] Result<std::optional<IpoibHardwareAddress>> read_options(ByteSpan options,
                                                                       NeighborOption wanted) {
  constexpr std::size_t kUnitBytes = 8;
  std::optional<IpoibHardwareAddress> found;
  while (!options.empty()) {
    const std::size_t bytes =
        options.size() < 2 ? 0 : kUnitBytes * std::to_integer<std::size_t>(options[1]);
    if (bytes == 0 || bytes > options.size()) {
      return fail(ErrorCode::Io, "an option of {} bytes, of which {} are left", bytes,
                  options.size());
    }
    if (std::to_integer<std::uint8_t>(options[0]) == std::to_underlying(wanted) &&
        bytes == kSizeOf<IpoibLinkLayerOption> && !found) {
      found = unpack<IpoibLinkLayerOption>(options.first<kSizeOf<IpoibLinkLayerOption>>()).address;
    }
    options = options.subspan(bytes);
  }
  return found;
}

/// Validation required by RFC 4861 §7.1.1 and §7.1.2.
[[nodiscard]] Result<void> check(const NeighborMessage& message) {
  if (message.target.is_multicast()) {
    return fail(ErrorCode::Io, "the target {} is a multicast address", to_string(message.target));
  }
  const bool is_probe = message.source.is_unspecified();
  if (message.type == NeighborMessageType::Solicitation) {
    if (is_probe && message.hardware) {
      return fail(ErrorCode::Io, "a probe for duplicates with a link-layer address");
    }
    if (is_probe && !message.destination.is_multicast()) {
      return fail(ErrorCode::Io, "a probe for duplicates to {}", to_string(message.destination));
    }
  } else if (message.destination.is_multicast() && message.flags.has(NeighborFlag::Solicited)) {
    return fail(ErrorCode::Io, "a solicited advertisement with a multicast destination");
  }
  return {};
}

[[nodiscard]] Result<IpoibMessage> parse_ipv6(ByteSpan bytes) {
  const auto ip = parse<Ipv6>(bytes);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  const ByteSpan rest = bytes.subspan(kSizeOf<Ipv6>);
  if (ip->version != 6 || ip->payload_length > rest.size()) {
    return fail(ErrorCode::Io, "IP version {} with {} bytes, of which {} are present", ip->version,
                ip->payload_length, rest.size());
  }
  const ByteSpan icmp = rest.first(ip->payload_length);
  if (ip->next_header != kProtocolIcmpv6 || icmp.empty()) {
    return OtherIpoibMessage{kEtherTypeIpv6};
  }
  const auto type = static_cast<NeighborMessageType>(icmp.front());
  if (type != NeighborMessageType::Solicitation && type != NeighborMessageType::Advertisement) {
    return OtherIpoibMessage{kEtherTypeIpv6};
  }
  const auto discovery = parse<NeighborDiscovery>(icmp);
  if (!discovery) {
    return std::unexpected(discovery.error());
  }
  const IpAddress source{ip->source};
  const IpAddress destination{ip->destination};
  if (ip->hop_limit != kNeighborHopLimit || discovery->code != 0 ||
      icmpv6_checksum(source, destination, icmp) != 0) {
    return fail(ErrorCode::Io, "neighbor discovery with hop limit {}, code {} or a wrong checksum",
                ip->hop_limit, discovery->code);
  }
  const bool asks = type == NeighborMessageType::Solicitation;
  const auto hardware =
      read_options(icmp.subspan(kSizeOf<NeighborDiscovery>),
                   asks ? NeighborOption::SourceLinkLayer : NeighborOption::TargetLinkLayer);
  if (!hardware) {
    return std::unexpected(hardware.error());
  }
  const NeighborMessage message{.type = type,
                                .source = source,
                                .destination = destination,
                                .target = IpAddress{discovery->target},
                                .flags = asks ? Flags<NeighborFlag>{} : discovery->flags,
                                .hardware = *hardware};
  if (auto checked = check(message); !checked) {
    return std::unexpected(checked.error());
  }
  return message;
}

}  // namespace

std::uint16_t icmpv6_checksum(const IpAddress& source, const IpAddress& destination,
                              ByteSpan message) {
  return internet_checksum(std::uint64_t{internet_sum(source.octets())} +
                           internet_sum(destination.octets()) + internet_sum(message) +
                           message.size() + kProtocolIcmpv6);
}

Result<IpoibMessage> parse_ipoib(ByteSpan payload) {
  const auto encapsulation = parse<IpoibEncapsulation>(payload);
  if (!encapsulation) {
    return std::unexpected(encapsulation.error());
  }
  const ByteSpan inner = payload.subspan(kSizeOf<IpoibEncapsulation>);
  switch (encapsulation->type) {
    case kEtherTypeArp:
      return parse_arp(inner);
    case kEtherTypeIpv6:
      return parse_ipv6(inner);
    default:
      return OtherIpoibMessage{encapsulation->type};
  }
}

std::vector<std::byte> to_payload(const ArpMessage& message) {
  std::vector<std::byte> payload;
  append(payload, pack(IpoibEncapsulation{.type = kEtherTypeArp}));
  append(payload, pack(IpoibArp{.operation = message.operation,
                                .sender_hardware = message.sender_hardware,
                                .sender_protocol = message.sender.v4_octets(),
                                .target_hardware = message.target_hardware,
                                .target_protocol = message.target.v4_octets()}));
  return payload;
}

std::vector<std::byte> to_payload(const NeighborMessage& message) {
  NeighborDiscovery discovery{
      .type = message.type, .flags = message.flags, .target = message.target.v6_octets()};
  std::vector<std::byte> options;
  if (message.hardware) {
    const bool asks = message.type == NeighborMessageType::Solicitation;
    append(options, pack(IpoibLinkLayerOption{.type = asks ? NeighborOption::SourceLinkLayer
                                                           : NeighborOption::TargetLinkLayer,
                                              .address = *message.hardware}));
  }
  std::vector<std::byte> icmp;
  append(icmp, pack(discovery));
  append(icmp, options);
  discovery.checksum = icmpv6_checksum(message.source, message.destination, icmp);
  const Ipv6 ip{.payload_length = static_cast<std::uint16_t>(icmp.size()),
                .next_header = kProtocolIcmpv6,
                .hop_limit = kNeighborHopLimit,
                .source = message.source.v6_octets(),
                .destination = message.destination.v6_octets()};
  std::vector<std::byte> payload;
  append(payload, pack(IpoibEncapsulation{.type = kEtherTypeIpv6}));
  append(payload, pack(ip));
  append(payload, pack(discovery));
  append(payload, options);
  return payload;
}

}  // namespace weft::wire
