#include "ring/testing/explorer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "ring/testing/explored_atomics.h"

/// Tests the explorer by litmus tests of the C++ memory model: permitted outcomes are found, others
/// never occur.

namespace weft::ring::testing {
namespace {

using Word = std::atomic<std::uint32_t>;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr Explorer::Limits kAll{.deviations = 100, .runs = 100'000};

struct Words {
  Word a;
  Word b;
  Word plain;
  std::uint32_t first{};
  std::uint32_t second{};
  int finished{};
};

void share(Explorer& explorer, const Words& words) {
  explorer.share("a", words.a);
  explorer.share("b", words.b);
  explorer.share("plain", words.plain);
}

/// Each fiber stores to one word and then loads the other.
Explorer::Scenario store_buffering(bool is_fenced, const std::function<void(Words&)>& at_end) {
  return [=](Explorer& explorer) {
    const auto words = std::make_shared<Words>();
    share(explorer, *words);
    const auto side = [=](Word& mine, Word& other, std::uint32_t& seen) {
      ExploredAtomics::store(mine, 1, kRelease);
      if (is_fenced) {
        ExploredAtomics::fence();
      }
      seen = ExploredAtomics::load(other, kAcquire);
      if (++words->finished == 2) {
        at_end(*words);
      }
    };
    explorer.add_fiber("left", [=] { side(words->a, words->b, words->first); });
    explorer.add_fiber("right", [=] { side(words->b, words->a, words->second); });
  };
}

TEST(Explorer, SeesBothLoadsMissBothStoresUnlessFencesForbidIt) {
  const auto one_sees = [](const Words& words) {
    Explorer::running()->check(words.first == 1 || words.second == 1, "one sees the other");
  };
  EXPECT_NE(Explorer::every(store_buffering(false, one_sees), kAll).failure, "");
  const auto report = Explorer::every(store_buffering(true, one_sees), kAll);
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete);
}

TEST(Explorer, FindsEveryOutcomeThatFencesLeave) {
  std::array<int, 4> outcomes{};
  const auto report = Explorer::every(
      store_buffering(
          true,
          [&](const Words& words) { ++outcomes.at(std::size_t{words.first} * 2 + words.second); }),
      kAll);
  EXPECT_TRUE(report.is_complete);
  EXPECT_EQ(outcomes[0], 0);
  EXPECT_GT(outcomes[1], 0);
  EXPECT_GT(outcomes[2], 0);
  EXPECT_GT(outcomes[3], 0);
}

/// One fiber writes data and sets a flag, the other reads the data after the flag.
Explorer::Scenario message_passing(std::memory_order store, std::memory_order load) {
  return [=](Explorer& explorer) {
    const auto words = std::make_shared<Words>();
    share(explorer, *words);
    const auto bytes = [](Word& word) {
      return std::as_writable_bytes(std::span{&word, 1}).data();
    };
    explorer.add_fiber("writer", [=] {
      const std::uint32_t value = 7;
      ExploredAtomics::copy(bytes(words->plain), std::as_bytes(std::span{&value, 1}).data(), 4);
      ExploredAtomics::store(words->a, 1, store);
    });
    explorer.add_fiber("reader", [=] {
      if (ExploredAtomics::load(words->a, load) == 1) {
        std::uint32_t value = 0;
        ExploredAtomics::copy(std::as_writable_bytes(std::span{&value, 1}).data(),
                              bytes(words->plain), 4);
        Explorer::running()->check(value == 7, "what was written is read");
      }
    });
  };
}

TEST(Explorer, WantsReleaseAndAcquireToPassAPlainWord) {
  EXPECT_EQ(Explorer::every(message_passing(kRelease, kAcquire), kAll).failure, "");
  EXPECT_NE(Explorer::every(message_passing(kRelaxed, kAcquire), kAll).failure.find("a data race"),
            std::string::npos);
  EXPECT_NE(Explorer::every(message_passing(kRelease, kRelaxed), kAll).failure.find("a data race"),
            std::string::npos);
}

/// One stores to a and then to b, the other loads b and then a.
Explorer::Scenario two_words(std::memory_order store, std::memory_order load) {
  return [=](Explorer& explorer) {
    const auto words = std::make_shared<Words>();
    share(explorer, *words);
    explorer.add_fiber("writer", [=] {
      ExploredAtomics::store(words->a, 1, kRelaxed);
      ExploredAtomics::store(words->b, 1, store);
    });
    explorer.add_fiber("reader", [=] {
      const std::uint32_t b = ExploredAtomics::load(words->b, load);
      const std::uint32_t a = ExploredAtomics::load(words->a, kRelaxed);
      Explorer::running()->check(b == 0 || a == 1, "who sees the later sees the earlier");
    });
  };
}

TEST(Explorer, LetsRelaxedStoresBeSeenOutOfOrder) {
  EXPECT_EQ(Explorer::every(two_words(kRelease, kAcquire), kAll).failure, "");
  EXPECT_NE(Explorer::every(two_words(kRelaxed, kAcquire), kAll).failure, "");
  EXPECT_NE(Explorer::every(two_words(kRelease, kRelaxed), kAll).failure, "");
  EXPECT_NE(Explorer::at_random(two_words(kRelaxed, kAcquire), 1, 1000).failure, "");
}

TEST(Explorer, NeverLetsOneWordGoBackwards) {
  const auto report = Explorer::every(
      [](Explorer& explorer) {
        const auto words = std::make_shared<Words>();
        share(explorer, *words);
        explorer.add_fiber("writer", [=] {
          ExploredAtomics::store(words->a, 1, kRelaxed);
          ExploredAtomics::store(words->a, 2, kRelaxed);
        });
        explorer.add_fiber("reader", [=] {
          const std::uint32_t first = ExploredAtomics::load(words->a, kRelaxed);
          Explorer::running()->check(first <= ExploredAtomics::load(words->a, kRelaxed),
                                     "the second look is no older");
        });
      },
      kAll);
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete);
}

TEST(Explorer, ReportsAFiberThatSleepsForever) {
  const auto sleeper = [](bool somebody_wakes) {
    return [=](Explorer& explorer) {
      const auto words = std::make_shared<Words>();
      share(explorer, *words);
      explorer.add_fiber("sleeper", [=] { Explorer::running()->sleep_while(words->a, 0); });
      explorer.add_fiber("other", [=] {
        ExploredAtomics::store(words->a, 1, kRelaxed);
        if (somebody_wakes) {
          Explorer::running()->wake(words->a);
        }
      });
    };
  };
  EXPECT_EQ(Explorer::every(sleeper(true), kAll).failure, "");
  EXPECT_EQ(Explorer::every(sleeper(false), kAll).failure.find("sleeper sleeps for ever"), 0U);
}

TEST(Explorer, EndsABoundedSleepOnceNobodyElseGoesOn) {
  const auto sleeper = [](bool somebody_wakes) {
    return [=](Explorer& explorer) {
      const auto words = std::make_shared<Words>();
      share(explorer, *words);
      explorer.add_fiber("sleeper", [=] {
        Explorer& self = *Explorer::running();
        const bool was_woken = self.sleep_while(words->a, 0, true);
        self.check(was_woken == somebody_wakes, "it is woken, or its time is over");
        self.check(words->finished == 1, "its time is over when the others have finished");
      });
      explorer.add_fiber("other", [=] {
        ExploredAtomics::store(words->b, 1, kRelaxed);
        ++words->finished;
        if (somebody_wakes) {
          ExploredAtomics::store(words->a, 1, kRelaxed);
          Explorer::running()->wake(words->a);
        }
      });
    };
  };
  for (const bool somebody_wakes : {false, true}) {
    const auto report = Explorer::every(sleeper(somebody_wakes), kAll);
    EXPECT_EQ(report.failure, "");
    EXPECT_TRUE(report.is_complete);
  }
}

TEST(Explorer, KeepsTheUpperHalfOfALongWord) {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 40;
  struct LongWords {
    std::atomic<std::uint64_t> bits{kHigh};
    std::atomic<std::int64_t> number{-1};
  };
  const auto report = Explorer::every(
      [](Explorer& explorer) {
        const auto words = std::make_shared<LongWords>();
        explorer.share("words", *words);
        explorer.add_fiber("only", [=] {
          Explorer& self = *Explorer::running();
          self.check(ExploredAtomics::fetch_or(words->bits, 1, kAcquire) == kHigh, "old bits");
          self.check(ExploredAtomics::fetch_and(words->bits, kHigh, kAcquire) == kHigh + 1, "both");
          self.check(ExploredAtomics::load(words->bits, kAcquire) == kHigh, "the high bit");
          self.check(ExploredAtomics::load(words->number, kAcquire) == -1, "a negative number");
          ExploredAtomics::store(words->number, -(std::int64_t{1} << 40), kRelease);
          self.check(self.newest(words->number) == ~std::uint64_t{0} << 40, "another");
        });
      },
      kAll);
  EXPECT_EQ(report.failure, "");
}

/// A sequentially consistent access acquires and releases, too.
TEST(Explorer, PassesAPlainWordBySequentiallyConsistentAccesses) {
  constexpr auto kOrdered = std::memory_order_seq_cst;
  EXPECT_EQ(Explorer::every(message_passing(kOrdered, kOrdered), kAll).failure, "");
}

TEST(Explorer, RepeatsARunByItsSeed) {
  const auto scenario = two_words(kRelaxed, kRelaxed);
  const auto first = Explorer::at_random(scenario, 5, 1000);
  const auto second = Explorer::at_random(scenario, 5, 1000);
  EXPECT_NE(first.failure, "");
  EXPECT_EQ(first.failure, second.failure);
  EXPECT_EQ(first.runs, second.runs);
}

}  // namespace
}  // namespace weft::ring::testing
