#include "wire/ud_header.h"

#include "base/assert.h"
#include "wire/roce_packet.h"

namespace weft::wire {
namespace {

constexpr std::size_t kIcrcBytes = 4;
constexpr std::uint8_t kGrhNextHeaderBth = 0x1B;  // IBTA vol 1 §8.3
constexpr std::uint8_t kProtocolUdp = 17;

/// Unpacks consecutive structures; remembers the first that does not fit.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : left_(bytes) {}

  template <WireType T>
  [[nodiscard]] T take() {
    if (left_.size() < kSizeOf<T>) {
      missing_ = missing_.empty() ? T::kName : missing_;
      return {};
    }
    const T value = unpack<T>(left_.first<kSizeOf<T>>());
    left_ = left_.subspan(kSizeOf<T>);
    return value;
  }
  [[nodiscard]] std::string_view missing() const { return missing_; }

 private:
  ByteSpan left_;
  std::string_view missing_;
};

/// Reads the headers common to all UD packets: BTH, DETH and immediate data.
[[nodiscard]] Result<void> read_transport(Reader& reader, UdHeader& header) {
  header.bth = reader.take<Bth>();
  header.deth = reader.take<Deth>();
  if (!reader.missing().empty()) {
    return fail(ErrorCode::InvalidArgument, "the {} is cut off", reader.missing());
  }
  if (header.bth.transport_version != 0) {
    return fail(ErrorCode::InvalidArgument, "BTH:TVer {} is not 0", header.bth.transport_version);
  }
  if (header.bth.opcode == Opcode::UdSendOnlyWithImmediate) {
    header.immediate = reader.take<ImmDt>();
    if (!reader.missing().empty()) {
      return fail(ErrorCode::InvalidArgument, "the {} is cut off", reader.missing());
    }
  } else if (header.bth.opcode != Opcode::UdSendOnly) {
    return fail(ErrorCode::InvalidArgument, "BTH:OpCode {:#04x} is not a UD SEND",
                static_cast<unsigned>(header.bth.opcode));
  }
  return {};
}

[[nodiscard]] Result<void> read_grh(Reader& reader, UdHeader& header, std::uint8_t next_header) {
  header.grh = reader.take<Grh>();
  if (!reader.missing().empty()) {
    return fail(ErrorCode::InvalidArgument, "the {} is cut off", reader.missing());
  }
  if (header.grh->ip_version != 6) {
    return fail(ErrorCode::InvalidArgument, "GRH:IPVer {} is not 6", header.grh->ip_version);
  }
  if (header.grh->next_header != next_header) {
    return fail(ErrorCode::InvalidArgument, "GRH:NxtHdr {:#04x} is not {:#04x}",
                header.grh->next_header, next_header);
  }
  return {};
}

[[nodiscard]] Result<void> read_ipv4(Reader& reader, UdHeader& header) {
  header.ipv4 = reader.take<Ipv4>();
  if (!reader.missing().empty()) {
    return fail(ErrorCode::InvalidArgument, "the {} is cut off", reader.missing());
  }
  if (header.ipv4->version != 4 || header.ipv4->header_dwords != 5 ||
      header.ipv4->protocol != kProtocolUdp) {
    return fail(ErrorCode::InvalidArgument,
                "IPv4 version {}, IHL {}, protocol {} are not 4, 5 and 17", header.ipv4->version,
                header.ipv4->header_dwords, header.ipv4->protocol);
  }
  return {};
}

[[nodiscard]] Result<void> read_udp(Reader& reader, UdHeader& header) {
  header.udp = reader.take<Udp>();
  if (reader.missing().empty() && header.udp->destination_port != kRoceUdpPort) {
    return fail(ErrorCode::InvalidArgument, "UDP port {} is not {}", header.udp->destination_port,
                kRoceUdpPort);
  }
  return {};
}

}  // namespace

