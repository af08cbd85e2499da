#include "hca/receive_scaling.h"

#include <array>
#include <optional>

#include "wire/ethernet.h"
#include "wire/ipoib/encapsulation.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::hca {
namespace {

using verbs::HashField;
using verbs::HashFields;

constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::size_t kPortBytes = 2;

/// What the hash is taken of: two IPv6 addresses and two ports at most.
class Input {
 public:
  void add(ByteSpan octets) {
    copy_bytes(std::span{octets_}.subspan(size_, octets.size()), octets);
    size_ += octets.size();
  }
  [[nodiscard]] ByteSpan octets() const { return std::span{octets_}.first(size_); }

 private:
  std::array<std::byte, 36> octets_{};
  std::size_t size_{};
};

/// Adds the ports that are wanted of a segment of `protocol`.
void add_ports(Input& input, HashFields wanted, std::uint8_t protocol, ByteSpan segment) {
  if ((protocol != kTcp && protocol != kUdp) || segment.size() < 2 * kPortBytes) {
    return;
  }
  const bool is_tcp = protocol == kTcp;
  if (wanted.has(is_tcp ? HashField::SourcePortTcp : HashField::SourcePortUdp)) {
    input.add(segment.first(kPortBytes));
  }
  if (wanted.has(is_tcp ? HashField::DestinationPortTcp : HashField::DestinationPortUdp)) {
    input.add(segment.subspan(kPortBytes, kPortBytes));
  }
}

/// None: there are fewer bytes. Without words for it, since a datagram is no error.
template <class Header>
[[nodiscard]] std::optional<Header> take(ByteSpan& bytes) {
  constexpr std::size_t kBytes = wire::kSizeOf<Header>;
  if (bytes.size() < kBytes) {
    return std::nullopt;
  }
  const auto header = wire::unpack<Header>(bytes.first<kBytes>());
  bytes = bytes.subspan(kBytes);
  return header;
}

void add_ipv4(Input& input, HashFields wanted, ByteSpan packet) {
  const auto header = take<wire::Ipv4>(packet);
  if (!header) {
    return;
  }
  if (wanted.has(HashField::SourceIpv4)) {
    input.add(header->source);
  }
  if (wanted.has(HashField::DestinationIpv4)) {
    input.add(header->destination);
  }
  constexpr std::size_t kLeastDwords = wire::kSizeOf<wire::Ipv4> / 4;
  const bool is_fragment = header->more_fragments || header->fragment_offset != 0;
  if (is_fragment || header->header_dwords < kLeastDwords) {
    return;
  }
  const std::size_t option_bytes = std::size_t{4} * (header->header_dwords - kLeastDwords);
  if (option_bytes <= packet.size()) {
    add_ports(input, wanted, header->protocol, packet.subspan(option_bytes));
  }
}

void add_ipv6(Input& input, HashFields wanted, ByteSpan packet) {
  const auto header = take<wire::Ipv6>(packet);
  if (!header) {
    return;
  }
  if (wanted.has(HashField::SourceIpv6)) {
    input.add(header->source);
  }
  if (wanted.has(HashField::DestinationIpv6)) {
    input.add(header->destination);
  }
  add_ports(input, wanted, header->next_header, packet);
}

}  // namespace

std::uint32_t toeplitz_hash(const std::array<std::byte, verbs::kReceiveHashKeyBytes>& key,
                            ByteSpan input) {
  WEFT_ASSERT(input.size() + sizeof(std::uint32_t) <= key.size(), "the key reaches no further");
  std::uint64_t window = 0;  // its upper half is the 32 bits of the key at the current bit
  for (std::size_t i = 0; i < sizeof window; ++i) {
    window = window << 8 | std::to_integer<std::uint64_t>(key[i]);
  }
  std::uint32_t hash = 0;
  for (std::size_t at = 0; at < input.size(); ++at) {
    for (unsigned bit = 0x80; bit != 0; bit >>= 1U) {
      if ((std::to_integer<unsigned>(input[at]) & bit) != 0) {
        hash ^= static_cast<std::uint32_t>(window >> 32);
      }
      window <<= 1U;
    }
    const std::size_t next = at + sizeof window;
    window |= next < key.size() ? std::to_integer<std::uint64_t>(key[next]) : 0;
  }
  return hash;
}

std::uint32_t receive_hash(const verbs::ReceiveHash& by, ByteSpan payload) {
  const auto encapsulation = take<wire::IpoibEncapsulation>(payload);
  if (!encapsulation) {
    return 0;
  }
  constexpr HashFields kIpv4 = HashFields{HashField::SourceIpv4} | HashField::DestinationIpv4;
  constexpr HashFields kIpv6 = HashFields{HashField::SourceIpv6} | HashField::DestinationIpv6;
  Input input;
  if (encapsulation->type == wire::kEtherTypeIpv4 && (by.fields & kIpv6).empty()) {
    add_ipv4(input, by.fields, payload);
  } else if (encapsulation->type == wire::kEtherTypeIpv6 && (by.fields & kIpv4).empty()) {
    add_ipv6(input, by.fields, payload);
  }
  return toeplitz_hash(by.key, input.octets());
}

}  // namespace weft::hca
