#include "wire/dissect.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::wire {
namespace {

/// A CRC's bytes as a big-endian number.
[[nodiscard]] std::uint32_t number_of(ByteSpan bytes) {
  std::uint32_t number = 0;
  for (const std::byte octet : bytes) {
    number = number << 8 | std::to_integer<std::uint32_t>(octet);
  }
  return number;
}

void describe_crc(std::string& text, std::string_view name, const CrcComparison& crc,
                  unsigned digits) {
  text += fmt::format("  {}: {:#0{}x}", name, crc.found, digits + 2);
  text += crc.is_right() ? ", right\n"
                         : fmt::format(", wrong: {:#0{}x} expected\n", crc.expected, digits + 2);
}

}  // namespace

Result<Dissection> dissect_infiniband(ByteSpan bytes) {
  const auto packet = parse_ib_packet(bytes, CrcCheck::Skip);
  if (!packet) {
    return std::unexpected(packet.error());
  }
  const PacketCrcs expected = expected_crcs(*packet, bytes);
  const std::size_t vcrc_at = bytes.size() - expected.vcrc.size();
  const std::size_t icrc_at = vcrc_at - expected.icrc.size();
  return Dissection{
      .packet = printed(*packet),
      .icrc = {.found = number_of(bytes.subspan(icrc_at, expected.icrc.size())),
               .expected = number_of(expected.icrc)},
      .vcrc = CrcComparison{.found = number_of(bytes.subspan(vcrc_at)),
               .expected = number_of(expected.vcrc)},
  };
}

Result<Dissection> dissect_ethernet(ByteSpan frame) {
  const auto packet = parse_roce_packet(frame, CrcCheck::Skip);
  if (!packet) {
    return std::unexpected(packet.error());
  }
  const RoceIcrc icrc = icrc_of(*packet, frame);
  return Dissection{
      .packet = printed(*packet),
      .icrc = {.found = number_of(icrc.found), .expected = number_of(icrc.expected)},
      .vcrc = std::nullopt,
  };
}

std::string summary(const Dissection& dissection) {
  std::string text = dissection.packet.summary;
  text += dissection.icrc.is_right() ? "" : ", ICRC wrong";
  text += !dissection.vcrc || dissection.vcrc->is_right() ? "" : ", VCRC wrong";
  return text;
}

std::string describe(const Dissection& dissection) {
  std::string text = summary(dissection) + "\n";
  for (const PrintedHeader& header : dissection.packet.headers) {
    text += fmt::format("  {}, {} bytes\n", header.name, header.bytes);
    std::size_t width = 0;
    for (const PrintedField& field : header.fields) {
      width = std::max(width, field.name.size());
    }
    for (const PrintedField& field : header.fields) {
      text += fmt::format("    {:<{}}  {}\n", field.name, width, field.text);
    }
  }
  text += fmt::format("  payload: {} bytes\n", dissection.packet.payload_bytes);
  describe_crc(text, "ICRC", dissection.icrc, 8);
  if (dissection.vcrc) {
    describe_crc(text, "VCRC", *dissection.vcrc, 4);
  }
  return text;
}

}  // namespace weft::wire
