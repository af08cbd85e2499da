// Arbitrary bytes as what a host leaves to its interface, and as packets that come one after the
// other. Checks that nothing is lost or made up: what is put together and cut up again is what
// came.
//
// Input: ten octets that say what is left to do, then packets, each behind its length of two
// octets.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ulp/offload/coalescer.h"
#include "ulp/offload/segmenter.h"
#include "ulp/offload/tcp_packet.h"

namespace {

using weft::ByteSpan;
namespace offload = weft::offload;
using Bytes = std::vector<std::byte>;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class Input {
 public:
  explicit Input(ByteSpan bytes) : rest_(bytes) {}
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  [[nodiscard]] std::uint8_t octet() {
    const ByteSpan one = take(1);
    return one.empty() ? std::uint8_t{} : std::to_integer<std::uint8_t>(one[0]);
  }
  [[nodiscard]] std::uint16_t word() {
    const unsigned high = octet();
    return static_cast<std::uint16_t>(high << 8 | octet());
  }
  [[nodiscard]] Bytes packet() {
    const ByteSpan bytes = take(word());
    return {bytes.begin(), bytes.end()};
  }

 private:
  ByteSpan take(std::size_t count) {
    const ByteSpan taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  ByteSpan rest_;
};

/// Data of TCP, each packet with headers of its own.
void check_split(const offload::Offload& left, Bytes packet, std::size_t network_at) {
  const auto whole = offload::parse_tcp(packet, network_at);
  Bytes data;
  std::size_t count = 0;
  offload::Segmenter segmenter;
  const std::size_t size = packet.size();
  const bool is_sent = segmenter.split(left, packet, network_at, [&](ByteSpan segment) {
    ++count;
    if (left.segments == offload::Segments::One) {
      require(segment.size() == size);
      return;
    }
    const auto at = offload::parse_tcp(segment, network_at);
    require(at && offload::has_right_checksums(segment, *at));
    require(segment.size() - at->data_at <= left.segment_bytes);
    data.insert(data.end(), segment.begin() + static_cast<std::ptrdiff_t>(at->data_at),
                segment.end());
  });
  require(is_sent == (count != 0));
  if (is_sent && left.segments != offload::Segments::One) {
    require(std::ranges::equal(data, ByteSpan{packet}.subspan(whole->data_at)));
  }
}

/// Octets of what a stack would take from the result, which are those that came.
void check_coalesced(const std::vector<Bytes>& packets, std::size_t network_at) {
  std::size_t came = 0;
  std::size_t given = 0;
  offload::Coalescer coalescer{[&](const offload::Offload& left, ByteSpan bytes) {
    Bytes packet{bytes.begin(), bytes.end()};
    offload::Segmenter segmenter;
    require(segmenter.split(left, packet, network_at,
                            [&](ByteSpan segment) { given += segment.size(); }));
  }};
  for (const Bytes& packet : packets) {
    came += packet.size();
    coalescer.add(packet, network_at);
  }
  coalescer.flush();
  require(given == came);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{std::as_bytes(std::span{data, size})};
  const std::uint8_t flags = input.octet();
  const std::size_t network_at = input.octet() % 20U;
  offload::Offload left{.needs_checksum = (flags & 1U) != 0,
                        .segments = static_cast<offload::Segments>((flags >> 1U) % 3U)};
  left.header_bytes = input.word();
  left.segment_bytes = input.word();
  left.checksum_start = input.word();
  left.checksum_at = input.word();
  std::vector<Bytes> packets;
  while (!input.is_empty()) {
    packets.push_back(input.packet());
  }
  if (!packets.empty()) {
    check_split(left, packets.front(), network_at);
  }
  check_coalesced(packets, network_at);
  return 0;
}