Result<UdHeader> make_ud_header(std::size_t payload_bytes, const UdHeaderParts& parts) {
  const bool has_ipv4 = parts.ip_version == 4;
  const bool has_ipv6 = parts.ip_version == 6;
  if (parts.ip_version != 0 && !has_ipv4 && !has_ipv6) {
    return fail(ErrorCode::InvalidArgument, "IP version {} is not 4, 6 or 0 (none)",
                parts.ip_version);
  }
  if (parts.udp && !has_ipv4 && !has_ipv6) {
    return fail(ErrorCode::InvalidArgument, "a UDP header needs an IP header before it");
  }
  UdHeader header;
  const std::size_t padded = (payload_bytes + 3) / 4 * 4;
  std::size_t bytes = kSizeOf<Bth> + kSizeOf<Deth> + padded + kIcrcBytes;
  header.bth.opcode = Opcode::UdSendOnly;
  header.bth.pad_count = static_cast<std::uint8_t>(padded - payload_bytes);
  if (parts.immediate) {
    header.bth.opcode = Opcode::UdSendOnlyWithImmediate;
    header.immediate.emplace();
    bytes += kSizeOf<ImmDt>;
  }
  if (parts.udp) {
    bytes += kSizeOf<Udp>;
    header.udp = Udp{.length = static_cast<std::uint16_t>(bytes)};
  }
  if (has_ipv4) {
    bytes += kSizeOf<Ipv4>;
    header.ipv4 = Ipv4{.total_length = static_cast<std::uint16_t>(bytes), .protocol = kProtocolUdp};
  }
  const bool has_grh = has_ipv6 || (parts.grh && !has_ipv4);
  if (has_grh) {
    header.grh.emplace();
    header.grh->payload_length = static_cast<std::uint16_t>(bytes);
    header.grh->next_header = parts.udp ? kProtocolUdp : kGrhNextHeaderBth;
    bytes += kSizeOf<Grh>;
  }
  if (parts.ethernet || parts.vlan) {
    const std::uint16_t inner = has_ipv4   ? kEtherTypeIpv4
                                : has_ipv6 ? kEtherTypeIpv6
                                           : kEtherTypeRoceV1;
    if (parts.vlan) {
      header.vlan = Vlan{.ether_type = inner};
    }
    if (parts.ethernet) {
      header.ethernet = Ethernet{.ether_type = parts.vlan ? kEtherTypeVlan : inner};
    }
  }
  if (parts.lrh) {
    bytes += kSizeOf<Lrh>;
    header.lrh.emplace();
    header.lrh->lnh = has_grh ? LinkNextHeader::Global : LinkNextHeader::Local;
    header.lrh->packet_length = static_cast<std::uint16_t>(bytes / 4);
  }
  return header;
}

std::size_t packed_bytes(const UdHeader& header) {
  std::size_t bytes = kSizeOf<Bth> + kSizeOf<Deth>;
  const auto add = [&bytes]<class T>(const std::optional<T>& part) {
    bytes += part ? kSizeOf<T> : 0;
  };
  add(header.lrh);
  add(header.ethernet);
  add(header.vlan);
  add(header.grh);
  add(header.ipv4);
  add(header.udp);
  add(header.immediate);
  return bytes;
}

std::size_t pack(const UdHeader& header, MutableByteSpan out) {
  const std::size_t bytes = packed_bytes(header);
  WEFT_DEBUG_ASSERT(out.size() >= bytes, "the header's length was asked for");
  const auto put = [&out]<class T>(const T& part) {
    pack(part, out.first<kSizeOf<T>>());
    out = out.subspan(kSizeOf<T>);
  };
  const auto put_if = [&put](const auto& part) {
    if (part) {
      put(*part);
    }
  };
  put_if(header.lrh);
  put_if(header.ethernet);
  put_if(header.vlan);
  put_if(header.grh);
  if (header.ipv4) {
    Ipv4 ip = *header.ipv4;
    ip.checksum = ip.checksum != 0 ? ip.checksum : ipv4_checksum(ip);
    put(ip);
  }
  put_if(header.udp);
  put(header.bth);
  put(header.deth);
  put_if(header.immediate);
  return bytes;
}

Result<UdHeader> unpack_ud_header(ByteSpan bytes) {
  Reader reader{bytes};
  UdHeader header;
  header.lrh = reader.take<Lrh>();
  if (!reader.missing().empty()) {
    return fail(ErrorCode::InvalidArgument, "the LRH is cut off");
  }
  if (header.lrh->link_version != 0) {
    return fail(ErrorCode::InvalidArgument, "LRH:LVer {} is not 0", header.lrh->link_version);
  }
  if (header.lrh->lnh == LinkNextHeader::Global) {
    if (auto read = read_grh(reader, header, kGrhNextHeaderBth); !read) {
      return std::unexpected(read.error());
    }
  } else if (header.lrh->lnh != LinkNextHeader::Local) {
    return fail(ErrorCode::InvalidArgument, "LRH:LNH {} is neither local nor global",
                static_cast<unsigned>(header.lrh->lnh));
  }
  if (auto read = read_transport(reader, header); !read) {
    return std::unexpected(read.error());
  }
  return header;
}

Result<UdHeader> unpack_ud_frame(ByteSpan bytes) {
  Reader reader{bytes};
  UdHeader header;
  header.ethernet = reader.take<Ethernet>();
  std::uint16_t ether_type = header.ethernet->ether_type;
  if (ether_type == kEtherTypeVlan) {
    header.vlan = reader.take<Vlan>();
    ether_type = header.vlan->ether_type;
  }
  if (!reader.missing().empty()) {
    return fail(ErrorCode::InvalidArgument, "the {} is cut off", reader.missing());
  }
  Result<void> read;
  if (ether_type == kEtherTypeRoceV1) {
    read = read_grh(reader, header, kGrhNextHeaderBth);
  } else if (ether_type == kEtherTypeIpv6) {
    read = read_grh(reader, header, kProtocolUdp);
  } else if (ether_type == kEtherTypeIpv4) {
    read = read_ipv4(reader, header);
  } else {
    return fail(ErrorCode::InvalidArgument, "EtherType {:#06x} is not that of RoCE", ether_type);
  }
  if (read && ether_type != kEtherTypeRoceV1) {
    read = read_udp(reader, header);
  }
  if (read) {
    read = read_transport(reader, header);
  }
  if (!read) {
    return std::unexpected(read.error());
  }
  return header;
}

}  // namespace weft::wire
