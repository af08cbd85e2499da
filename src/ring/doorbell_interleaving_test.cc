#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ring/doorbell.h"
#include "ring/testing/explored_atomics.h"
#include "ring/testing/explorer.h"

/// The sleep protocol in every interleaving that the bounds below allow: no wake is lost, and
/// mistakes that lose one are found.

namespace weft::ring {
namespace {

using testing::ExploredAtomics;
using testing::Explorer;

struct Plan {
  std::size_t producers{1};
  std::uint32_t records{1};  // of each producer
  bool looks_again{true};    // planted when false: the consumer sleeps without a last look
};

/// Producers that increment a word, which stands for a ring, and a consumer that sleeps when
/// nothing is new.
struct Hall {
  std::array<Attention, 2> attention;
  std::array<std::atomic<std::uint32_t>, 2> published{};
  std::atomic<std::uint32_t> wakes;
  std::array<std::uint32_t, 2> seen{};
  std::uint32_t seen_in_all{};
  std::uint32_t announced{};  // sleeps
  std::uint32_t told{};       // producers that had to wake

  bool look(const Plan& plan) {
    bool is_new = false;
    for (std::size_t i = 0; i < plan.producers; ++i) {
      const std::uint32_t count = ExploredAtomics::load(published.at(i), std::memory_order_acquire);
      is_new = is_new || count != seen.at(i);
      seen_in_all += count - seen.at(i);
      seen.at(i) = count;
    }
    return is_new;
  }
};

/// The futex word is `sleeping` itself, shared by all producers.
struct OneFlag {
  template <class Atomics>
  static void tell(Hall& hall, std::size_t /*producer*/) {
    Attention& attention = hall.attention[0];
    if (must_wake<Atomics>(attention)) {
      ++hall.told;
      Explorer::running()->check(hall.told <= hall.announced, "one sleep, one wake");
      Explorer::running()->wake(attention.sleeping);
    }
  }

  template <class Atomics>
  static void sleep(Hall& hall, const Plan& plan) {
    Attention& attention = hall.attention[0];
    ++hall.announced;
    announce_sleep<Atomics>(attention);
    if (!plan.looks_again || !hall.look(plan)) {
      Explorer::running()->sleep_while(attention.sleeping, 1);
    }
    announce_awake<Atomics>(attention);
  }
};

/// A flag per producer, and a counter of wake-ups as common futex word.
struct FlagForEach {
  template <class Atomics>
  static void tell(Hall& hall, std::size_t producer) {
    if (must_wake<Atomics>(hall.attention.at(producer))) {
      ExploredAtomics::fetch_add(hall.wakes, 1, std::memory_order_release);
      Explorer::running()->wake(hall.wakes);
    }
  }

  template <class Atomics>
  static void sleep(Hall& hall, const Plan& plan) {
    const std::uint32_t wakes = ExploredAtomics::load(hall.wakes, std::memory_order_acquire);
    for (std::size_t i = 0; i < plan.producers; ++i) {
      announce_sleep<Atomics>(hall.attention.at(i));
    }
    if (!plan.looks_again || !hall.look(plan)) {
      Explorer::running()->sleep_while(hall.wakes, wakes);
    }
    for (std::size_t i = 0; i < plan.producers; ++i) {
      announce_awake<Atomics>(hall.attention.at(i));
    }
  }
};

template <class Protocol, class ProducerAtomics = ExploredAtomics,
          class ConsumerAtomics = ExploredAtomics>
Explorer::Scenario hall(const Plan& plan) {
  return [plan](Explorer& explorer) {
    constexpr std::array<std::string_view, 2> kNames{"producer 0", "producer 1"};
    const auto hall = std::make_shared<Hall>();
    explorer.share("sleeping of 0", hall->attention[0].sleeping);
    explorer.share("sleeping of 1", hall->attention[1].sleeping);
    explorer.share("published by 0", hall->published[0]);
    explorer.share("published by 1", hall->published[1]);
    explorer.share("wakes", hall->wakes);
    for (std::size_t i = 0; i < plan.producers; ++i) {
      explorer.add_fiber(kNames.at(i), [&plan, hall, i] {
        for (std::uint32_t count = 1; count <= plan.records; ++count) {
          ExploredAtomics::store(hall->published.at(i), count, std::memory_order_release);
          Protocol::template tell<ProducerAtomics>(*hall, i);
        }
      });
    }
    explorer.add_fiber("consumer", [&plan, hall] {
      while (hall->seen_in_all < plan.producers * plan.records) {
        if (!hall->look(plan)) {
          Protocol::template sleep<ConsumerAtomics>(*hall, plan);
        }
      }
    });
  };
}

/// Policy: number of runs of one exploration, sufficient to try all.
constexpr std::uint64_t kRunsMax = 1'000'000;
constexpr std::size_t kUnbounded = 1'000'000;

void expect_sound(const Explorer::Scenario& scenario, std::size_t deviations) {
  const auto report = Explorer::every(scenario, {.deviations = deviations, .runs = kRunsMax});
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete) << report.runs << " runs were not enough";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(Explorer::at_random(scenario, seed, 500).failure, "") << "seed " << seed;
  }
}

