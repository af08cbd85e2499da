#include "host/tap_set.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace weft::host {
namespace {

constexpr std::size_t kRingBytes = ring::ring_bytes(kTapRingCapacity);

struct Reader {
  Reader() : file(std::move(*os::create_shared_memory("tap", kRingBytes))) {
    memory = std::move(*os::map_shared(file, os::Protection::ReadWrite, kRingBytes, kRingBytes));
    ring = ring::Consumer<>{memory.bytes()};
  }
  [[nodiscard]] os::Mapping writer_side() const {
    return std::move(*os::map_shared(file, os::Protection::ReadWrite, kRingBytes, kRingBytes));
  }
  os::UniqueFd file;
  os::Mapping memory;
  ring::Consumer<> ring;
};

constexpr std::array<fabric::Hop, 2> kPath{
    {{fabric::PortIndex{1}, fabric::PortIndex{2}}, {fabric::PortIndex{3}, fabric::PortIndex{4}}}
};

TEST(TapSet, ShowsEachPacketOnceToThoseWhosePortItCrosses) {
  Reader in;
  Reader elsewhere;
  TapSet taps;
  taps.open(1, 2, in.writer_side());
  taps.open(2, 9, elsewhere.writer_side());
  const std::array<std::byte, 3> payload{std::byte{7}, std::byte{8}, std::byte{9}};
  const std::array<ByteSpan, 1> gather{payload};
  EXPECT_TRUE(taps.show(kPath, bytes_of(std::uint32_t{0xABCD}), gather));
  const auto front = in.ring.front();
  ASSERT_EQ(front.state, ring::Consumer<>::State::Record);
  ASSERT_EQ(front.body.size(), sizeof(TapRecord) + 4 + 3);
  TapRecord record;
  std::memcpy(&record, front.body.data(), sizeof record);
  EXPECT_EQ(record.port, 2U);
  EXPECT_EQ(record.direction, TapDirection::In);
  EXPECT_EQ(front.body.back(), std::byte{9});
  in.ring.pop();
  EXPECT_EQ(in.ring.front().state, ring::Consumer<>::State::Empty);
  EXPECT_EQ(elsewhere.ring.front().state, ring::Consumer<>::State::Empty);
}

TEST(TapSet, LetsNobodySendPastAFullCapture) {
  Reader reader;
  TapSet taps;
  taps.open(1, 3, reader.writer_side());
  const std::vector<std::byte> payload(16'384);
  const std::array<ByteSpan, 1> gather{payload};
  int shown = 0;
  while (taps.show(kPath, {}, gather)) {
    ASSERT_LT(++shown, 1'000);
  }
  EXPECT_GT(shown, 10);
  for (int i = 0; i < shown; ++i) {
    ASSERT_EQ(reader.ring.front().state, ring::Consumer<>::State::Record);
    reader.ring.pop();
  }
  static_cast<void>(reader.ring.front());
  EXPECT_TRUE(taps.show(kPath, {}, gather)) << "there is room again";
  taps.close(1);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(taps.show(kPath, {}, gather)) << "a capture that ended stops nobody";
  }
}

}  // namespace
}  // namespace weft::host
