#include "iscsi/buffer_cache.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace weft::iscsi {
namespace {

TEST(BufferCache, GivesABufferThatIsUsedNoMore) {
  BufferCache cache;
  SharedBuffer first = cache.take(4'096);
  const std::byte* const place = first.octets().data();
  const HeldOctets part = first.part(512, 512);
  first = {};
  EXPECT_NE(cache.take(4'096).octets().data(), place) << "a part of it is held";
  SharedBuffer again;
  {
    BufferCache other;
    SharedBuffer one = other.take(8'192);
    const std::byte* const there = one.octets().data();
    one = {};
    again = other.take(8'192);
    EXPECT_EQ(again.octets().data(), there);
  }
  again.octets().back() = std::byte{1};  // it outlives its cache
}

/// So that an initiator that reads every length in turn makes it keep no buffer for each.
TEST(BufferCache, GivesTheSameBufferForLengthsThatDifferLittle) {
  BufferCache cache;
  SharedBuffer one = cache.take(5'000);
  const std::byte* const place = one.octets().data();
  EXPECT_EQ(one.size(), 5'000U);
  one = {};
  const SharedBuffer next = cache.take(8'192);
  EXPECT_EQ(next.octets().data(), place);
  EXPECT_EQ(next.size(), 8'192U);
}

TEST(BufferCache, LeavesShortAndLongOnesToTheHeap) {
  BufferCache cache;
  EXPECT_EQ(cache.take(0).size(), 0U);
  EXPECT_EQ(cache.take(512).size(), 512U);
  EXPECT_EQ(cache.take(1 << 20).size(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace weft::iscsi
