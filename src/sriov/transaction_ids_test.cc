#include "sriov/transaction_ids.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace weft::sriov {
namespace {

constexpr Instant kStart{};
constexpr std::uint64_t kForced = 0x0011'2233'4455'6677;

TEST(SriovTransactionIds, EqualIdsOfAllFunctionsDifferOnTheWireAndComeBack) {  // R-SRI-6
  TransactionIds ids{{}};
  std::set<std::uint64_t> on_wire;
  constexpr std::uint16_t kFunctions = 1000;
  for (std::uint16_t function = 0; function < kFunctions; ++function) {
    const auto mapped = ids.map(FunctionId{function}, kForced, kStart);
    ASSERT_TRUE(mapped.has_value());
    on_wire.insert(*mapped);
    EXPECT_EQ(ids.restore(*mapped, kStart), (TransactionIds::Owner{FunctionId{function}, kForced}));
  }
  EXPECT_EQ(on_wire.size(), kFunctions);
  ids.check_invariants();
}

TEST(SriovTransactionIds, TheTopByteSaysWhose) {
  TransactionIds ids{{}};
  EXPECT_EQ(ids.map(FunctionId{5}, 7, kStart), 0x0500'0000'0000'0007U);
  EXPECT_EQ(ids.map(kPhysicalFunction, 7, kStart), 7U);
  EXPECT_EQ(tag_of(ids.map(FunctionId{128}, 7, kStart).value()), kTableTag);
}

TEST(SriovTransactionIds, RefusesATopByte) {
  TransactionIds ids{{}};
  for (const auto function : std::to_array<std::uint16_t>({0, 5, 500})) {
    EXPECT_EQ(ids.map(FunctionId{function}, std::uint64_t{1} << 56, kStart),
              std::unexpected(Reason::TransactionIdTagged));
  }
}

TEST(SriovTransactionIds, RepeatedRequestsKeepTheirEntry) {
  TransactionIds ids{
      {.of_function = 2, .lifetime = Duration::seconds(1)}
  };
  const FunctionId function{300};
  const auto first = ids.map(function, 1, kStart);
  EXPECT_EQ(ids.map(function, 1, kStart), first);
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_TRUE(ids.map(function, 2, kStart).has_value());
  EXPECT_EQ(ids.map(function, 3, kStart), std::unexpected(Reason::TooManyTransactions));
  EXPECT_TRUE(ids.map(FunctionId{301}, 3, kStart).has_value());  // another one's limit
}

TEST(SriovTransactionIds, AnEntryEndsAfterItsLifetime) {
  TransactionIds ids{
      {.of_function = 2, .lifetime = Duration::seconds(1)}
  };
  const auto id = ids.map(FunctionId{300}, 1, kStart).value();
  const Instant later = kStart + Duration::milliseconds(900);
  EXPECT_TRUE(ids.restore(id, later).has_value());  // a segment of the answer: used
  ids.handle_timeout(kStart + Duration::seconds(1));
  EXPECT_TRUE(ids.restore(id, later).has_value());
  EXPECT_EQ(ids.poll_deadline(), later + Duration::seconds(1));
  ids.handle_timeout(later + Duration::seconds(1));
  EXPECT_FALSE(ids.restore(id, later).has_value());
  EXPECT_EQ(ids.poll_deadline(), Instant::never());
  ids.check_invariants();
}

TEST(SriovTransactionIds, AFunctionThatIsGoneHasNone) {
  TransactionIds ids{{}};
  const auto id = ids.map(FunctionId{300}, 1, kStart).value();
  const auto other = ids.map(FunctionId{301}, 1, kStart).value();
  ids.remove(FunctionId{300});
  EXPECT_FALSE(ids.restore(id, kStart).has_value());
  EXPECT_TRUE(ids.restore(other, kStart).has_value());
  ids.check_invariants();
}

TEST(SriovTransactionIds, OtherTagsAreNobodys) {
  TransactionIds ids{{}};
  EXPECT_FALSE(ids.restore(with_tag(kTableTag, 9), kStart).has_value());
  EXPECT_FALSE(ids.restore(with_tag(0x99, 9), kStart).has_value());
  EXPECT_FALSE(ids.restore(with_tag(kMulticastTag, 9), kStart).has_value());
}

}  // namespace
}  // namespace weft::sriov
