#include "station/delay_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"

namespace weft::station {
namespace {

Instant at(std::int64_t us) { return Instant{Duration::microseconds(us)}; }

bool keep(DelayLine& line, std::size_t bytes, std::byte fill, Instant departs, Instant arrives) {
  const MutableByteSpan room = line.reserve(bytes);
  if (room.empty()) {
    return false;
  }
  std::ranges::fill(room, fill);
  line.commit({.departs = departs,
               .arrives = arrives,
               .wire_bytes = bytes,
               .packets = 1,
               .counter = nullptr});
  return true;
}

TEST(DelayLine, TakesNoMemoryUntilSomethingIsKept) {
  DelayLine line;
  EXPECT_TRUE(line.is_empty());
  EXPECT_EQ(line.next_event(), Instant::never());
  EXPECT_EQ(line.bytes_to_depart(at(5)), 0U);
}

TEST(DelayLine, SaysWhatHasNotDepartedAndWhenSomethingHappensNext) {
  DelayLine line;
  ASSERT_TRUE(keep(line, 100, std::byte{1}, at(10), at(50)));
  ASSERT_TRUE(keep(line, 200, std::byte{2}, at(30), at(70)));
  EXPECT_EQ(line.next_event(), at(10));
  EXPECT_EQ(line.bytes_to_depart(at(9)), 300U);
  EXPECT_EQ(line.bytes_to_depart(at(10)), 200U);
  EXPECT_EQ(line.next_event(), at(30));
  EXPECT_EQ(line.bytes_to_depart(at(30)), 0U);
  EXPECT_EQ(line.next_event(), at(50));
  line.pop();
  EXPECT_EQ(line.next_event(), at(70));
  EXPECT_EQ(line.front_record().size(), 200U);
  EXPECT_EQ(line.front_record()[199], std::byte{2});
  line.pop();
  EXPECT_EQ(line.next_event(), Instant::never());
}

TEST(DelayLine, KeepsTheOrderWhenTheWayBecomesShorter) {
  DelayLine line;
  ASSERT_TRUE(keep(line, 8, std::byte{1}, at(10), at(500)));
  ASSERT_TRUE(keep(line, 8, std::byte{2}, at(5), at(20)));
  line.pop();
  EXPECT_EQ(line.front().departs, at(10));
  EXPECT_EQ(line.front().arrives, at(500));
}

TEST(DelayLine, IsBounded) {
  DelayLine line;
  std::size_t kept = 0;
  while (keep(line, 1 << 14, std::byte{1}, at(1), at(1))) {
    kept += 1 << 14;
    ASSERT_LE(kept, DelayLine::kMaxBytes);
  }
  EXPECT_EQ(kept, DelayLine::kMaxBytes);
  line.pop();
  EXPECT_TRUE(keep(line, 1 << 14, std::byte{1}, at(1), at(1)));
  EXPECT_FALSE(keep(line, 1, std::byte{1}, at(1), at(1)));
  line.clear();
  EXPECT_EQ(line.bytes_to_depart(at(0)), 0U);
  EXPECT_TRUE(keep(line, 1 << 14, std::byte{1}, at(1), at(1)));
}

/// Against a deque, whatever the sizes: nothing is overwritten, also while it grows.
TEST(DelayLine, KeepsRecordsOfEverySizeWhole) {
  Random random{1};
  for (int run = 0; run < 20; ++run) {
    DelayLine line;
    std::deque<std::pair<std::byte, std::size_t>> model;
    std::uint64_t to_depart = 0;
    for (int step = 0; step < 3'000; ++step) {
      if (random.below(100) < 55) {
        const std::size_t bytes = 1 + random.below(random.below(4) == 0 ? 17'000 : 200);
        const auto fill = static_cast<std::byte>(random());
        if (keep(line, bytes, fill, at(step + 10), at(step + 20))) {
          model.emplace_back(fill, bytes);
          to_depart += bytes;
        }
      } else if (!model.empty()) {
        const auto [fill, bytes] = model.front();
        model.pop_front();
        ASSERT_EQ(line.front_record().size(), bytes);
        ASSERT_TRUE(std::ranges::all_of(line.front_record(),
                                        [&](std::byte octet) { return octet == fill; }));
        line.pop();
        to_depart -= bytes;
      }
      ASSERT_EQ(line.size(), model.size());
      ASSERT_EQ(line.bytes_to_depart(at(0)), to_depart);
    }
  }
}

}  // namespace
}  // namespace weft::station
