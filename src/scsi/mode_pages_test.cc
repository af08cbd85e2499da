#include "scsi/mode_pages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::bytes;
using testing::Bytes;

constexpr ModeFacts kFacts{.blocks = 0x1'0000'0000, .block_bytes = 512};

Bytes sensed(const ModePages& pages, const ModeSenseRequest& request) {
  const auto data = pages.sense(request, kFacts);
  return data ? Bytes(data->octets().begin(), data->octets().end()) : Bytes{};
}

TEST(ModePages, CachingPageOfSixAndTenOctets) {  // SPC-4 §7.5.4, SBC-3 §6.4.5
  const ModePages pages({.write_cache = true});
  const Bytes six = sensed(pages, {.page = 0x08});
  ASSERT_EQ(six.size(), 4u + 8 + 20);
  EXPECT_TRUE(std::ranges::equal(ByteSpan{six}.first(4), bytes({31, 0, 0x10, 8})));
  EXPECT_EQ(load32(six, 4), 0xFFFF'FFFF);  // more blocks than the short descriptor can say
  EXPECT_EQ(load32(six, 8), 512u);
  EXPECT_TRUE(std::ranges::equal(ByteSpan{six}.subspan(12, 3), bytes({0x08, 18, 0x04})));
  const Bytes ten = sensed(pages, {.ten = true, .long_lba = true, .page = 0x08});
  ASSERT_EQ(ten.size(), 8u + 16 + 20);
  EXPECT_EQ(load16(ten, 0), 42);
  EXPECT_EQ(load8(ten, 4), 1);
  EXPECT_EQ(load64(ten, 8), 0x1'0000'0000);
}

TEST(ModePages, AllPagesChangeableDefaultAndSavedValues) {  // SPC-4 §6.11
  ModePages pages({});
  EXPECT_EQ(sensed(pages, {.no_descriptors = true, .page = 0x3F}).size(), 4u + 20 + 12);
  const Bytes changeable =
      sensed(pages, {.no_descriptors = true, .control = PageControl::Changeable, .page = 0x0A});
  EXPECT_TRUE(std::ranges::equal(
      changeable, bytes({15, 0, 0x10, 0, 0x0A, 10, 0x04, 0x06, 0x08, 0x40, 0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(pages.sense({.control = PageControl::Saved, .page = 8}, kFacts).error().sense.code,
            SenseCode::SavingParametersNotSupported);
  EXPECT_EQ(pages.sense({.page = 0x1C}, kFacts).error().sense.code, SenseCode::InvalidFieldInCdb);
}

TEST(ModePages, SelectChangesWhatIsChangeableOnly) {  // SPC-4 §6.10
  ModePages pages({});
  Bytes list = bytes({0, 0, 0, 0, 0x0A, 10, 0x04, 0, 0, 0x40, 0, 0, 0, 0, 0, 0});
  EXPECT_TRUE(pages.select(false, list, kFacts).value_or(false));
  EXPECT_TRUE(pages.values().descriptor_sense);
  EXPECT_TRUE(pages.values().task_aborted_status);
  EXPECT_FALSE(*pages.select(false, list, kFacts));  // no change
  list[10] = std::byte{1};                           // reserved
  const auto refused = pages.select(false, list, kFacts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().sense.field->octet, 10);
  EXPECT_EQ(pages.select(false, ByteSpan{list}.first(9), kFacts).error().sense.code,
            SenseCode::ParameterListLengthError);
  pages.reset();
  EXPECT_EQ(pages.values(), ModeValues{});
}

TEST(ModePages, SelectRefusesOtherBlocksAndReservedQueueErrors) {
  ModePages pages({});
  const Bytes resized = bytes({0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 4, 0});
  EXPECT_EQ(pages.select(false, resized, kFacts).error().sense.field->octet, 9);
  const Bytes kept = bytes({0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0});
  EXPECT_TRUE(pages.select(false, kept, kFacts).has_value());
  const Bytes reserved = bytes({0, 0, 0, 0, 0x0A, 10, 0, 0x04, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_FALSE(pages.select(false, reserved, kFacts).has_value());
}

}  // namespace
}  // namespace weft::scsi
