#include "hca/wire_length.h"

#include <array>
#include <utility>

#include "wire/bth.h"
#include "wire/feth.h"
#include "wire/ieth.h"
#include "wire/immdt.h"
#include "wire/layout.h"
#include "wire/lrh.h"
#include "wire/opcode.h"
#include "wire/rdeth.h"
#include "wire/xrceth.h"

namespace weft::hca {
namespace {

using wire::ExtensionHeader;

constexpr std::array<std::pair<ExtensionHeader, std::size_t>, 10> kExtensions{
    {{ExtensionHeader::Rdeth, wire::kSizeOf<wire::Rdeth>},
     {ExtensionHeader::Deth, wire::kSizeOf<wire::Deth>},
     {ExtensionHeader::Xrceth, wire::kSizeOf<wire::Xrceth>},
     {ExtensionHeader::Feth, wire::kSizeOf<wire::Feth>},
     {ExtensionHeader::Reth, wire::kSizeOf<wire::Reth>},
     {ExtensionHeader::AtomicEth, wire::kSizeOf<wire::AtomicEth>},
     {ExtensionHeader::Aeth, wire::kSizeOf<wire::Aeth>},
     {ExtensionHeader::AtomicAckEth, wire::kSizeOf<wire::AtomicAckEth>},
     {ExtensionHeader::Immediate, wire::kSizeOf<wire::ImmDt>},
     {ExtensionHeader::Ieth, wire::kSizeOf<wire::Ieth>}}
};

[[nodiscard]] std::size_t extension_words(wire::Opcode opcode) {
  const wire::OpcodeInfo* const info = wire::opcode_info(opcode);
  std::size_t bytes = 0;
  for (const auto& [extension, size] : kExtensions) {
    bytes += info != nullptr && info->headers.has(extension) ? size : 0;
  }
  return bytes / 4;
}

/// Of packets between a train's first and last, only XRC requests have extension headers.
[[nodiscard]] std::size_t middle_words(wire::Opcode opcode) {
  const wire::OpcodeInfo* const info = wire::opcode_info(opcode);
  const bool has_xrceth = info != nullptr && info->headers.has(ExtensionHeader::Xrceth);
  return has_xrceth ? wire::kSizeOf<wire::Xrceth> / 4 : 0;
}

/// By opcode; looked up for every packet.
const std::array<std::uint8_t, 256> kExtensionWords = [] {
  std::array<std::uint8_t, 256> words{};
  for (std::size_t opcode = 0; opcode < words.size(); ++opcode) {
    words[opcode] = static_cast<std::uint8_t>(extension_words(static_cast<wire::Opcode>(opcode)));
  }
  return words;
}();

constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kFixedWords =
    (wire::kSizeOf<wire::Lrh> + wire::kSizeOf<wire::Bth> + kIcrcBytes) / 4;

}  // namespace

/// By opcode: all words of a packet but those of its payload.
const std::array<std::uint8_t, 256> internal::kSingleWords = [] {
  std::array<std::uint8_t, 256> words{};
  for (std::size_t opcode = 0; opcode < words.size(); ++opcode) {
    words[opcode] = static_cast<std::uint8_t>(kFixedWords + kExtensionWords[opcode]);
  }
  return words;
}();

std::uint64_t packet_length_words(const PacketHeader& header, std::size_t payload_bytes) {
  const std::size_t each = kFixedWords + (header.has_grh ? wire::kSizeOf<wire::Grh> / 4 : 0);
  // Only the last packet of a train can need padding, since MTUs are whole words.
  std::uint64_t words = each * header.packet_count + (payload_bytes + 3) / 4;
  words += kExtensionWords[static_cast<std::uint8_t>(header.opcode)];
  if (header.packet_count > 1) {
    words += kExtensionWords[static_cast<std::uint8_t>(header.last_opcode)];
    words += middle_words(header.opcode) * (header.packet_count - 2U);
  }
  return words;
}

}  // namespace weft::hca
