#include "wire/transport_headers.h"

#include "base/assert.h"

namespace weft::wire {
namespace {

/// Unpacks the next header and advances `in`.
template <WireType T>
Result<void> take(std::span<const std::byte>& in, T& into) {
  const Result<T> parsed = parse<T>(in);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  into = *parsed;
  in = in.subspan(kSizeOf<T>);
  return {};
}

}  // namespace

std::size_t transport_header_bytes(const OpcodeInfo& info) {
  TransportHeaders headers;
  headers.bth.opcode = info.opcode;
  std::size_t bytes = 0;
  for_each_header(headers, [&]<class T>(const T&) { bytes += kSizeOf<T>; });
  return bytes;
}

std::size_t pack(const TransportHeaders& headers, std::span<std::byte> out) {
  std::size_t at = 0;
  for_each_header(headers, [&]<class T>(const T& header) {
    WEFT_DEBUG_ASSERT(at + kSizeOf<T> <= out.size(), "the headers' length was asked for");
    pack(header, out.subspan(at).template first<kSizeOf<T>>());
    at += kSizeOf<T>;
  });
  return at;
}

Result<TransportHeaders> parse_transport_headers(std::span<const std::byte> in) {
  TransportHeaders headers;
  if (auto taken = take(in, headers.bth); !taken) {
    return std::unexpected(taken.error());
  }
  const OpcodeInfo* info = opcode_info(headers.bth.opcode);
  if (info == nullptr) {
    return fail(ErrorCode::Io, "BTH opcode {:#04x} is reserved or not known",
                static_cast<unsigned>(headers.bth.opcode));
  }
  Result<void> status;
  const auto maybe = [&](ExtensionHeader extension, auto& header) {
    if (status && info->headers.has(extension)) {
      status = take(in, header);
    }
  };
  maybe(ExtensionHeader::Deth, headers.deth);
  maybe(ExtensionHeader::Xrceth, headers.xrceth);
  maybe(ExtensionHeader::Feth, headers.feth);
  maybe(ExtensionHeader::Reth, headers.reth);
  maybe(ExtensionHeader::AtomicEth, headers.atomic_eth);
  maybe(ExtensionHeader::Aeth, headers.aeth);
  maybe(ExtensionHeader::AtomicAckEth, headers.atomic_ack_eth);
  maybe(ExtensionHeader::Immediate, headers.immdt);
  maybe(ExtensionHeader::Ieth, headers.ieth);
  if (!status) {
    return std::unexpected(status.error());
  }
  return headers;
}

}  // namespace weft::wire
