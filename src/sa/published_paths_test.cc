#include "sa/published_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"

namespace weft::sa {
namespace {

using wire::PathRecord;

const Instant kNow{Duration::seconds(100)};
const Gid kOwn{kDefaultGidPrefix, Guid{0x11}};

[[nodiscard]] PathQuery to(std::uint64_t guid) {
  return {
      .sgid = kOwn,
      .dgid = Gid{kDefaultGidPrefix, Guid{guid}},
      .pkey = kDefaultPKey,
      .service_id = 5
  };
}
[[nodiscard]] PathRecord path_of(const PathQuery& asked, std::uint16_t lid) {
  return {.dgid = asked.dgid, .sgid = asked.sgid, .dlid = Lid{lid}, .reversible = true};
}

class PublishedPathsTest : public ::testing::Test {
 protected:
  PublishedPathsTest() { set_live(bytes(), true); }

  [[nodiscard]] MutableByteSpan bytes() {
    return std::as_writable_bytes(std::span{words_}).first(PublishedLayout::kBytes);
  }

 private:
  std::vector<std::uint64_t> words_ =
      std::vector<std::uint64_t>(PublishedLayout::kBytes / sizeof(std::uint64_t) + 1);

 protected:
  PathPublisher publisher{bytes()};
  PublishedPaths paths{bytes()};
};

TEST_F(PublishedPathsTest, AreFoundForWhatWasAskedAlone) {  // part of R-NL-8
  EXPECT_EQ(paths.find(to(1), kNow), std::nullopt);
  publisher.put(to(1), path_of(to(1), 7), kNow + Duration::seconds(1));
  EXPECT_EQ(paths.find(to(1), kNow), path_of(to(1), 7));
  for (const auto change :
       {+[](PathQuery& q) { q.sgid = Gid{}; }, +[](PathQuery& q) { q.dgid = Gid{}; },
        +[](PathQuery& q) { q.pkey = PKey{1}; }, +[](PathQuery& q) { q.service_id = 6; },
        +[](PathQuery& q) { q.qos_class = 1; }, +[](PathQuery& q) { q.tclass = 1; },
        +[](PathQuery& q) { q.is_reversible = false; }}) {
    PathQuery other = to(1);
    change(other);
    EXPECT_EQ(paths.find(other, kNow), std::nullopt);
  }
}

TEST_F(PublishedPathsTest, EndAndAreReplacedAndErased) {  // part of R-NL-8
  publisher.put(to(1), path_of(to(1), 7), kNow + Duration::seconds(1));
  EXPECT_EQ(paths.find(to(1), kNow + Duration::milliseconds(999))->dlid, Lid{7});
  EXPECT_EQ(paths.find(to(1), kNow + Duration::seconds(1)), std::nullopt);
  publisher.put(to(1), path_of(to(1), 8), Instant::never());
  EXPECT_EQ(paths.find(to(1), kNow + Duration::seconds(100'000))->dlid, Lid{8});
  publisher.erase(to(2));
  EXPECT_TRUE(paths.find(to(1), kNow));
  publisher.erase(to(1));
  EXPECT_EQ(paths.find(to(1), kNow), std::nullopt);
}

TEST_F(PublishedPathsTest, AreThereWhileTheDaemonSaysSo) {
  publisher.put(to(1), path_of(to(1), 7), Instant::never());
  set_live(bytes(), false);
  EXPECT_FALSE(paths.is_live());
  EXPECT_EQ(paths.find(to(1), kNow), std::nullopt);
  set_live(bytes(), true);
  EXPECT_TRUE(paths.find(to(1), kNow));
  std::ranges::fill(bytes(), std::byte{});
  EXPECT_FALSE(paths.is_live()) << "memory that the daemon has not seen";
}

TEST_F(PublishedPathsTest, MakeRoomByThePathThatEndsFirst) {
  constexpr std::uint64_t kMany = 2 * PublishedLayout::kSets * PublishedLayout::kWays;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    publisher.put(to(i), path_of(to(i), 7), kNow + Duration::seconds(static_cast<int>(i)));
  }
  std::uint64_t found = 0;
  std::uint64_t later = 0;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    const bool is_there = paths.find(to(i), kNow).has_value();
    found += is_there ? 1 : 0;
    later += is_there && i > kMany / 2 ? 1 : 0;
  }
  // Twice as many as there is room for: the sets are nearly all full, by those that came last.
  EXPECT_GT(found, kMany / 2 * 9 / 10);
  EXPECT_GT(later, found * 8 / 10);
  publisher.put(to(kMany), path_of(to(kMany), 9), kNow + Duration::seconds(1));
  EXPECT_EQ(paths.find(to(kMany), kNow)->dlid, Lid{9}) << "in its own place, not beside it";
  publisher.erase(to(kMany));
  EXPECT_FALSE(paths.find(to(kMany), kNow));
}

TEST_F(PublishedPathsTest, OfAWriterThatLiesAreForTheEndsThatWereAskedForOrNone) {
  PathRecord elsewhere = path_of(to(1), 7);
  elsewhere.dgid = kOwn;
  publisher.put(to(1), elsewhere, Instant::never());
  EXPECT_EQ(paths.find(to(1), kNow), std::nullopt);
  PathRecord from_elsewhere = path_of(to(2), 7);
  from_elsewhere.sgid = Gid{};
  publisher.put(to(2), from_elsewhere, Instant::never());
  EXPECT_EQ(paths.find(to(2), kNow), std::nullopt);
  PathRecord one_way = path_of(to(3), 7);
  one_way.reversible = false;
  publisher.put(to(3), one_way, Instant::never());
  EXPECT_EQ(paths.find(to(3), kNow), std::nullopt);
}

TEST_F(PublishedPathsTest, OfArbitraryMemoryAreNone) {
  Random random{1};
  for (int turn = 0; turn < 4; ++turn) {
    for (std::byte& octet : bytes()) {
      octet = static_cast<std::byte>(random());
    }
    set_live(bytes(), true);
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      EXPECT_EQ(paths.find(to(i), kNow), std::nullopt);
    }
    // What was there before does not keep a resolver from writing.
    publisher.put(to(1), path_of(to(1), 7), Instant::never());
    EXPECT_TRUE(paths.find(to(1), kNow));
  }
}

}  // namespace
}  // namespace weft::sa
