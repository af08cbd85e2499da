#include "host/tap_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "host/tap_set.h"
#include "os/unique_fd.h"

namespace weft::host {
namespace {

constexpr std::size_t kRingBytes = ring::ring_bytes(kTapRingCapacity);
constexpr std::array<fabric::Hop, 1> kPath{{{fabric::PortIndex{1}, fabric::PortIndex{2}}}};

os::Mapping mapping_of(const os::UniqueFd& file) {
  return std::move(*os::map_shared(file, os::Protection::ReadWrite, kRingBytes, kRingBytes));
}

struct ReadTaps : ::testing::Test {
  bool write(ByteSpan payload) { return writer.show(kPath, {}, std::array{payload}); }

  os::UniqueFd file{std::move(*os::create_shared_memory("tap", kRingBytes))};
  TapReader reader{mapping_of(file)};
  TapSet writer;

  void SetUp() override { writer.open(1, 2, mapping_of(file)); }
};

TEST_F(ReadTaps, AreWhatWasWritten) {
  EXPECT_TRUE(write(bytes_of(std::uint32_t{7})));
  EXPECT_TRUE(write(bytes_of(std::uint32_t{8})));
  std::vector<std::uint32_t> found;
  const auto take = [&](const TapRecord& tap, ByteSpan body) {
    EXPECT_EQ(tap.direction, TapDirection::In);
    ASSERT_EQ(body.size(), sizeof(std::uint32_t));
    std::memcpy(&found.emplace_back(), body.data(), body.size());
  };
  EXPECT_EQ(reader.read(take), 2U);
  EXPECT_EQ(found, (std::vector<std::uint32_t>{7, 8}));
  EXPECT_EQ(reader.read(take), 0U);
}

TEST_F(ReadTaps, EndWhileTheWriterNeverPauses) {
  for (const std::size_t length : {8U, 65'536U}) {
    const std::vector<std::byte> payload(length);
    ASSERT_TRUE(write(payload));
    std::size_t bytes = 0;
    const auto take_and_write = [&](const TapRecord& /*tap*/, ByteSpan body) {
      bytes += body.size();
      ASSERT_LE(bytes, kTapRingCapacity + length) << "more than the ring can hold at one time";
      EXPECT_TRUE(write(payload));
    };
    reader.read(take_and_write);
    EXPECT_GT(bytes, 0U);
    reader.read([](const TapRecord& /*tap*/, ByteSpan /*body*/) {});
  }
}

}  // namespace
}  // namespace weft::host
