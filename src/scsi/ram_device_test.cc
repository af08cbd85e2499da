#include "scsi/ram_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::scsi {
namespace {

class Waiter final : public BlockClient {
 public:
  void handle_block_result(BlockRequest& /*request*/, const BlockResult& answer) override {
    result = answer;
    ++answers;
  }
  BlockResult result;
  int answers{};
};

BlockResult run(RamDevice& device, BlockRequest request) {
  Waiter waiter;
  request.client = &waiter;
  device.submit(request);
  EXPECT_EQ(waiter.answers, 1);
  return waiter.result;
}

TEST(RamDevice, KeepsWhatWasWrittenAcrossChunksAndZeroesElsewhere) {
  const auto device = *RamDevice::create({.bytes = 1 << 20});
  const std::vector<std::byte> data(512 * 200, std::byte{0x5A});
  ASSERT_EQ(run(*device,
                {.operation = BlockOperation::Write, .lba = 100, .blocks = 200, .write_from = data})
                .status,
            BlockStatus::Ok);
  std::vector<std::byte> all(512 * 202);
  ASSERT_EQ(
      run(*device, {.operation = BlockOperation::Read, .lba = 99, .blocks = 202, .read_into = all})
          .status,
      BlockStatus::Ok);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool written = i >= 512 && i < 512 * 201;
    ASSERT_EQ(all[i], written ? std::byte{0x5A} : std::byte{0}) << i;
  }
  EXPECT_EQ(device->allocated_bytes(), 3 * RamDevice::kChunkBytes);
}

TEST(RamDevice, UnmapFreesWholeChunksAndClearsPartsOfOthers) {
  const auto device = *RamDevice::create({.bytes = 1 << 20});
  const std::vector<std::byte> data(512 * 384, std::byte{1});
  run(*device, {.operation = BlockOperation::Write, .blocks = 384, .write_from = data});
  EXPECT_TRUE(device->extent(0).mapped);
  EXPECT_EQ(device->extent(0).blocks, 384u);
  run(*device, {.operation = BlockOperation::Unmap, .lba = 127, .blocks = 129});
  EXPECT_EQ(device->allocated_bytes(), 2 * RamDevice::kChunkBytes);
  EXPECT_FALSE(device->extent(128).mapped);
  EXPECT_EQ(device->extent(130).blocks, 126u);
  std::vector<std::byte> two(1024, std::byte{9});
  run(*device, {.operation = BlockOperation::Read, .lba = 126, .blocks = 2, .read_into = two});
  EXPECT_EQ(two[0], std::byte{1});
  EXPECT_EQ(two[512], std::byte{0});
}

/// Octets of loans, one behind the other.
[[nodiscard]] std::vector<std::byte> octets_of(const std::vector<BlockLoan>& loans) {
  std::vector<std::byte> all;
  for (const BlockLoan& loan : loans) {
    all.insert(all.end(), loan.octets.begin(), loan.octets.end());
  }
  return all;
}

TEST(RamDevice, LendsWhatIsReadAsItIsThen) {
  constexpr std::uint64_t kInChunk = RamDevice::kChunkBytes / 512;
  const auto device = *RamDevice::create({.bytes = 1 << 20});
  const std::vector<std::byte> ones(512, std::byte{1});
  const std::vector<std::byte> twos(512, std::byte{2});
  run(*device, {.operation = BlockOperation::Write, .lba = 1, .blocks = 1, .write_from = ones});
  std::vector<std::byte> untouched(3 * RamDevice::kChunkBytes, std::byte{9});
  std::vector<BlockLoan> lent;
  ASSERT_EQ(run(*device, {.operation = BlockOperation::Read,
                          .lba = 1,
                          .blocks = 2 * kInChunk,
                          .read_into = MutableByteSpan{untouched}.first(2 * kInChunk * 512),
                          .lend_to = &lent})
                .status,
            BlockStatus::Ok);
  ASSERT_EQ(lent.size(), 3U) << "a written chunk, and parts of two that are not";
  std::vector<std::byte> expected(2 * kInChunk * 512);
  std::ranges::copy(ones, expected.begin());
  EXPECT_EQ(octets_of(lent), expected);
  EXPECT_EQ(untouched, std::vector(3 * RamDevice::kChunkBytes, std::byte{9}));

  // What comes after it changes the disk, and not what is lent.
  run(*device, {.operation = BlockOperation::Write, .lba = 1, .blocks = 1, .write_from = twos});
  run(*device, {.operation = BlockOperation::Write, .lba = 200, .blocks = 1, .write_from = twos});
  EXPECT_EQ(octets_of(lent), expected);
  run(*device, {.operation = BlockOperation::Unmap, .blocks = kInChunk});
  EXPECT_EQ(octets_of(lent), expected);
  std::vector<std::byte> block(512);
  run(*device, {.operation = BlockOperation::Read, .lba = 200, .blocks = 1, .read_into = block});
  EXPECT_EQ(block, twos);
  lent.clear();
  run(*device, {.operation = BlockOperation::Read, .lba = 1, .blocks = 1, .lend_to = &lent});
  EXPECT_EQ(octets_of(lent), std::vector<std::byte>(512));
}