void expect_found(const Explorer::Scenario& scenario, std::string_view failure) {
  const auto report = Explorer::every(scenario, {.deviations = 3, .runs = kRunsMax});
  EXPECT_EQ(report.failure.substr(0, failure.size()), failure) << report.failure;
  EXPECT_NE(Explorer::at_random(scenario, 1, 20'000).failure, "");
}

TEST(DoorbellInterleaving, LosesNoWakeOfOneRecordInEveryRunThereIs) {
  expect_sound(hall<OneFlag>({}), kUnbounded);
  expect_sound(hall<FlagForEach>({}), kUnbounded);
}

TEST(DoorbellInterleaving, LosesNoWakeOfSeveralRecords) {
  expect_sound(hall<OneFlag>({.records = 3}), 4);
  expect_sound(hall<FlagForEach>({.records = 3}), 4);
}

TEST(DoorbellInterleaving, LosesNoWakeOfTwoProducersWithAFlagEach) {
  expect_sound(hall<FlagForEach>({.producers = 2}), 3);
  expect_sound(hall<FlagForEach>({.producers = 2, .records = 2}), 2);
}

TEST(DoorbellInterleaving, TellsOneOfTwoProducersForEachSleep) {
  expect_sound(hall<OneFlag>({.producers = 2}), 3);
  expect_sound(hall<OneFlag>({.producers = 2, .records = 2}), 2);
}

/// Planted bug: no fence.
struct NoFence : ExploredAtomics {
  static void fence() {}
};

/// Planted: the flag is taken in two steps.
struct TornExchange : ExploredAtomics {
  static std::uint32_t exchange(std::atomic<std::uint32_t>& word, std::uint32_t value,
                                std::memory_order order) {
    const std::uint32_t old = ExploredAtomics::load(word, order);
    ExploredAtomics::store(word, value, order);
    return old;
  }
};

constexpr std::string_view kLostWake = "consumer sleeps for ever";

TEST(DoorbellInterleaving, FindsAProducerWithoutAFence) {
  expect_found(hall<OneFlag, NoFence>({}), kLostWake);
  expect_found(hall<FlagForEach, NoFence>({}), kLostWake);
}

TEST(DoorbellInterleaving, FindsAConsumerWithoutAFence) {
  expect_found(hall<OneFlag, ExploredAtomics, NoFence>({}), kLostWake);
  expect_found(hall<FlagForEach, ExploredAtomics, NoFence>({}), kLostWake);
}

TEST(DoorbellInterleaving, FindsAConsumerThatDoesNotLookAgainBeforeItSleeps) {
  expect_found(hall<OneFlag>({.looks_again = false}), kLostWake);
  expect_found(hall<FlagForEach>({.looks_again = false}), kLostWake);
}

TEST(DoorbellInterleaving, FindsTwoProducersThatBothTakeTheFlag) {
  expect_found(hall<OneFlag, TornExchange>({.producers = 2}), "not so: one sleep, one wake");
}

}  // namespace
}  // namespace weft::ring
