#include "resolver/path_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft::resolver {
namespace {

const sa::PathQuery kAsked{
    .sgid = Gid{kDefaultGidPrefix, Guid{1}},
    .dgid = Gid{kDefaultGidPrefix, Guid{2}},
    .pkey = kDefaultPKey,
    .service_id = 5
};
const wire::PathRecord kPath{.dlid = Lid{7}};
constexpr PathTableLimits kLimits{
    .paths = 3, .age = Duration::seconds(10), .negative_age = Duration::seconds(1)};

[[nodiscard]] Instant at(std::int64_t milliseconds) {
  return Instant{Duration::milliseconds(milliseconds)};
}

TEST(PathTable, KnowsAPathForWhatWasAskedAlone) {  // part of R-NL-8
  PathTable table{kLimits};
  table.put(kAsked, kPath, at(0));
  ASSERT_NE(table.find(kAsked, at(0)), nullptr);
  EXPECT_EQ(table.find(kAsked, at(0))->path, kPath);
  for (const auto change :
       {+[](sa::PathQuery& q) { q.sgid = Gid{}; }, +[](sa::PathQuery& q) { q.dgid = Gid{}; },
        +[](sa::PathQuery& q) { q.pkey = PKey{1}; }, +[](sa::PathQuery& q) { q.service_id = 6; },
        +[](sa::PathQuery& q) { q.qos_class = 1; }, +[](sa::PathQuery& q) { q.tclass = 1; },
        +[](sa::PathQuery& q) { q.is_reversible = false; }}) {
    sa::PathQuery other = kAsked;
    change(other);
    EXPECT_EQ(table.find(other, at(0)), nullptr);
  }
}

TEST(PathTable, PathsAgeAndAbsentOnesSooner) {  // part of R-NL-8
  PathTable table{kLimits};
  table.put(kAsked, kPath, at(0));
  EXPECT_NE(table.find(kAsked, at(9'999)), nullptr);
  EXPECT_EQ(table.find(kAsked, at(10'000)), nullptr);
  EXPECT_EQ(table.size(), 0U);
  table.put_negative(kAsked, at(10'000));
  EXPECT_EQ(table.find(kAsked, at(10'999))->path, std::nullopt);
  EXPECT_EQ(table.find(kAsked, at(11'000)), nullptr);
  table.put_negative(kAsked, at(11'000));
  table.put(kAsked, kPath, at(11'500));
  EXPECT_EQ(table.find(kAsked, at(13'000))->path, kPath);
}

TEST(PathTable, IsBoundedAndKeepsWhatWasLoaded) {  // part of R-NL-8
  PathTable table{kLimits};
  const auto asked = [](std::uint64_t service) {
    sa::PathQuery query = kAsked;
    query.service_id = service;
    return query;
  };
  table.preload(asked(0), kPath);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    table.put(asked(i), kPath, at(static_cast<std::int64_t>(i)));
  }
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.evictions(), 2U);
  EXPECT_EQ(table.find(asked(2), at(5)), nullptr);
  EXPECT_NE(table.find(asked(3), at(5)), nullptr);
  table.invalidate();
  EXPECT_EQ(table.size(), 1U);
  EXPECT_NE(table.find(asked(0), Instant{Duration::seconds(100'000)}), nullptr);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    table.preload(asked(i), kPath);
  }
  EXPECT_EQ(table.size(), 3U);
}

TEST(PathTable, ShowsWhatItHoldsAndNoMore) {  // part of R-NL-8
  std::vector<std::uint64_t> words(sa::PublishedLayout::kBytes / sizeof(std::uint64_t) + 1);
  const MutableByteSpan memory =
      std::as_writable_bytes(std::span{words}).first(sa::PublishedLayout::kBytes);
  sa::set_live(memory, true);
  const sa::PublishedPaths shown{memory};
  const auto asked = [](std::uint64_t service) {
    sa::PathQuery query = kAsked;
    query.service_id = service;
    return query;
  };
  const wire::PathRecord path{
      .dgid = kAsked.dgid, .sgid = kAsked.sgid, .dlid = Lid{7}, .reversible = true};
  PathTable table{kLimits};
  table.preload(asked(0), path);
  table.show(sa::PathPublisher{memory});
  EXPECT_EQ(shown.find(asked(0), at(1'000'000)), path) << "what it held before, for ever";
  table.put(asked(1), path, at(0));
  EXPECT_EQ(shown.find(asked(1), at(9'999)), path);
  EXPECT_EQ(shown.find(asked(1), at(10'000)), std::nullopt);
  table.put_negative(asked(1), at(0));
  EXPECT_EQ(shown.find(asked(1), at(0)), std::nullopt) << "that SA has none is asked for";
  table.put(asked(1), path, at(0));
  table.put(asked(2), path, at(1));
  table.put(asked(3), path, at(2));  // there is room for three
  EXPECT_EQ(shown.find(asked(1), at(2)), std::nullopt);
  EXPECT_EQ(shown.find(asked(3), at(2)), path);
  table.invalidate();
  EXPECT_EQ(shown.find(asked(2), at(2)), std::nullopt);
  EXPECT_EQ(shown.find(asked(3), at(2)), std::nullopt);
  EXPECT_EQ(shown.find(asked(0), at(2)), path);
  table.put(asked(2), path, at(3));
  table.invalidate_to(kAsked.dgid);
  EXPECT_EQ(shown.find(asked(2), at(3)), std::nullopt);
  table.put(asked(2), path, at(3));
  table.show(std::nullopt);
  table.invalidate();
  EXPECT_EQ(shown.find(asked(2), at(3)), path) << "nobody writes there any more";
}

}  // namespace
}  // namespace weft::resolver
