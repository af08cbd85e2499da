#include "ulp/offload/segmenter.h"

#include <algorithm>
#include <cstdint>

#include "base/internet_checksum.h"
#include "ulp/offload/tcp_packet.h"

namespace weft::offload {
namespace {

/// Sums from the start to the end over the field, which has the sum of the pseudo header.
[[nodiscard]] bool complete_checksum(const Offload& offload, MutableByteSpan packet) {
  constexpr std::uint16_t kUdpChecksumAt = 6;
  const std::size_t field = std::size_t{offload.checksum_start} + offload.checksum_at;
  if (field + sizeof(std::uint16_t) > packet.size()) {
    return false;
  }
  std::uint16_t checksum = internet_checksum(packet.subspan(offload.checksum_start));
  if (checksum == 0 && offload.checksum_at == kUdpChecksumAt) {
    checksum = 0xFFFF;  // 0 says that UDP has none (RFC 768)
  }
  packet[field] = static_cast<std::byte>(checksum >> 8);
  packet[field + 1] = static_cast<std::byte>(checksum);
  return true;
}

}  // namespace

bool Segmenter::split(const Offload& offload, MutableByteSpan packet, std::size_t network_at,
                      const Sink& sink) {
  if (offload.segments == Segments::One) {
    if (offload.needs_checksum && !complete_checksum(offload, packet)) {
      return false;
    }
    sink(packet);
    return true;
  }
  const auto whole = parse_tcp(packet, network_at);
  if (!whole || whole->is_ipv6 != (offload.segments == Segments::TcpIpv6) ||
      offload.segment_bytes == 0) {
    return false;
  }
  const ByteSpan headers = packet.first(whole->data_at);
  ByteSpan data = packet.subspan(whole->data_at);
  std::uint16_t identification = identification_of(packet, *whole);
  wire::Tcp tcp = whole->tcp;
  do {
    const ByteSpan part = data.first(std::min<std::size_t>(offload.segment_bytes, data.size()));
    data = data.subspan(part.size());
    segment_.assign(headers.begin(), headers.end());
    segment_.insert(segment_.end(), part.begin(), part.end());
    // The end is told with the last data (RFC 9293 §3.8.4), and the congestion window's reduction
    // once (RFC 3168 §6.1.2).
    tcp.fin = whole->tcp.fin && data.empty();
    tcp.psh = whole->tcp.psh && data.empty();
    set_lengths(segment_, *whole, identification++);
    set_tcp(segment_, *whole, tcp);
    sink(segment_);
    tcp.sequence += static_cast<std::uint32_t>(part.size());
    tcp.cwr = false;
  } while (!data.empty());
  return true;
}

}  // namespace weft::offload
