#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/random.h"
#include "ring/doorbell.h"
#include "ring/lane.h"
#include "ring/spsc_ring.h"

namespace weft::ring {
namespace {

struct Memory {
  explicit Memory(std::size_t bytes) : lines((bytes + 63) / 64) {}
  struct alignas(64) Line {
    std::array<std::byte, 64> octets{};
  };
  std::vector<Line> lines;
  std::span<std::byte> span(std::size_t bytes) { return {lines.front().octets.data(), bytes}; }
};

/// Every other record in one go, if it can be.
bool put(Producer<>& producer, std::uint64_t seed, std::size_t bytes) {
  const auto write = [&](std::byte* body) {
    for (std::size_t i = 0; i < bytes; ++i) {
      body[i] = static_cast<std::byte>(seed + i);
    }
  };
  if (seed % 2 == 0 && producer.put(bytes, write)) {
    return true;
  }
  const auto room = producer.reserve(bytes);
  if (room.size() != bytes || (bytes != 0 && room.data() == nullptr)) {
    return false;
  }
  if (bytes == 0 && room.data() == nullptr) {
    return false;
  }
  write(room.data());
  producer.commit();
  return true;
}

bool is_body(std::span<const std::byte> body, std::uint64_t seed, std::size_t bytes) {
  if (body.size() != bytes) {
    return false;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    if (body[i] != static_cast<std::byte>(seed + i)) {
      return false;
    }
  }
  return true;
}

constexpr std::size_t kCapacity = 4096;

/// Passes records through a ring with that memory, started with kCapacity; `coin` decides how eager
/// the producer is.
void pass_records(std::size_t capacity, std::uint64_t seed, std::uint64_t records) {
  Memory memory{ring_bytes(capacity)};
  Producer<> producer{memory.span(ring_bytes(capacity)), kCapacity};
  Consumer<> consumer{memory.span(ring_bytes(capacity)), kCapacity};
  Random sizes{seed};
  Random again{seed};
  Random coin{seed + 1};
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  std::size_t next_size = sizes.below(1500);
  while (read < records) {
    if (coin.chance(1, 2) && put(producer, written, next_size)) {
      ++written;
      next_size = sizes.below(1500);
    }
    if (coin.chance(1, 2)) {
      ASSERT_EQ(RealAtomics::load(consumer.next_word(), std::memory_order_relaxed) != kNoRecord,
                read < written);
      const auto front = consumer.front();
      ASSERT_NE(front.state, Consumer<>::State::Corrupt);
      if (front.state == Consumer<>::State::Record) {
        ASSERT_LT(read, written);
        ASSERT_TRUE(is_body(front.body, read, again.below(1500)));
        consumer.pop();
        ++read;
      } else {
        ASSERT_EQ(read, written);
      }
    }
  }
}

TEST(SpscRing, GivesRecordsBackInOrderOverManyLaps) { pass_records(kCapacity, 1, 20'000); }

TEST(SpscRing, GivesRecordsBackInOrderWhileItGrows) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    pass_records(4 * kCapacity, seed, 500);
    pass_records(16 * kCapacity, seed, 500);
  }
}

TEST(SpscRing, GrowsRatherThanRefuse) {
  constexpr std::size_t kMost = 16 * kCapacity;
  Memory memory{ring_bytes(kMost)};
  Producer<> producer{memory.span(ring_bytes(kMost)), kCapacity};
  Consumer<> consumer{memory.span(ring_bytes(kMost)), kCapacity};
  EXPECT_TRUE(put(producer, 0, max_body_bytes(kMost)));  // two steps at once
  EXPECT_EQ(consumer.front().body.size(), max_body_bytes(kMost));
  consumer.pop();
  EXPECT_EQ(consumer.front().state, Consumer<>::State::Empty);
  EXPECT_TRUE(producer.is_drained());
  int records = 0;
  while (put(producer, 1, 40)) {
    ++records;
  }
  EXPECT_GT(records, 1'000);
  for (; records > 0; --records) {
    ASSERT_TRUE(is_body(consumer.front().body, 1, 40));
    consumer.pop();
  }
  EXPECT_EQ(consumer.front().state, Consumer<>::State::Empty);
}

TEST(SpscRing, GrowsBeyondTheUsualOnlyWhenLet) {
  constexpr std::size_t kMost = 16 * kCapacity;
  Memory memory{ring_bytes(kMost)};
  Producer<> producer{memory.span(ring_bytes(kMost)), kCapacity, 4 * kCapacity};
  Consumer<> consumer{memory.span(ring_bytes(kMost)), kCapacity};
  // Fills what fits after the consumer has advanced.
  const auto fill = [&] {
    std::size_t records = 0;
    for (int round = 0; round < 4; ++round) {
      for (records = 0; put(producer, 1, 40); ++records) {
      }
      for (std::size_t i = 0; i < records; ++i) {
        EXPECT_TRUE(is_body(consumer.front().body, 1, 40));
        consumer.pop();
      }
      EXPECT_EQ(consumer.front().state, Consumer<>::State::Empty);
    }
    return records;
  };
  EXPECT_EQ(fill(), 4 * kCapacity / kSlotBytes - 1);
  EXPECT_TRUE(producer.allow_growth());
  EXPECT_FALSE(producer.allow_growth()) << "it could already";
  EXPECT_EQ(fill(), kMost / kSlotBytes - 1);
}

TEST(SpscRing, RefusesWhenFullAndTakesMoreAfterwards) {
  Memory memory{ring_bytes(kCapacity)};
  Producer<> producer{memory.span(ring_bytes(kCapacity))};
  Consumer<> consumer{memory.span(ring_bytes(kCapacity))};
  int records = 0;
  while (put(producer, 1, 40)) {
    ++records;
  }
  EXPECT_EQ(records, 63);  // one slot stays free
  EXPECT_FALSE(producer.is_drained());
  for (int i = 0; i < records; ++i) {
    ASSERT_EQ(consumer.front().state, Consumer<>::State::Record);
    consumer.pop();
  }
  EXPECT_EQ(consumer.front().state, Consumer<>::State::Empty);
  EXPECT_TRUE(producer.is_drained());
  EXPECT_TRUE(put(producer, 1, max_body_bytes(kCapacity)));
}

TEST(SpscRing, IsNotDrainedUntilWhatWasReadIsDealtWith) {
  // beyond the quarters at which the position is reported
  for (int records = 1; records < 60; ++records) {
    Memory memory{ring_bytes(kCapacity)};
    Producer<> producer{memory.span(ring_bytes(kCapacity))};
    Consumer<> consumer{memory.span(ring_bytes(kCapacity))};
    for (int i = 0; i < records; ++i) {
      ASSERT_TRUE(put(producer, 1, 40));
    }
    while (consumer.look().state == Consumer<>::State::Record) {
      consumer.pop();
      ASSERT_FALSE(producer.is_drained()) << records;
    }
    consumer.settle();
    ASSERT_TRUE(producer.is_drained());
    ASSERT_TRUE(put(producer, 1, 40));
    consumer.settle();
    ASSERT_FALSE(producer.is_drained()) << "what came in between was not read";
  }
}

TEST(SpscRing, PassesRecordsBetweenThreads) {
  constexpr std::size_t kLarge = 1U << 16;
  constexpr std::uint64_t kRecords = 200'000;
  Memory memory{ring_bytes(kLarge)};
  std::thread thread{[&] {
    Producer<> producer{memory.span(ring_bytes(kLarge))};
    Random sizes{9};
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      const std::size_t bytes = sizes.below(300);
      while (!put(producer, i, bytes)) {
        std::this_thread::yield();
      }
    }
  }};
  Consumer<> consumer{memory.span(ring_bytes(kLarge))};
  Random sizes{9};
  std::uint64_t bad = 0;
  for (std::uint64_t i = 0; i < kRecords;) {
    const auto front = consumer.front();
    if (front.state != Consumer<>::State::Record) {
      std::this_thread::yield();
      continue;
    }
    bad += is_body(front.body, i, sizes.below(300)) ? 0 : 1;
    consumer.pop();
    ++i;
  }
  thread.join();
  EXPECT_EQ(bad, 0U);
}

TEST(SpscRing, StaysInBoundsWhateverTheMemorySays) {
  Random random{3};
  for (int round = 0; round < 2000; ++round) {
    Memory memory{ring_bytes(4 * kCapacity)};
    const auto bytes = memory.span(ring_bytes(4 * kCapacity));
    Consumer<> consumer{bytes, kCapacity};
    Producer<> producer{bytes, kCapacity};
    for (std::size_t i = 0; i < bytes.size();
         i += kSlotBytes) {  // lies in every place where a word is believed
      const std::uint64_t lie = random.chance(1, 3)   ? random()
                                : random.chance(1, 9) ? kGrowMark + random.below(8)
                                                      : random.below(200);
      std::memcpy(bytes.data() + i, &lie, 4);
    }
    std::size_t sum = 0;
    for (int i = 0; i < 200; ++i) {
      const auto front = consumer.front();
      if (front.state != Consumer<>::State::Record) {
        ASSERT_EQ(consumer.next_word() == nullptr, front.state == Consumer<>::State::Corrupt);
        break;
      }
      ASSERT_GE(front.body.data(), bytes.data());
      ASSERT_LE(front.body.data() + front.body.size(), bytes.data() + bytes.size());
      sum += front.body.size();
      consumer.pop();
    }
    for (int i = 0; i < 100 && put(producer, 1, random.below(1900)); ++i) {
    }
    ASSERT_LE(sum, 200U * 4 * kCapacity);
  }
}

TEST(Lane, JoinsBothDirections) {
  const LaneShape shape{.request_capacity = 4096, .response_capacity = 4096};
  Memory memory{lane_bytes(shape)};
  LaneEnds a = lane_ends(memory.span(lane_bytes(shape)), shape, LaneSide::A);
  LaneEnds b = lane_ends(memory.span(lane_bytes(shape)), shape, LaneSide::B);
  EXPECT_TRUE(put(a.request_out, 1, 10));
  EXPECT_TRUE(put(a.response_out, 2, 20));
  EXPECT_TRUE(put(b.request_out, 3, 30));
  EXPECT_TRUE(put(b.response_out, 4, 40));
  EXPECT_TRUE(is_body(b.request_in.front().body, 1, 10));
  EXPECT_TRUE(is_body(b.response_in.front().body, 2, 20));
  EXPECT_TRUE(is_body(a.request_in.front().body, 3, 30));
  EXPECT_TRUE(is_body(a.response_in.front().body, 4, 40));
}

/// A lightly sleeping consumer is woken for urgent records only, and once.
TEST(Attention, LeavesWhoNapsAloneUnlessItIsUrgent) {
  Attention attention;
  EXPECT_FALSE(must_wake(attention));
  announce_sleep(attention, Sleep::Napping);
  EXPECT_FALSE(must_wake(attention, false));
  EXPECT_TRUE(must_wake(attention, true));
  EXPECT_FALSE(must_wake(attention, true));
  announce_sleep(attention);
  EXPECT_TRUE(must_wake(attention, false));
  announce_sleep(attention);
  announce_awake(attention);
  EXPECT_FALSE(must_wake(attention));
}

TEST(Attention, LosesNoWake) {
  // The consumer only polls when woken: after one lost wake-up it would wait forever.
  Attention attention;
  std::atomic<std::uint32_t> published{0};
  std::atomic<std::uint32_t> wakes{0};
  constexpr std::uint32_t kRounds = 100'000;
  std::thread producer{[&] {
    for (std::uint32_t i = 1; i <= kRounds; ++i) {
      published.store(i, std::memory_order_release);
      if (must_wake(attention)) {
        wakes.fetch_add(1, std::memory_order_release);
        wakes.notify_one();
      }
    }
  }};
  std::uint32_t seen = 0;
  std::uint32_t woken = 0;
  while (seen < kRounds) {
    announce_sleep(attention);
    const std::uint32_t now = published.load(std::memory_order_acquire);
    if (now != seen) {
      if (attention.sleeping.exchange(0) == 0) {
        wakes.wait(woken,
                   std::memory_order_acquire);  // the producer took the flag and is about to tell
        ++woken;
      }
      seen = now;
      continue;
    }
    wakes.wait(woken, std::memory_order_acquire);
    ++woken;
    seen = published.load(std::memory_order_acquire);
  }
  producer.join();
  EXPECT_EQ(seen, kRounds);
}

}  // namespace
}  // namespace weft::ring
