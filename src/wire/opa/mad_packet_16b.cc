#include "wire/opa/mad_packet_16b.h"

#include "base/assert.h"
#include "wire/opa/vema_mad.h"

namespace weft::wire {

std::vector<std::byte> to_opa_mad_packet(Opa16bHeader header,
                                         const Opa16bManagementHeader& management, ByteSpan mad) {
  WEFT_ASSERT(mad.size() == kOpaMadBytes, "MADs of Omni-Path have one length");
  header.l4_type = kOpaL4Fm;
  return to_opa_16b(header, pack(management), mad);
}

Result<OpaMadPacket> parse_opa_mad(ByteSpan packet) {
  const auto parsed = parse_opa_16b(packet);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  if (parsed->header.l4_type != kOpaL4Fm) {
    return fail(ErrorCode::Io, "L4 type {:#x} is not that of management", parsed->header.l4_type);
  }
  constexpr std::size_t kHead = kSizeOf<Opa16bManagementHeader>;
  if (parsed->content.size() != kHead + kOpaMadBytes) {
    return fail(ErrorCode::Io, "{} bytes of content are not {} and a MAD of {}",
                parsed->content.size(), kHead, kOpaMadBytes);
  }
  return OpaMadPacket{.header = parsed->header,
                      .management = unpack<Opa16bManagementHeader>(parsed->content.first<kHead>()),
                      .mad = parsed->content.subspan(kHead),
                      .has_valid_icrc = parsed->has_valid_icrc()};
}

}  // namespace weft::wire
