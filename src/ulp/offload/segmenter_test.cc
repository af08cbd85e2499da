#include "ulp/offload/segmenter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/internet_checksum.h"
#include "ulp/offload/tcp_packet.h"
#include "ulp/offload/testing/tcp_packets.h"

namespace weft::offload {
namespace {

using testing::make_tcp;
using testing::TcpTexts;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kFrame = 14;

class SegmenterOf : public ::testing::TestWithParam<TcpTexts> {
 protected:
  [[nodiscard]] bool is_ipv6() const { return GetParam().from.contains(':'); }
  [[nodiscard]] Segments segments() const {
    return is_ipv6() ? Segments::TcpIpv6 : Segments::TcpIpv4;
  }
  std::vector<Bytes> split(const Offload& offload, Bytes packet, std::size_t network_at = 0) {
    std::vector<Bytes> made;
    is_sent = segmenter.split(offload, packet, network_at, [&](ByteSpan segment) {
      made.emplace_back(segment.begin(), segment.end());
    });
    return made;
  }

  Random random{3};
  Segmenter segmenter;
  bool is_sent{};
};

TEST_P(SegmenterOf, CutsDataIntoPacketsWithHeadersOfTheirOwn) {
  const Bytes data = testing::random_bytes(random, 2500);
  const wire::Tcp tcp{.source_port = 5201,
                      .destination_port = 40'000,
                      .sequence = 0xFFFF'FF00,
                      .acknowledgment = 9,
                      .cwr = true,
                      .ack = true,
                      .psh = true,
                      .fin = true,
                      .window = 512};
  const Bytes frame(kFrame, std::byte{0xEE});
  const Bytes whole = make_tcp(GetParam(), tcp, data, frame);
  const auto made =
      split({.needs_checksum = true, .segments = segments(), .segment_bytes = 1000}, whole, kFrame);
  ASSERT_TRUE(is_sent);
  ASSERT_EQ(made.size(), 3U);
  Bytes joined;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto at = parse_tcp(made[i], kFrame);
    ASSERT_TRUE(at);
    EXPECT_TRUE(has_right_checksums(made[i], *at));
    EXPECT_EQ(told_bytes(made[i], *at), made[i].size() - kFrame);
    EXPECT_EQ(at->tcp.sequence, tcp.sequence + 1000 * static_cast<std::uint32_t>(i));
    EXPECT_EQ(at->tcp.psh, i == 2);
    EXPECT_EQ(at->tcp.fin, i == 2);
    EXPECT_EQ(at->tcp.cwr, i == 0);
    EXPECT_EQ(at->tcp.acknowledgment, 9U);
    if (!is_ipv6()) {
      EXPECT_EQ(identification_of(made[i], *at), 7 + i);
    }
    EXPECT_TRUE(std::equal(frame.begin(), frame.end(), made[i].begin()));
    joined.insert(joined.end(), made[i].begin() + static_cast<std::ptrdiff_t>(at->data_at),
                  made[i].end());
  }
  EXPECT_EQ(joined, data);
}

TEST_P(SegmenterOf, CompletesAChecksum) {
  const Bytes right = make_tcp(GetParam(), {.ack = true}, testing::random_bytes(random, 333));
  const auto at = parse_tcp(right, 0);
  Bytes left = right;
  set_tcp(left, *at, at->tcp, false);
  EXPECT_NE(left, right);
  const auto made = split({.needs_checksum = true,
                           .checksum_start = static_cast<std::uint16_t>(at->transport_at),
                           .checksum_at = 16},
                          left);
  EXPECT_THAT(made, ::testing::ElementsAre(right));
}

TEST_P(SegmenterOf, SendsWhatNeedsNothingAsItIs) {
  const Bytes packet = make_tcp(GetParam(), {.syn = true}, {});
  EXPECT_THAT(split({}, packet), ::testing::ElementsAre(packet));
}

TEST_P(SegmenterOf, SendsNothingOfWhatIsNotAsItIsSaid) {
  const Bytes packet = make_tcp(GetParam(), {.ack = true}, testing::random_bytes(random, 100));
  const Segments other = is_ipv6() ? Segments::TcpIpv4 : Segments::TcpIpv6;
  const auto is_refused = [&](const Offload& offload, const Bytes& bytes,
                              std::size_t network_at = 0) {
    return split(offload, bytes, network_at).empty() && !is_sent;
  };
  EXPECT_TRUE(is_refused({.segments = other, .segment_bytes = 50}, packet));
  EXPECT_TRUE(is_refused({.segments = segments(), .segment_bytes = 0}, packet));
  EXPECT_TRUE(is_refused({.segments = segments(), .segment_bytes = 50}, packet, 1));
  EXPECT_TRUE(is_refused({.segments = segments(), .segment_bytes = 50}, packet, 1000));
  EXPECT_TRUE(is_refused({.segments = segments(), .segment_bytes = 50}, Bytes(30)));
  EXPECT_TRUE(
      is_refused({.needs_checksum = true, .checksum_start = 160, .checksum_at = 16}, packet));
  EXPECT_TRUE(is_refused({.needs_checksum = true, .checksum_start = 0xFFFF, .checksum_at = 0xFFFF},
                         packet));
}

INSTANTIATE_TEST_SUITE_P(Family, SegmenterOf,
                         ::testing::Values(testing::kIpv4Ends, testing::kIpv6Ends),
                         [](const auto& family) { return family.index == 0 ? "Ipv4" : "Ipv6"; });

TEST(Segmenter, WritesNoUdpChecksumOfNone) {  // RFC 768
  // Words that sum up to 0xFFFF, whose checksum is 0, which says that there is none.
  std::vector<std::byte> packet(10);
  packet[0] = packet[1] = std::byte{0xFF};
  Segmenter segmenter;
  EXPECT_TRUE(segmenter.split({.needs_checksum = true, .checksum_start = 0, .checksum_at = 6},
                              packet, 0, [](ByteSpan) {}));
  EXPECT_EQ(packet[6], std::byte{0xFF});
  EXPECT_EQ(packet[7], std::byte{0xFF});
}

}  // namespace
}  // namespace weft::offload
