#include "wire/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "wire/layout.h"
#include "wire/opcode.h"

namespace weft::wire {
namespace {

/// Fields that people compare in decimal; every other number is an identifier or key: hex.
[[nodiscard]] bool is_decimal(std::string_view name, unsigned bits) {
  static constexpr std::array<std::string_view, 18> kDecimal{
      "DLID",   "SLID",   "PSN",    "MSN",  "PktLen", "PadCnt", "VL",     "LVer",    "SL",
      "PayLen", "HopLmt", "DMALen", "TVer", "IPVer",  "TTL",    "Length", "SrcPort", "DstPort"};
  for (const std::string_view decimal : kDecimal) {
    if (name == decimal) {
      return true;
    }
  }
  return bits <= 4;
}

/// Collects visit()'s fields as text.
class FieldPrinter {
 public:
  explicit FieldPrinter(PrintedHeader& into) : into_(into) {}

  void number(std::string_view name, unsigned bits, std::uint64_t value) {
    std::string text;
    if (name == "OpCode") {
      const OpcodeInfo* const info = opcode_info(static_cast<Opcode>(value));
      text = fmt::format("{} ({:#04x})", info != nullptr ? info->name : "reserved", value);
    } else if (is_decimal(name, bits)) {
      text = fmt::format("{}", value);
    } else {
      text = fmt::format("{:#0{}x}", value, 2 + (bits + 3) / 4);
    }
    into_.fields.emplace_back(name, std::move(text));
  }

  void octets(std::string_view name, std::span<const std::byte> bytes) {
    std::string text;
    const std::size_t group = bytes.size() == 16 ? 2 : 1;  // GIDs and IPv6 in pairs, else octets
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      text += fmt::format("{}{:02x}", i != 0 && i % group == 0 ? ":" : "",
                          std::to_integer<unsigned>(bytes[i]));
    }
    into_.fields.emplace_back(name, std::move(text));
  }

 private:
  PrintedHeader& into_;
};

template <class Header>
void add(PrintedPacket& packet, const Header& header) {
  PrintedHeader& into = packet.headers.emplace_back();
  into.name = Header::kName;
  visit(header, FieldPrinter{into});
}

[[nodiscard]] std::string transport_summary(const TransportHeaders& transport,
                                            std::size_t payload_bytes) {
  const OpcodeInfo* const info = opcode_info(transport.bth.opcode);
  return fmt::format("{} DestQP {:#x} PSN {} {} bytes", info != nullptr ? info->name : "reserved",
                     transport.bth.dest_qp.value(), transport.bth.psn.value(), payload_bytes);
}

[[nodiscard]] std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;  // names and numbers: nothing below a space
  }
  return out;
}

}  // namespace

PrintedPacket printed(const IbPacket& packet) {
  PrintedPacket out;
  add(out, packet.lrh);
  if (packet.grh) {
    add(out, *packet.grh);
  }
  for_each_header(packet.transport, [&](const auto& header) { add(out, header); });
  out.payload_bytes = packet.payload.size();
  out.summary = fmt::format("LID {} -> {} {}", packet.lrh.slid.value(), packet.lrh.dlid.value(),
                            transport_summary(packet.transport, packet.payload.size()));
  return out;
}

PrintedPacket printed(const RocePacket& packet) {
  PrintedPacket out;
  add(out, packet.ethernet);
  if (packet.vlan) {
    add(out, *packet.vlan);
  }
  std::visit([&](const auto& ip) { add(out, ip); }, packet.ip);
  add(out, packet.udp);
  for_each_header(packet.transport, [&](const auto& header) { add(out, header); });
  out.payload_bytes = packet.payload.size();
  out.summary =
      fmt::format("RoCEv2 {}", transport_summary(packet.transport, packet.payload.size()));
  return out;
}

std::string to_text(const PrintedPacket& packet) {
  std::string text = packet.summary + "\n";
  for (const PrintedHeader& header : packet.headers) {
    text += fmt::format("  {:<12}", header.name);
    for (const auto& [name, value] : header.fields) {
      text += fmt::format(" {}={}", name, value);
    }
    text += "\n";
  }
  return text;
}

std::string to_json(const PrintedPacket& packet) {
  std::vector<std::string> headers;
  for (const PrintedHeader& header : packet.headers) {
    std::vector<std::string> fields;
    for (const auto& [name, value] : header.fields) {
      fields.push_back(fmt::format("\"{}\":\"{}\"", escaped(name), escaped(value)));
    }
    headers.push_back(
        fmt::format("{{\"header\":\"{}\",{}}}", escaped(header.name), fmt::join(fields, ",")));
  }
  return fmt::format("{{\"summary\":\"{}\",\"headers\":[{}],\"payload_bytes\":{}}}",
                     escaped(packet.summary), fmt::join(headers, ","), packet.payload_bytes);
}

}  // namespace weft::wire
