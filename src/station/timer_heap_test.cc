#include "station/timer_heap.h"

#include <gtest/gtest.h>

namespace weft::station {
namespace {

[[nodiscard]] Instant at(std::int64_t ns) { return Instant{Duration::nanoseconds(ns)}; }

TEST(TimerHeap, GivesOutWhatIsDueInOrder) {
  TimerHeap<int> heap;
  int a = 0;
  int b = 0;
  EXPECT_EQ(heap.earliest(), Instant::never());
  EXPECT_TRUE(heap.arm(a, at(20)));
  EXPECT_TRUE(heap.arm(b, at(10))) << "now the earliest";
  EXPECT_EQ(heap.earliest(), at(10));
  EXPECT_EQ(heap.take_due(at(9)), nullptr);
  EXPECT_EQ(heap.take_due(at(25)), &b);
  EXPECT_EQ(heap.take_due(at(25)), &a);
  EXPECT_EQ(heap.take_due(at(25)), nullptr);
}

TEST(TimerHeap, ForgetsWhatIsRemoved) {
  TimerHeap<int> heap;
  int a = 0;
  int b = 0;
  heap.arm(a, at(1));
  heap.arm(b, at(2));
  heap.remove(a);
  EXPECT_EQ(heap.earliest(), at(2));
  EXPECT_EQ(heap.take_due(at(5)), &b);
}

}  // namespace
}  // namespace weft::station