TEST(RamDevice, ClearsPartsOfWhatIsLentElsewhere) {
  const auto device = *RamDevice::create({.bytes = 1 << 20});
  const std::vector<std::byte> ones(2 * 512, std::byte{1});
  run(*device, {.operation = BlockOperation::Write, .blocks = 2, .write_from = ones});
  std::vector<BlockLoan> lent;
  run(*device, {.operation = BlockOperation::Read, .blocks = 2, .lend_to = &lent});
  run(*device, {.operation = BlockOperation::WriteZeroes, .lba = 1, .blocks = 1});
  EXPECT_EQ(octets_of(lent), ones);
  std::vector<std::byte> two(2 * 512);
  run(*device, {.operation = BlockOperation::Read, .blocks = 2, .read_into = two});
  EXPECT_EQ(two[511], std::byte{1});
  EXPECT_EQ(two[512], std::byte{0});
}

TEST(RamDevice, WritesInPlaceWhatNobodyHolds) {
  const auto device = *RamDevice::create({.bytes = 1 << 20});
  const std::vector<std::byte> ones(512, std::byte{1});
  run(*device, {.operation = BlockOperation::Write, .blocks = 1, .write_from = ones});
  std::vector<BlockLoan> lent;
  run(*device, {.operation = BlockOperation::Read, .blocks = 1, .lend_to = &lent});
  const std::byte* const before = lent.front().octets.data();
  lent.clear();
  run(*device, {.operation = BlockOperation::Write, .lba = 1, .blocks = 1, .write_from = ones});
  run(*device, {.operation = BlockOperation::Read, .blocks = 1, .lend_to = &lent});
  EXPECT_EQ(lent.front().octets.data(), before);
}

TEST(RamDevice, RefusesWhatLiesOutsideOrIsReadOnly) {
  const auto device = *RamDevice::create({.bytes = 8192, .block_bytes = 4096, .read_only = true});
  std::vector<std::byte> block(4096);
  EXPECT_EQ(
      run(*device, {.operation = BlockOperation::Read, .lba = 2, .blocks = 1, .read_into = block})
          .status,
      BlockStatus::OutOfRange);
  EXPECT_EQ(
      run(*device, {.operation = BlockOperation::Write, .blocks = 1, .write_from = block}).status,
      BlockStatus::ReadOnly);
  EXPECT_FALSE(RamDevice::create({.bytes = 1000}).has_value());
  EXPECT_FALSE(RamDevice::create({.bytes = 4096, .block_bytes = 1024}).has_value());
}

TEST(RamDevice, SizesAreNumbersWithUnits) {
  EXPECT_EQ(parse_size("4096").value_or(0), 4096u);
  EXPECT_EQ(parse_size("64K").value_or(0), 65536u);
  EXPECT_EQ(parse_size("1G").value_or(0), std::uint64_t{1} << 30);
  EXPECT_EQ(parse_size("2T").value_or(0), std::uint64_t{1} << 41);
  for (const char* wrong : {"", "G", "1X", "1GB", "-1", "18446744073709551615K"}) {
    EXPECT_FALSE(parse_size(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace weft::scsi
