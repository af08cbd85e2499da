#include "wire/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "wire/address_text.h"
#include "wire/encodings.h"
#include "wire/mad/mad_print.h"
#include "wire/opcode.h"
#include "wire/sriov/tunnel_headers.h"

namespace weft::wire {
namespace {

/// Fields printed in decimal although they are wider than an octet.
constexpr auto kDecimalNames = std::to_array<std::string_view>(
    {"DLID", "SLID", "DrDLID", "DrSLID", "PSN", "MSN", "PktLen", "PayLen", "DMALen", "VID",
     "TotalLength", "PayloadLength", "Length", "SourcePort", "DestinationPort", "FragmentOffset"});

/// Octets printed in hex because they are bit fields.
constexpr auto kHexNames = std::to_array<std::string_view>({"TClass", "TrafficClass", "ToS"});

[[nodiscard]] ValueStyle style_of(std::string_view name, unsigned bits) {
  const bool is_decimal =
      bits <= 8 ? std::ranges::find(kHexNames, name) == kHexNames.end()
                : std::ranges::find(kDecimalNames, name) != kDecimalNames.end() || is_counter(name);
  return is_decimal ? ValueStyle::Decimal : ValueStyle::Hex;
}

[[nodiscard]] std::string_view flush_selectivity_name(std::uint64_t code) {
  constexpr std::array<std::string_view, 2> kNames{"range", "memory region"};
  return code < kNames.size() ? kNames[code] : "reserved";
}

[[nodiscard]] std::string_view flush_placement_name(std::uint64_t code) {
  constexpr std::array<std::string_view, 4> kNames{"reserved", "global visibility", "persistence",
                                                   "global visibility and persistence"};
  return code < kNames.size() ? kNames[code] : "reserved";
}

[[nodiscard]] std::string_view name_of(LinkNextHeader lnh) {
  static constexpr std::array<std::string_view, 4> kNames = {"raw", "raw IPv6", "local", "global"};
  return kNames[static_cast<std::size_t>(lnh) % kNames.size()];
}

[[nodiscard]] std::string_view name_of(NakCode code) {
  switch (code) {
    case NakCode::PsnSequenceError:
      return "PSN Sequence Error";
    case NakCode::InvalidRequest:
      return "Invalid Request";
    case NakCode::RemoteAccessError:
      return "Remote Access Error";
    case NakCode::RemoteOperationalError:
      return "Remote Operational Error";
    case NakCode::InvalidRdRequest:
      return "Invalid RD Request";
  }
  return "reserved code";
}

/// Meaning of a syndrome (IBTA vol 1 §9.7.5.2).
[[nodiscard]] std::string text_of(Syndrome syndrome) {
  switch (syndrome.kind()) {
    case SyndromeKind::Ack:
      return syndrome.code() == kUnlimitedCredits
                 ? "ACK without credit limit"
                 : fmt::format("ACK {} credits", credit_count(syndrome.code()));
    case SyndromeKind::RnrNak:
      return fmt::format("RNR NAK {} us", kRnrTimerMicroseconds[syndrome.code()]);
    case SyndromeKind::Nak:
      return fmt::format("NAK {}", name_of(static_cast<NakCode>(syndrome.code())));
    case SyndromeKind::Reserved:
      break;
  }
  return "reserved";
}

[[nodiscard]] std::string_view ether_type_name(std::uint64_t ether_type) {
  switch (ether_type) {
    case kEtherTypeIpv4:
      return "IPv4";
    case kEtherTypeIpv6:
      return "IPv6";
    case kEtherTypeVlan:
      return "VLAN";
    default:
      return {};
  }
}

[[nodiscard]] std::string_view next_header_name(std::uint64_t next_header) {
  constexpr std::uint64_t kUdp = 17;
  constexpr std::uint64_t kIbaTransport = 0x1B;
  return next_header == kUdp ? "UDP" : next_header == kIbaTransport ? "IBA transport" : "";
}

/// Formats `source -> destination`.
[[nodiscard]] std::string addresses_text(const std::variant<Ipv4, Ipv6>& ip) {
  return std::visit(
      [](const auto& header) {
        return fmt::format("{} -> {}", address_text(std::span{header.source}),
                           address_text(std::span{header.destination}));
      },
      ip);
}

/// The name, or the number in hex if it has none.
[[nodiscard]] std::string name_or_hex(std::string_view name, unsigned number) {
  return name.empty() ? fmt::format("{:#x}", number) : std::string{name};
}

/// Quotes text up to its first NUL; non-printable and non-ASCII characters become question marks.
[[nodiscard]] std::string quoted(std::span<const std::byte> octets) {
  std::string text = "\"";
  for (const std::byte octet : octets) {
    const auto character = std::to_integer<char>(octet);
    if (character == 0) {
      break;
    }
    text += character >= ' ' && character <= '~' && character != '"' ? character : '?';
  }
  return text + "\"";
}

/// Formats `SubnAdm Get PathRecord`, with the status unless it is ok.
[[nodiscard]] std::string mad_summary(const MadHeader& mad) {
  std::uint16_t status = mad.status;
  if (mad.mgmt_class == ManagementClass::SubnDirectedRoute) {
    status &= 0x7FFF;  // clears D
  }
  return fmt::format(
      "{} {} {}{}", name_or_hex(name_of(mad.mgmt_class), static_cast<unsigned>(mad.mgmt_class)),
      name_or_hex(name_of(mad.method), static_cast<unsigned>(mad.method)),
      name_or_hex(attribute_name(mad.mgmt_class, mad.attribute_id), mad.attribute_id),
      status == 0 ? "" : fmt::format(" ({})", status_text(mad.mgmt_class, status)));
}

/// A UD packet's MAD, to QP0 or QP1 or in a tunnel.
void add_mad(PrintedPacket& packet, std::span<const std::byte> payload) {
  const auto mad = parse<MadHeader>(payload);
  if (!mad) {
    packet.summary += ", too short for a MAD";
    return;
  }
  packet.summary += ", " + mad_summary(*mad);
  for (PrintedHeader& header : printed_mad(payload)) {
    packet.headers.push_back(std::move(header));
  }
}

/// True if this is a MAD between a virtual function and the port that it shares: a datagram of the
/// port to itself, with the Q_Key of a tunnel.
[[nodiscard]] bool is_tunnelled(const IbPacket& packet) {
  return packet.transport.bth.opcode == Opcode::UdSendOnly && packet.lrh.slid == packet.lrh.dlid &&
         packet.transport.deth.qkey.value() >= kFirstTunnelQKey &&
         packet.payload.size() == kSizeOf<TunnelSend>;
}

/// The tunnel's header and the MAD behind it. mlx4 numbers the tunnel QPs of the physical function
/// after the proxy QPs of the virtual ones, which says the direction.
void add_tunnelled_mad(PrintedPacket& packet, const IbPacket& datagram) {
  const std::span<const std::byte> payload = datagram.payload;
  if (datagram.transport.bth.dest_qp > datagram.transport.deth.src_qp) {
    packet.summary += ", from a virtual function";
    packet.headers.push_back(
        printed_header(unpack<TunnelSendHeader>(payload.first<kSizeOf<TunnelSendHeader>>())));
  } else {
    const auto header = unpack<TunnelReceiveHeader>(payload.first<kSizeOf<TunnelReceiveHeader>>());
    packet.summary += ", to a virtual function";
    packet.headers.push_back(printed_header(header));
    if (header.is_global) {
      packet.headers.push_back(printed_header(
          unpack<Grh>(payload.subspan<kSizeOf<TunnelReceiveHeader>, kSizeOf<Grh>>())));
    }
  }
  add_mad(packet, payload.last(kMadBytes));
}

/// Prints the transport headers, the second half of the summary, and payloads of known format.
void add_transport(PrintedPacket& packet, const TransportHeaders& transport,
                   std::span<const std::byte> payload) {
  for_each_header(transport, [&packet](const auto& header) {
    packet.headers.push_back(printed_header(header));
  });
  packet.payload_bytes = payload.size();
  const OpcodeInfo* const info = opcode_info(transport.bth.opcode);
  packet.summary +=
      fmt::format(" {} DestQP {:#x} PSN {} {} bytes", info != nullptr ? info->name : "reserved",
                  transport.bth.dest_qp.value(), transport.bth.psn.value(), payload.size());
  if (info != nullptr && info->transport == Transport::Ud &&
      (transport.bth.dest_qp == kQp0 || transport.bth.dest_qp == kQp1)) {
    add_mad(packet, payload);
  }
}

}  // namespace

std::string FieldPrinter::meaning_of(std::string_view name, std::uint64_t value) const {
  if (name == "OpCode") {
    const OpcodeInfo* const info = opcode_info(static_cast<Opcode>(value));
    return std::string{info != nullptr ? info->name : "reserved"};
  }
  if (name == "LNH") {
    return std::string{name_of(static_cast<LinkNextHeader>(value))};
  }
  if (name == "Syndrome") {
    return text_of(Syndrome{static_cast<std::uint8_t>(value)});
  }
  if (name == "SEL") {
    return std::string{flush_selectivity_name(value)};
  }
  if (name == "PLT") {
    return std::string{flush_placement_name(value)};
  }
  if (name == "EtherType") {
    return std::string{ether_type_name(value)};
  }
  if (name == "NxtHdr" || name == "NextHeader" || name == "Protocol") {
    return std::string{next_header_name(value)};
  }
  if (name == "MgmtClass") {
    return std::string{name_of(static_cast<ManagementClass>(value))};
  }
  if (name == "Method") {
    return std::string{name_of(static_cast<MadMethod>(value))};
  }
  if (name == "Status") {
    return status_text(mgmt_class_, static_cast<std::uint16_t>(value));
  }
  if (name == "AttributeID") {
    return std::string{attribute_name(mgmt_class_, static_cast<std::uint16_t>(value))};
  }
  return std::string{attribute_code_meaning(name, value)};
}

void FieldPrinter::number(std::string_view name, unsigned bits, std::uint64_t value) {
  if (name == "MgmtClass") {
    mgmt_class_ = static_cast<ManagementClass>(value);
  }
  PrintedField field{.name = named(name),
                     .style = style_of(name, bits),
                     .number = value,
                     .meaning = meaning_of(name, value),
                     .text = {}};
  const std::string digits =
      field.style == ValueStyle::Decimal ? fmt::format("{}", value) : fmt::format("{:#x}", value);
  field.text = field.meaning.empty() ? digits : fmt::format("{}({})", field.meaning, digits);
  into_.fields.push_back(std::move(field));
}

std::string FieldPrinter::named(std::string_view name) const {
  return element_ ? fmt::format("{}[{}]", name, *element_) : std::string{name};
}

void FieldPrinter::octets(std::string_view name, std::span<const std::byte> octets) {
  constexpr std::size_t kMacBytes = 6;
  std::string text;
  if (octets.size() == 16) {
    text = address_text(octets.first<16>());
  } else if (octets.size() == 4) {
    text = address_text(octets.first<4>());
  } else if (name == "NodeString" || name == "ServiceName") {
    text = quoted(octets);
  } else {
    text = hex_text(octets, octets.size() == kMacBytes ? ":" : "");
  }
  into_.fields.push_back({.name = named(name),
                          .style = ValueStyle::Octets,
                          .number = 0,
                          .meaning = {},
                          .text = std::move(text)});
}

std::string to_text(const PrintedHeader& header) {
  std::string text{header.name};
  for (const PrintedField& field : header.fields) {
    text += fmt::format(" {}={}", field.name, field.text);
  }
  return text;
}

PrintedPacket printed(const IbPacket& packet) {
  PrintedPacket out;
  out.summary = fmt::format("LID {} -> {}", packet.lrh.slid.value(), packet.lrh.dlid.value());
  out.headers.push_back(printed_header(packet.lrh));
  if (packet.grh) {
    out.headers.push_back(printed_header(*packet.grh));
  }
  add_transport(out, packet.transport, packet.payload);
  if (is_tunnelled(packet)) {
    add_tunnelled_mad(out, packet);
  }
  return out;
}

PrintedPacket printed(const RocePacket& packet) {
  PrintedPacket out;
  out.summary = "RoCEv2 " + addresses_text(packet.ip);
  out.headers.push_back(printed_header(packet.ethernet));
  if (packet.vlan) {
    out.headers.push_back(printed_header(*packet.vlan));
  }
  std::visit([&out](const auto& ip) { out.headers.push_back(printed_header(ip)); }, packet.ip);
  out.headers.push_back(printed_header(packet.udp));
  add_transport(out, packet.transport, packet.payload);
  return out;
}

std::string to_text(const PrintedPacket& packet) {
  std::string text = packet.summary + "\n";
  for (const PrintedHeader& header : packet.headers) {
    text += "  " + to_text(header) + "\n";
  }
  return text;
}

}  // namespace weft::wire
