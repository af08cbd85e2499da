#include "ulp/offload/coalescer.h"

#include <algorithm>
#include <utility>

#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::offload {
namespace {

constexpr std::uint16_t kTcpChecksumAt = 16;  // of wire::Tcp

[[nodiscard]] ByteSpan data_of(ByteSpan packet, const TcpPacket& at) {
  return packet.subspan(at.data_at);
}

/// Data, and nothing else that a receiver would have to know of each packet.
[[nodiscard]] bool is_plain(ByteSpan packet, const TcpPacket& at) {
  const wire::Tcp& tcp = at.tcp;
  return packet.size() > at.data_at && packet.size() - at.network_at == told_bytes(packet, at) &&
         tcp.ack && !tcp.cwr && !tcp.ece && !tcp.urg && !tcp.rst && !tcp.syn && !tcp.fin &&
         tcp.reserved == 0 && has_right_checksums(packet, at);
}

/// The IP header without what segments of one packet differ in.
[[nodiscard]] wire::Ipv4 comparable_ipv4(ByteSpan network) {
  auto ip = wire::unpack<wire::Ipv4>(network.first<wire::kSizeOf<wire::Ipv4>>());
  ip.total_length = ip.identification = ip.checksum = 0;
  return ip;
}
[[nodiscard]] wire::Ipv6 comparable_ipv6(ByteSpan network) {
  auto ip = wire::unpack<wire::Ipv6>(network.first<wire::kSizeOf<wire::Ipv6>>());
  ip.payload_length = 0;
  return ip;
}
[[nodiscard]] wire::Tcp comparable(wire::Tcp tcp) {
  tcp.sequence = 0;
  tcp.checksum = 0;
  tcp.psh = false;
  return tcp;
}

/// Addresses and ports, whose packets must stay in order.
[[nodiscard]] bool are_of_one_connection(ByteSpan a, const TcpPacket& at_a, ByteSpan b,
                                         const TcpPacket& at_b) {
  if (at_a.is_ipv6 != at_b.is_ipv6 || at_a.tcp.source_port != at_b.tcp.source_port ||
      at_a.tcp.destination_port != at_b.tcp.destination_port) {
    return false;
  }
  const std::size_t bytes = at_a.is_ipv6 ? 32 : 8;  // both addresses, the header's last
  return std::ranges::equal(a.subspan(at_a.transport_at - bytes, bytes),
                            b.subspan(at_b.transport_at - bytes, bytes));
}

[[nodiscard]] bool have_like_headers(ByteSpan a, const TcpPacket& at_a, ByteSpan b,
                                     const TcpPacket& at_b) {
  if (at_a.network_at != at_b.network_at || at_a.data_at != at_b.data_at ||
      comparable(at_a.tcp) != comparable(at_b.tcp) ||
      !std::ranges::equal(a.first(at_a.network_at), b.first(at_b.network_at))) {
    return false;
  }
  const ByteSpan network_a = a.subspan(at_a.network_at);
  const ByteSpan network_b = b.subspan(at_b.network_at);
  const bool is_ip_alike = at_a.is_ipv6 ? comparable_ipv6(network_a) == comparable_ipv6(network_b)
                                        : comparable_ipv4(network_a) == comparable_ipv4(network_b);
  const std::size_t options_at = at_a.transport_at + wire::kSizeOf<wire::Tcp>;
  return is_ip_alike && std::ranges::equal(a.subspan(options_at, at_a.data_at - options_at),
                                           b.subspan(options_at, at_b.data_at - options_at));
}

}  // namespace

void Coalescer::add(ByteSpan packet, std::size_t network_at) {
  const auto at = parse_tcp(packet, network_at);
  if (!at) {
    pass({}, packet, network_at);
    return;
  }
  Held* const held = find(packet, *at);
  // A long one has hardly room for another: neither its checksum nor a copy would be of use.
  const bool is_long = data_of(packet, *at).size() > kMostBytes / 2;
  if (is_long || !is_plain(packet, *at)) {
    pass({}, packet, network_at);
    return;
  }
  if (held != nullptr && may_join(*held, packet, *at)) {
    join(*held, packet, *at);
    return;
  }
  if (held != nullptr) {
    release(*held);
  }
  hold(packet, *at);
}

void Coalescer::pass(const Offload& offload, ByteSpan packet, std::size_t network_at) {
  const auto at = parse_tcp(packet, network_at);
  if (!at) {
    flush();  // a fragment, say, may be of a connection that is held
  } else if (Held* const held = find(packet, *at)) {
    release(*held);
  }
  sink_(offload, packet);
}

Coalescer::Held* Coalescer::find(ByteSpan packet, const TcpPacket& at) {
  const auto found = std::ranges::find_if(held_, [&](const Held& held) {
    return !held.bytes.empty() && are_of_one_connection(held.bytes, held.at, packet, at);
  });
  return found == held_.end() ? nullptr : &*found;
}

bool Coalescer::may_join(const Held& held, ByteSpan packet, const TcpPacket& at) {
  const std::size_t bytes = data_of(packet, at).size();
  return held.next_sequence == at.tcp.sequence && bytes <= held.segment_bytes &&
         held.bytes.size() - held.at.network_at + bytes <= kMostBytes &&
         have_like_headers(held.bytes, held.at, packet, at);
}

void Coalescer::join(Held& held, ByteSpan packet, const TcpPacket& at) {
  const ByteSpan data = data_of(packet, at);
  held.bytes.insert(held.bytes.end(), data.begin(), data.end());
  held.next_sequence += static_cast<std::uint32_t>(data.size());
  held.at.tcp.psh = at.tcp.psh;
  held.is_one = false;
  if (at.tcp.psh || data.size() < held.segment_bytes) {
    release(held);  // as the sender's stack ends what it cuts up
  }
}

void Coalescer::hold(ByteSpan packet, const TcpPacket& at) {
  const std::size_t bytes = data_of(packet, at).size();
  if (at.tcp.psh || at.data_at > kMostHeaderBytes) {
    sink_({}, packet);
    return;
  }
  // Free ones are the oldest, too.
  Held& held = *std::ranges::min_element(
      held_, {}, [](const Held& each) { return each.bytes.empty() ? std::uint64_t{} : each.age; });
  release(held);
  held.bytes.assign(packet.begin(), packet.end());
  held.at = at;
  held.segment_bytes = bytes;
  held.next_sequence = at.tcp.sequence + static_cast<std::uint32_t>(bytes);
  held.is_one = true;
  held.age = ++last_age_;
}

void Coalescer::release(Held& held) {
  if (held.bytes.empty()) {
    return;
  }
  if (held.is_one) {
    sink_({}, held.bytes);
  } else {
    set_lengths(held.bytes, held.at, identification_of(held.bytes, held.at));
    set_tcp(held.bytes, held.at, held.at.tcp, false);
    sink_({.needs_checksum = true,
           .segments = held.at.is_ipv6 ? Segments::TcpIpv6 : Segments::TcpIpv4,
           .header_bytes = static_cast<std::uint16_t>(held.at.data_at),
           .segment_bytes = static_cast<std::uint16_t>(held.segment_bytes),
           .checksum_start = static_cast<std::uint16_t>(held.at.transport_at),
           .checksum_at = kTcpChecksumAt},
          held.bytes);
  }
  held.bytes.clear();
}

void Coalescer::flush() {
  std::array<Held*, kFlows> by_age{};
  std::ranges::transform(held_, by_age.begin(), [](Held& held) { return &held; });
  std::ranges::sort(by_age, {}, &Held::age);
  for (Held* const held : by_age) {
    release(*held);
  }
}

}  // namespace weft::offload
