#include "ulp/ipoib/fragments.h"

#include <algorithm>
#include <optional>

#include "base/internet_checksum.h"
#include "ulp/ipoib/listening.h"
#include "wire/ipv4.h"
#include "wire/layout.h"

namespace weft::ipoib {
namespace {

using Octets = std::vector<std::byte>;

constexpr std::size_t kHeader = wire::kSizeOf<wire::Ipv4>;
constexpr std::size_t kUnit = 8;  // of offsets
constexpr std::size_t kDword = 4;
constexpr std::size_t kLongestData = 65'535;  // that an offset and a length can name

constexpr std::byte kEndOfOptions{0};
constexpr std::byte kNoOperation{1};
constexpr std::byte kCopied{0x80};

/// Those options that every fragment has (RFC 791 §3.1), filled up to whole dwords. None: one is
/// longer than the header.
[[nodiscard]] std::optional<Octets> copied_options(ByteSpan options) {
  Octets copied;
  while (!options.empty() && options[0] != kEndOfOptions) {
    std::size_t length = 1;
    if (options[0] != kNoOperation) {
      length = options.size() < 2 ? 0 : std::to_integer<std::size_t>(options[1]);
      if (length < 2 || length > options.size()) {
        return std::nullopt;
      }
    }
    if ((options[0] & kCopied) != std::byte{}) {
      copied.insert(copied.end(), options.begin(),
                    options.begin() + static_cast<std::ptrdiff_t>(length));
    }
    options = options.subspan(length);
  }
  copied.resize((copied.size() + kDword - 1) / kDword * kDword, kEndOfOptions);
  return copied;
}

[[nodiscard]] Octets put_together(wire::Ipv4 header, ByteSpan options, ByteSpan data) {
  const std::size_t header_bytes = kHeader + options.size();
  header.header_dwords = static_cast<std::uint8_t>(header_bytes / kDword);
  header.total_length = static_cast<std::uint16_t>(header_bytes + data.size());
  header.checksum = 0;
  header.checksum =
      internet_checksum(std::uint64_t{internet_sum(wire::pack(header))} + internet_sum(options));
  const auto packed = wire::pack(header);
  Octets packet{packed.begin(), packed.end()};
  packet.insert(packet.end(), options.begin(), options.end());
  packet.insert(packet.end(), data.begin(), data.end());
  return packet;
}

}  // namespace

std::vector<Octets> fragments_of(ByteSpan packet, std::uint32_t mtu) {
  const auto ends = ends_of(packet);
  if (!ends || !ends->source.is_v4()) {
    return {};
  }
  const auto original = wire::unpack<wire::Ipv4>(packet.first<kHeader>());
  const std::size_t header_bytes = std::size_t{original.header_dwords} * kDword;
  const std::size_t length = std::min<std::size_t>(original.total_length, packet.size());
  if (original.dont_fragment || header_bytes < kHeader || length < header_bytes ||
      mtu < header_bytes + kUnit ||
      original.fragment_offset * kUnit + length - header_bytes > kLongestData) {
    return {};
  }
  const ByteSpan all_options = packet.subspan(kHeader, header_bytes - kHeader);
  const auto copied = copied_options(all_options);
  if (!copied) {
    return {};
  }
  std::vector<Octets> fragments;
  ByteSpan left = packet.first(length).subspan(header_bytes);
  wire::Ipv4 header = original;
  ByteSpan options = all_options;
  while (kHeader + options.size() + left.size() > mtu) {
    const std::size_t units = (mtu - kHeader - options.size()) / kUnit;
    header.more_fragments = true;
    fragments.push_back(put_together(header, options, left.first(units * kUnit)));
    header.fragment_offset = static_cast<std::uint16_t>(header.fragment_offset + units);
    left = left.subspan(units * kUnit);
    options = *copied;
  }
  header.more_fragments = original.more_fragments;
  fragments.push_back(put_together(header, options, left));
  return fragments;
}

}  // namespace weft::ipoib
