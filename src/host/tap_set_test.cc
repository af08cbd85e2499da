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

TEST(TapSet, SaysWhetherACaptureIsOpen) {  // R-IPOIB-31
  Reader reader;
  TapSet taps;
  EXPECT_TRUE(taps.is_empty());
  taps.open(1, 2, reader.writer_side());
  EXPECT_FALSE(taps.is_empty());
  taps.close(1);
  EXPECT_TRUE(taps.is_empty());
}

TEST(TapSet, LetsNobodySendPastAFullCapture) {
  Reader reader;
  TapSet taps{TapSet::kEndless};
  taps.open(1, 3, reader.writer_side());
  const std::vector<std::byte> payload(16'384);
  const std::array<ByteSpan, 1> gather{payload};
  int shown = 0;
  while (taps.show(kPath, {}, gather)) {
    ASSERT_LT(++shown, 1'000);
  }
  EXPECT_GT(shown, 10);
  bool has_acted = false;
  EXPECT_FALSE(taps.with_room(kPath, payload.size(), [&] { has_acted = true; }));
  EXPECT_FALSE(has_acted);
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

TEST(TapSet, GoesOnWithoutAReaderThatHasStopped) {
  Reader reader;
  TapSet taps{Duration{}};
  taps.open(1, 3, reader.writer_side());
  const std::vector<std::byte> payload(16'384);
  const std::array<ByteSpan, 1> gather{payload};
  constexpr int kPackets = 100;  // of which the ring holds some 60
  for (int i = 0; i < kPackets; ++i) {
    ASSERT_TRUE(taps.show(kPath, {}, gather));
  }
  ASSERT_TRUE(taps.show(kPath, {}, {})) << "short enough for the room that is left";
  int read = 0;
  int missed = 0;
  const auto read_all = [&] {
    for (auto front = reader.ring.front(); front.state == ring::Consumer<>::State::Record;
         front = reader.ring.front()) {
      TapRecord record;
      std::memcpy(&record, front.body.data(), sizeof record);
      missed += record.missed;
      ++read;
      reader.ring.pop();
    }
  };
  read_all();
  ASSERT_TRUE(taps.show(kPath, {}, gather)) << "the reader reads again";
  read_all();
  EXPECT_LT(read, kPackets);
  EXPECT_EQ(read + missed, kPackets + 2) << "each is shown, or told to be missed";
}

TEST(TapSet, WritesNowhereIntoRoomThatAReaderTakesBack) {
  Reader reader;
  TapSet taps;
  taps.open(1, 3, reader.writer_side());
  const std::vector<std::byte> payload(16'384);
  const std::array<ByteSpan, 1> gather{payload};
  EXPECT_TRUE(taps.with_room(kPath, payload.size(), [&] {
    for (int i = 0; i < 100; ++i) {  // as if the rest of the ring had been taken meanwhile
      taps.capture_now(kPath, {}, gather);
    }
  }));
  int read = 0;
  for (; reader.ring.front().state == ring::Consumer<>::State::Record; ++read) {
    reader.ring.pop();
  }
  EXPECT_GT(read, 10);
  EXPECT_LT(read, 100);
}

}  // namespace
}  // namespace weft::host
