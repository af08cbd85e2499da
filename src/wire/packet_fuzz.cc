// Arbitrary bytes as InfiniBand packet and Ethernet frame. Checks that they are refused with a
// reason, or dissected, printed in all formats, and serialized again.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/bytes.h"
#include "wire/dissect.h"

namespace weft::wire {
namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// Prints in one of four formats or, more often, not at all, because printing dominates the run
/// time.
void print(const Result<Dissection>& dissection, unsigned way) {
  if (!dissection) {
    require(!dissection.error().reason.empty());
    return;
  }
  switch (way) {
    case 0:
      require(!summary(*dissection).empty());
      break;
    case 1:
      require(!describe(*dissection).empty());
      break;
    case 2:
      require(!to_text(dissection->packet).empty());
      break;
    case 3:
      require(!to_json(*dissection).empty());
      break;
    default:
      break;
  }
}

/// Dissections consist of text and are slow as well, so only some of the 64 variants create one.
constexpr unsigned kDissectedWays = 16;

void use_infiniband(ByteSpan bytes, unsigned way) {
  const auto packet = parse_ib_packet(bytes, CrcCheck::Verify);
  const auto unchecked = parse_ib_packet(bytes, CrcCheck::Skip);
  require(unchecked || (!packet && !unchecked.error().reason.empty()));
  if (way < kDissectedWays) {
    const auto dissection = dissect_infiniband(bytes);
    print(dissection, way);
    require(dissection.has_value() == unchecked.has_value());
    require(!packet || (dissection->icrc.is_right() && dissection->vcrc->is_right()));
  }
  if (unchecked) {
    std::vector<std::byte> again;
    serialise(*unchecked, again);
    require(again.size() == bytes.size());
    const auto twice = parse_ib_packet(again, CrcCheck::Verify);
    require(twice.has_value() && twice->transport == unchecked->transport &&
            std::ranges::equal(twice->payload, unchecked->payload));
  }
}

void use_ethernet(ByteSpan frame, unsigned way) {
  const auto packet = parse_roce_packet(frame, CrcCheck::Verify);
  const auto unchecked = parse_roce_packet(frame, CrcCheck::Skip);
  require(is_roce_v2(frame) || !unchecked);
  require(unchecked || (!packet && !unchecked.error().reason.empty()));
  if (way < kDissectedWays) {
    const auto dissection = dissect_ethernet(frame);
    print(dissection, way);
    require(dissection.has_value() == unchecked.has_value());
    require(!packet || dissection->icrc.is_right());
  }
  if (packet) {
    if (const auto* ip = std::get_if<Ipv4>(&packet->ip)) {
      Ipv4 right = *ip;
      right.checksum = ipv4_checksum(*ip);
      require(ipv4_checksum(right) == right.checksum);
    }
  }
  if (unchecked) {
    std::vector<std::byte> again;
    serialise(*unchecked, again);
    require(parse_roce_packet(again, CrcCheck::Verify).has_value());
  }
}

/// Corrects the packet's length field, so that a fuzzer passes the first check.
std::vector<std::byte> with_right_length(ByteSpan bytes) {
  std::vector<std::byte> packet(bytes.begin(), bytes.end());
  packet.resize(std::min<std::size_t>((packet.size() + 3) / 4 * 4, 4 * 0x7FF));
  if (packet.size() >= kSizeOf<Lrh>) {
    Lrh lrh = unpack<Lrh>(std::span{packet}.first<kSizeOf<Lrh>>());
    lrh.link_version = 0;
    lrh.packet_length = static_cast<std::uint16_t>(packet.size() / 4);
    pack(lrh, std::span{packet}.first<kSizeOf<Lrh>>());
  }
  packet.resize(packet.size() + 2);
  return packet;
}

}  // namespace
}  // namespace weft::wire

/// The first octet selects the kind of input; the sum of the others selects whether to dissect and
/// how to print, so that inputs covering the printer do not slow down all others.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const weft::ByteSpan input = std::as_bytes(std::span{data, size}.subspan(1));
  const unsigned way = std::accumulate(data, data + size, 0U) % 64;
  switch (data[0] % 4) {
    case 0:
      weft::wire::use_infiniband(input, way);
      break;
    case 1:
      weft::wire::use_infiniband(weft::wire::with_right_length(input), way);
      break;
    default:
      weft::wire::use_ethernet(input, way);
  }
  return 0;
}
