#include "ulp/offload/coalescer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "ulp/offload/segmenter.h"
#include "ulp/offload/testing/tcp_packets.h"

namespace weft::offload {
namespace {

using testing::make_tcp;
using testing::TcpTexts;
using Bytes = std::vector<std::byte>;

struct Given {
  Offload offload;
  Bytes bytes;
};

class CoalescerOf : public ::testing::TestWithParam<TcpTexts> {
 protected:
  [[nodiscard]] Bytes packet(std::uint32_t sequence, std::size_t bytes, wire::Tcp tcp = {}) {
    tcp.sequence = sequence;
    tcp.ack = true;
    return make_tcp(GetParam(), tcp, testing::random_bytes(random, bytes));
  }
  /// What a stack would send for what it was given: the packets again.
  [[nodiscard]] std::vector<Bytes> split_again(std::size_t network_at = 0) {
    std::vector<Bytes> packets;
    for (Given& each : given) {
      Segmenter segmenter;
      EXPECT_TRUE(segmenter.split(each.offload, each.bytes, network_at, [&](ByteSpan packet) {
        packets.emplace_back(packet.begin(), packet.end());
      }));
    }
    return packets;
  }

  Random random{5};
  std::vector<Given> given;
  Coalescer coalescer{[this](const Offload& offload, ByteSpan bytes) {
    given.push_back({offload, Bytes(bytes.begin(), bytes.end())});
  }};
};

TEST_P(CoalescerOf, PassesAPacketWithWhatIsLeftToDoBehindItsConnection) {  // R-IPOIB-31
  coalescer.add(packet(0, 1000));
  EXPECT_TRUE(given.empty());
  const Bytes next = packet(1000, 1000);
  const Offload left{.needs_checksum = true, .checksum_start = 20, .checksum_at = 16};
  coalescer.pass(left, next);
  ASSERT_EQ(given.size(), 2U);
  EXPECT_EQ(given[0].offload, Offload{});
  EXPECT_EQ(given[1].offload, left);
  EXPECT_EQ(given[1].bytes, next);
  coalescer.flush();
  EXPECT_EQ(given.size(), 2U);
}

TEST_P(CoalescerOf, PutsTogetherWhatASenderHasCutUp) {
  const Bytes data = testing::random_bytes(random, 30'500);
  Bytes whole = make_tcp(GetParam(), {.sequence = 0xFFFF'F000, .ack = true, .psh = true}, data);
  const auto at = parse_tcp(whole, 0);
  Segmenter segmenter;
  std::vector<Bytes> packets;
  ASSERT_TRUE(segmenter.split(
      {.segments = at->is_ipv6 ? Segments::TcpIpv6 : Segments::TcpIpv4, .segment_bytes = 1000},
      whole, 0, [&](ByteSpan segment) {
        packets.emplace_back(segment.begin(), segment.end());
        coalescer.add(segment);
      }));
  ASSERT_EQ(given.size(), 1U);  // the last one pushes
  const Offload& offload = given[0].offload;
  EXPECT_TRUE(offload.needs_checksum);
  EXPECT_EQ(offload.segments, at->is_ipv6 ? Segments::TcpIpv6 : Segments::TcpIpv4);
  EXPECT_EQ(offload.segment_bytes, 1000);
  EXPECT_EQ(offload.header_bytes, at->data_at);
  EXPECT_EQ(offload.checksum_start, at->transport_at);
  EXPECT_EQ(offload.checksum_at, 16);
  ASSERT_EQ(given[0].bytes.size(), whole.size());
  EXPECT_TRUE(std::equal(data.begin(), data.end(),
                         given[0].bytes.begin() + static_cast<std::ptrdiff_t>(at->data_at)));
  EXPECT_EQ(split_again(), packets);
}

TEST_P(CoalescerOf, HoldsAPacketUntilItIsToldOrAnotherDoesNotJoin) {
  const Bytes first = packet(1, 1000);
  coalescer.add(first);
  EXPECT_TRUE(given.empty());
  coalescer.flush();
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].offload, Offload{});
  EXPECT_EQ(given[0].bytes, first);
  coalescer.flush();
  EXPECT_EQ(given.size(), 1U);
}

TEST_P(CoalescerOf, JoinsOnlyPacketsThatAStackCouldHaveCutUp) {
  using Change = std::pair<std::string_view, Bytes>;
  const auto with = [&](const wire::Tcp& tcp) { return packet(1001, 1000, tcp); };
  Bytes damaged = packet(1001, 1000);
  damaged.back() ^= std::byte{1};
  Bytes other_hops = packet(1001, 1000);
  const bool is_ipv6 = GetParam().from.contains(':');
  other_hops[is_ipv6 ? 7 : 8] ^= std::byte{1};
  Bytes padded = packet(1001, 1000);
  padded.push_back({});
  Bytes other_options = packet(1001, 1000);
  other_options[other_options.size() - 1001] = std::byte{0};
  if (!is_ipv6) {
    const auto at = parse_tcp(other_hops, 0);
    set_lengths(other_hops, *at, 8);
  }
  const auto at = parse_tcp(other_options, 0);
  set_tcp(other_options, *at, at->tcp);
  for (const auto& [name, second] : {
           Change{"a gap", packet(1002, 1000)},
           Change{"an overlap", packet(1000, 1000)},
           Change{"longer than the first", packet(1001, 1001)},
           Change{"no data", packet(1001, 0)},
           Change{"another window", with({.window = 3})},
           Change{"another answer", with({.acknowledgment = 3})},
           Change{"an end", with({.fin = true})},
           Change{"a reset", with({.rst = true})},
           Change{"urgent data", with({.urg = true})},
           Change{"congestion", with({.ece = true})},
           Change{"a wrong checksum", damaged},
           Change{"other hops", other_hops},
           Change{"padding", padded},
           Change{"other options", other_options}
  }) {
    given.clear();
    const Bytes first = packet(1, 1000);
    coalescer.add(first);
    coalescer.add(second);
    coalescer.flush();
    ASSERT_EQ(given.size(), 2U) << name;
    EXPECT_EQ(given[0].bytes, first) << name;  // in order
    EXPECT_EQ(given[1].bytes, second) << name;
    EXPECT_EQ(given[1].offload, Offload{}) << name;
  }
}

TEST_P(CoalescerOf, HandsOverWhatItHoldsInTheOrderInWhichItCame) {
  const Bytes of_a = packet(1, 100, {.source_port = 1});
  const Bytes of_b = packet(1, 100, {.source_port = 2});
  const Bytes later_of_a = packet(900, 100, {.source_port = 1});
  for (const Bytes& one : {of_a, of_b, later_of_a}) {
    coalescer.add(one);
  }
  ASSERT_EQ(given.size(), 1U);
  coalescer.flush();
  ASSERT_EQ(given.size(), 3U);
  EXPECT_EQ(given[1].bytes, of_b);
  EXPECT_EQ(given[2].bytes, later_of_a);
}

TEST_P(CoalescerOf, HandsOverAFragmentBehindWhatItHolds) {
  const Bytes first = packet(1, 1000);
  Bytes fragment = packet(1001, 1000);
  fragment[6] = std::byte{0x2C};  // more fragments; of IPv6, a fragment's header
  coalescer.add(first);
  coalescer.add(fragment);
  ASSERT_EQ(given.size(), 2U);
  EXPECT_EQ(given[0].bytes, first);
  EXPECT_EQ(given[1].bytes, fragment);
}

TEST_P(CoalescerOf, KeepsEachConnectionInOrder) {
  // Of 12 connections, which are more than are held: lost, doubled, short and foreign packets.
  std::map<std::uint16_t, std::vector<Bytes>> sent;
  std::map<std::uint16_t, std::uint32_t> sequences;
  for (int i = 0; i < 3000; ++i) {
    const auto port = static_cast<std::uint16_t>(random.below(12));
    std::uint32_t& sequence = sequences[port];
    const std::size_t bytes = random.below(10) == 0 ? random.below(600) : 600;
    const Bytes one = packet(sequence, bytes, {.source_port = port, .psh = random.below(20) == 0});
    sequence += random.below(30) == 0 ? 0 : static_cast<std::uint32_t>(bytes);
    sent[port].push_back(one);
    coalescer.add(one);
    if (random.below(100) == 0) {
      coalescer.flush();
    }
  }
  coalescer.flush();
  EXPECT_LT(given.size(), 3000U);
  std::map<std::uint16_t, std::vector<Bytes>> got;
  for (Bytes& one : split_again()) {
    const auto at = parse_tcp(one, 0);
    set_lengths(one, *at, 7);  // all were sent with the same identification
    got[at->tcp.source_port].push_back(std::move(one));
  }
  EXPECT_EQ(got, sent);
}

TEST_P(CoalescerOf, HandsOverAtOnceWhatHasHardlyRoomForAnother) {
  const Bytes first = packet(0, 1'000);
  const Bytes second = packet(1'000, 40'000);
  coalescer.add(first);
  EXPECT_TRUE(given.empty());
  coalescer.add(second);
  ASSERT_EQ(given.size(), 2U) << "in their order";
  EXPECT_EQ(given[0].bytes, first);
  EXPECT_EQ(given[1].bytes, second);
}

TEST_P(CoalescerOf, HandsOverNoMoreThanAnIpPacketHolds) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    coalescer.add(packet(i * 2000, 2000));
  }
  coalescer.flush();
  EXPECT_EQ(given.size(), 4U);  // of 32 each, and the rest
  EXPECT_TRUE(
      std::ranges::all_of(given, [](const Given& each) { return each.bytes.size() <= 65'535; }));
}

INSTANTIATE_TEST_SUITE_P(Family, CoalescerOf,
                         ::testing::Values(testing::kIpv4Ends, testing::kIpv6Ends),
                         [](const auto& family) { return family.index == 0 ? "Ipv4" : "Ipv6"; });

TEST(Coalescer, HandsOverArbitraryBytesAsTheyAre) {
  Random random{11};
  std::vector<Bytes> given;
  Coalescer coalescer{[&](const Offload& offload, ByteSpan bytes) {
    EXPECT_EQ(offload, Offload{});
    given.emplace_back(bytes.begin(), bytes.end());
  }};
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes = testing::random_bytes(random, random.below(120));
    if (!bytes.empty() && random.below(2) == 0) {
      bytes[0] = std::byte{random.below(2) == 0 ? std::uint8_t{0x45} : std::uint8_t{0x60}};
      if (bytes.size() > 9) {
        bytes[6] = bytes[9] = std::byte{6};
      }
    }
    coalescer.add(bytes, random.below(2) == 0 ? 0 : 14);
    coalescer.flush();
    ASSERT_EQ(given.size(), static_cast<std::size_t>(i) + 1);
    EXPECT_EQ(given.back(), bytes);
  }
}

}  // namespace
}  // namespace weft::offload
