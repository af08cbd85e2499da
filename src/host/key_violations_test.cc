#include "host/key_violations.h"

#include <gtest/gtest.h>

namespace weft::host {
namespace {

using Kind = hca::BadKey::Kind;

hca::BadKey bad(Kind kind, std::uint32_t key, std::uint8_t port = 1) {
  hca::BadKey made;
  made.kind = kind;
  made.port = PortNumber{port};
  made.key = key;
  return made;
}

TEST(KeyViolations, AreReportedAtOnceAndThenTogetherAfterAPause) {
  KeyViolations violations;
  const Instant start{Duration::seconds(5)};
  EXPECT_EQ(violations.due(), Instant::never());
  EXPECT_TRUE(violations.take(start).empty());
  EXPECT_TRUE(violations.note(0, bad(Kind::QKey, 1)));
  EXPECT_LE(violations.due(), start);
  ASSERT_EQ(violations.take(start).size(), 1U);
  EXPECT_EQ(violations.due(), Instant::never());

  EXPECT_TRUE(violations.note(0, bad(Kind::QKey, 2)));
  EXPECT_FALSE(violations.note(0, bad(Kind::QKey, 3)));
  EXPECT_EQ(violations.due(), start + KeyViolations::kPause);
  EXPECT_TRUE(violations.take(start + Duration::milliseconds(99)).empty());
  const auto reports = violations.take(start + KeyViolations::kPause);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].count, 2U);
  EXPECT_EQ(reports[0].last.key, 3U) << "of many the last";
}

TEST(KeyViolations, AreOfOnePortAndOneKindOfKey) {
  KeyViolations violations;
  for (int round = 0; round < 2; ++round) {
    static_cast<void>(violations.note(0, bad(Kind::QKey, 1)));
    static_cast<void>(violations.note(0, bad(Kind::PKey, 2)));
    static_cast<void>(violations.note(0, bad(Kind::PKey, 3, 2)));
    static_cast<void>(violations.note(1, bad(Kind::PKey, 4)));
  }
  const auto reports = violations.take(Instant{Duration::seconds(1)});
  ASSERT_EQ(reports.size(), 4U);
  for (std::uint32_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].count, 2U);
    EXPECT_EQ(reports[i].last.key, i + 1);
  }
  EXPECT_EQ(reports[3].hca, 1U);
}

}  // namespace
}  // namespace weft::host
