// 16B packets of Omni-Path for output (wire/dissect.h).

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wire/dissect.h"
#include "wire/ethernet.h"
#include "wire/mad/mad.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"
#include "wire/print.h"

namespace weft::wire {
namespace {

[[nodiscard]] PrintedField hex_field(std::string name, std::uint32_t number) {
  return {.name = std::move(name),
          .style = ValueStyle::Hex,
          .number = number,
          .meaning = {},
          .text = fmt::format("{:#08x}", number)};
}

/// The link header, with LIDs in one piece; the virtual switch is part of it for Ethernet only.
[[nodiscard]] PrintedHeader link_header(const Opa16bHeader& header) {
  PrintedHeader printed = printed_header(header);
  std::erase_if(printed.fields, [&](const PrintedField& field) {
    return field.name.find("LID[") != std::string::npos ||
           (header.l4_type != kOpaL4Ethernet && field.name == "VeswID");
  });
  if (header.l4_type != kOpaL4Ethernet) {
    printed.bytes = kOpaLinkHeaderBytes;
  }
  printed.fields.insert(printed.fields.begin(), {hex_field("SLID", header.slid.value()),
                                                 hex_field("DLID", header.dlid.value())});
  return printed;
}

/// What the packet carries, in words; its headers are added to `headers`, and `rest` is what is
/// left behind them.
[[nodiscard]] std::string content_of(const Opa16bPacket& packet,
                                     std::vector<PrintedHeader>& headers, ByteSpan& rest) {
  if (packet.header.l4_type == kOpaL4Ethernet && rest.size() >= kOpaEthernetHeaderBytes) {
    rest = rest.subspan(kOpaEthernetHeaderBytes);
    const std::size_t frame_bytes = rest.size();
    if (const auto ethernet = parse<Ethernet>(rest)) {
      headers.push_back(printed_header(*ethernet));
      rest = rest.subspan(kSizeOf<Ethernet>);
    }
    return fmt::format("Ethernet of virtual switch {}, {} bytes", packet.header.vesw_id,
                       frame_bytes);
  }
  if (packet.header.l4_type == kOpaL4Fm && rest.size() >= kSizeOf<Opa16bManagementHeader>) {
    const auto qps = unpack<Opa16bManagementHeader>(rest.first<kSizeOf<Opa16bManagementHeader>>());
    headers.push_back(printed_header(qps));
    rest = rest.subspan(kSizeOf<Opa16bManagementHeader>);
    if (const auto mad = parse<MadHeader>(rest)) {
      headers.push_back(printed_header(*mad));
      rest = rest.subspan(kSizeOf<MadHeader>);
    }
    return fmt::format("MAD from QP {} to QP {}", qps.source_qp.value(), qps.dest_qp.value());
  }
  return fmt::format("L4 type {:#04x}, {} bytes", packet.header.l4_type, rest.size());
}

}  // namespace

Result<Dissection> dissect_opa_16b(ByteSpan bytes) {
  const auto packet = parse_opa_16b(bytes);
  if (!packet) {
    return std::unexpected(packet.error());
  }
  Dissection dissection{
      .packet = {},
      .icrc = {.found = packet->icrc, .expected = packet->expected_icrc},
      .vcrc = std::nullopt
  };
  PrintedPacket& printed = dissection.packet;
  printed.headers.push_back(link_header(packet->header));
  ByteSpan rest = packet->content;
  const std::string content = content_of(*packet, printed.headers, rest);
  printed.summary =
      fmt::format("OPA 16B {:#08x} -> {:#08x} SC {} {}", packet->header.slid.value(),
                  packet->header.dlid.value(), packet->header.service_channel, content);
  printed.payload_bytes = rest.size();
  return dissection;
}

}  // namespace weft::wire
