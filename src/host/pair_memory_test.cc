#include "host/pair_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/sanitizers.h"

namespace weft::host {
namespace {

[[nodiscard]] std::uint32_t word_at(ByteSpan memory, std::size_t at) {
  std::uint32_t word{};
  std::memcpy(&word, memory.data() + at, sizeof word);
  return word;
}

void put_word(MutableByteSpan memory, std::size_t at, std::uint32_t word) {
  std::memcpy(memory.data() + at, &word, sizeof word);
}

TEST(PairMemory, StaysReadableWhetherJoinedOrNot) {
  auto here = PairMemory::reserve();
  auto there = PairMemory::reserve();
  ASSERT_TRUE(here && there);
  const MutableByteSpan place = (*here)->lanes();
  const std::size_t last = kPairMemoryBytes - sizeof(std::uint32_t);
  EXPECT_EQ(word_at(place, 0), 0U);
  EXPECT_EQ(word_at(place, last), 0U);
  for (std::uint32_t round = 1; round <= 3; ++round) {
    auto lanes = os::create_shared_memory("weft-lanes", kPairMemoryBytes);
    auto attention = os::create_shared_memory("weft-attention", kAttentionPageBytes);
    ASSERT_TRUE(lanes && attention);
    ASSERT_TRUE((*here)->join(*lanes, *attention));
    ASSERT_TRUE((*there)->join(*lanes, *attention));
#if !WEFT_THREAD_SANITIZER  // tsan_mapping.h
    EXPECT_EQ((*here)->lanes().data(), place.data()) << "the place is the same for good";
#endif
    put_word((*there)->lanes(), last, round);
    (*there)->attention().wake.store(round);
    EXPECT_EQ(word_at((*here)->lanes(), last), round);
    EXPECT_EQ((*here)->attention().wake.load(), round);
    (*here)->part();
    EXPECT_EQ(word_at(place, last), 0U);
    EXPECT_EQ((*here)->attention().wake.load(), 0U);
    put_word(place, 0, 77);  // lands in private pages
    EXPECT_EQ(word_at((*there)->lanes(), 0), 0U);
  }
}

TEST(PairMemory, RefusesWhatIsNotTheMemoryOfAPair) {
  auto pair = PairMemory::reserve();
  auto lanes = os::create_shared_memory("weft-lanes", kPairMemoryBytes);
  auto attention = os::create_shared_memory("weft-attention", kAttentionPageBytes);
  auto small = os::create_shared_memory("weft-lanes", kPairMemoryBytes - 4'096);
  ASSERT_TRUE(pair && lanes && attention && small);
  EXPECT_FALSE((*pair)->join(*small, *attention));
  EXPECT_FALSE((*pair)->join(*lanes, *small));
  put_word((*pair)->lanes(), 0, 1);
  EXPECT_TRUE((*pair)->join(*lanes, *attention));
  EXPECT_EQ(word_at((*pair)->lanes(), 0), 0U) << "nothing of a refused one is left joined";
}

}  // namespace
}  // namespace weft::host
