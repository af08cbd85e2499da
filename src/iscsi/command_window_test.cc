#include "iscsi/command_window.h"

#include <gtest/gtest.h>

namespace weft::iscsi {
namespace {

using Window = CommandWindow<int>;
using Verdict = Window::Verdict;

TEST(CommandWindow, TakesCommandsInOrderAndHoldsThoseThatCameEarly) {  // RFC 7143 §4.2.2.1
  Window window{0xFFFF'FFFE, 8};
  EXPECT_EQ(window.take(0xFFFF'FFFE, 1), Verdict::Next);
  EXPECT_EQ(window.next(), std::nullopt);
  EXPECT_EQ(window.take(1, 4), Verdict::Held);
  EXPECT_EQ(window.take(0, 3), Verdict::Held);
  EXPECT_EQ(window.take(0, 9), Verdict::Ignored) << "a duplicate";
  EXPECT_EQ(window.expected(), 0xFFFF'FFFFU);
  EXPECT_EQ(window.take(0xFFFF'FFFF, 2), Verdict::Next);
  EXPECT_EQ(window.next(), 3);
  EXPECT_EQ(window.next(), 4);
  EXPECT_EQ(window.next(), std::nullopt);
  EXPECT_EQ(window.expected(), 2U);
}

TEST(CommandWindow, IgnoresWhatIsOutside) {
  Window window{10, 4};
  EXPECT_EQ(window.maximum(), 13U);
  EXPECT_EQ(window.take(9, 0), Verdict::Ignored);
  EXPECT_EQ(window.take(14, 0), Verdict::Ignored);
  EXPECT_EQ(window.take(13, 0), Verdict::Held);
}

TEST(CommandWindow, NeverShrinks) {
  Window window{1, 4};
  EXPECT_EQ(window.take(1, 0), Verdict::Next);
  window.open(1);
  EXPECT_EQ(window.maximum(), 4U) << "one is busy";
  window.open(4);
  EXPECT_EQ(window.maximum(), 4U);
  window.open(0);
  EXPECT_EQ(window.maximum(), 5U);
  window.open(9);
  EXPECT_EQ(window.maximum(), 5U);
}

TEST(CommandWindow, DropsWhatItHolds) {
  Window window{1, 4};
  EXPECT_EQ(window.take(2, 7), Verdict::Held);
  window.drop_if([](int request) { return request == 7; });
  EXPECT_EQ(window.take(1, 0), Verdict::Next);
  EXPECT_EQ(window.next(), std::nullopt);
  EXPECT_EQ(window.take(2, 8), Verdict::Next);
}

}  // namespace
}  // namespace weft::iscsi
