#include "core/address_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/testing/page_table.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::PageTable;
using ::testing::Pair;

class Listener final : public IntervalNotifier {
 public:
  Listener(std::uint64_t start, std::uint64_t length) : IntervalNotifier(start, length) {}
  void invalidate(std::uint64_t first, std::uint64_t last) override {
    told.emplace_back(first, last);
    if (during) {
      during();
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
  std::function<void()> during;
};

/// An address space that says which parts of it are watched.
class WatchedSpace final : public PageTable {
 public:
  using AddressSpace::is_heard;
  using AddressSpace::unheard_parts;
  std::vector<Range> watched;
  std::vector<Range> unwatched;

 private:
  void watch(const Range& range) override { watched.push_back(range); }
  void unwatch(const Range& range) override { unwatched = unheard_parts(range); }
};

TEST(AddressSpace, TellsEachOfItsPartOfAChange) {
  PageTable space;
  Listener low{10, 10};
  Listener high{15, 20};
  Listener empty{17, 0};
  for (Listener* const one : {&low, &high, &empty}) {
    space.insert(*one);
  }
  space.invalidate(0, 16);
  space.invalidate(18, 100);
  space.invalidate(35, 40);
  EXPECT_THAT(low.told, ElementsAre(Pair(10, 16), Pair(18, 20)));
  EXPECT_THAT(high.told, ElementsAre(Pair(15, 16), Pair(18, 35)));
  EXPECT_THAT(empty.told, IsEmpty());
  for (Listener* const one : {&low, &high, &empty}) {
    space.remove(*one);
  }
  space.invalidate(0, 100);
  EXPECT_EQ(low.told.size(), 2U);
}

TEST(AddressSpace, LetsNotifiersComeAndGoFromInsideOfACall) {
  PageTable space;
  Listener first{0, 10};
  std::optional<Listener> second{std::in_place, 0, 10};
  Listener third{0, 10};
  Listener later{0, 10};
  for (Listener* const one : {&first, &*second, &third}) {
    space.insert(*one);
  }
  first.during = [&] {
    space.remove(*second);
    second.reset();
    space.insert(later);
    first.during = nullptr;
  };
  space.invalidate(0, 5);
  EXPECT_THAT(third.told, ElementsAre(Pair(0, 5)));
  EXPECT_THAT(later.told, IsEmpty()) << "it had nothing of the range when the change was told of";
  space.invalidate(2, 3);
  EXPECT_THAT(later.told, ElementsAre(Pair(2, 3)));
  for (Listener* const one : {&first, &third, &later}) {
    space.remove(*one);
  }
}

TEST(AddressSpace, WatchesWhatSomebodyHearsOf) {
  WatchedSpace space;
  Listener first{10, 10};
  Listener second{15, 10};
  space.insert(first);
  space.insert(second);
  EXPECT_THAT(space.watched, ElementsAre(Pair(10, 20), Pair(15, 25)));
  EXPECT_TRUE(space.is_heard({24, 30}));
  EXPECT_FALSE(space.is_heard({25, 30}));
  EXPECT_THAT(space.unheard_parts({0, 30}), ElementsAre(Pair(0, 10), Pair(25, 30)));
  EXPECT_THAT(space.unheard_parts({12, 18}), IsEmpty());
  space.remove(first);
  EXPECT_THAT(space.unwatched, ElementsAre(Pair(10, 15)));
  space.remove(second);
  EXPECT_THAT(space.unwatched, ElementsAre(Pair(15, 25)));
}

}  // namespace
}  // namespace weft::core
