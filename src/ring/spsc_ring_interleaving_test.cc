#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/spsc_ring.h"
#include "ring/testing/explored_atomics.h"
#include "ring/testing/explorer.h"

/// One producer and one consumer in every interleaving that the bounds below allow, on a memory
/// that is weaker than any processor; and planted mistakes that must be found.

namespace weft::ring {
namespace {

using testing::ExploredAtomics;
using testing::Explorer;

constexpr std::size_t kCapacity = kMinCapacity;
constexpr std::size_t kSlots = kCapacity / kSlotBytes;
constexpr std::size_t kWordBytes = sizeof(std::uint32_t);

/// Content of old bodies; as the first word of a record it would mean four bytes.
constexpr std::uint32_t kOldBody = 5;

struct Plan {
  std::size_t start{};              // slots that were used before
  std::vector<std::size_t> bodies;  // bytes, a multiple of 4
  bool asks_if_drained{true};       // the producer, until it is so
  bool pops_early{};                // planted: the consumer reads a body that it has given back
  bool grows{};                     // the memory is four times as large as the ring is at first
};

/// A plan of the second lap, where old bodies lie ahead.
Plan from_slot(std::size_t slot, std::vector<std::size_t> bodies) {
  Plan plan;
  plan.start = kSlots + slot;
  plan.bodies = std::move(bodies);
  return plan;
}

/// Positions at which bodies are accessed: both ends, sufficient to distinguish bodies.
std::vector<std::size_t> probes_of(std::size_t bytes) {
  if (bytes <= kWordBytes) {
    return std::vector<std::size_t>(bytes / kWordBytes);
  }
  return {0, bytes - kWordBytes};
}

template <class ProducerAtomics, class ConsumerAtomics>
struct Conversation {
  explicit Conversation(bool grows)
      : ring(std::span{memory}.first(ring_bytes(grows ? 4 * kCapacity : kCapacity))) {}

  alignas(kSlotBytes) std::array<std::byte, ring_bytes(4 * kCapacity)> memory{};
  std::span<std::byte> ring;
  Producer<ProducerAtomics> producer{ring, kCapacity};
  using State = Consumer<ConsumerAtomics>::State;

  Consumer<ConsumerAtomics> consumer{ring, kCapacity};
  std::vector<std::vector<std::size_t>> probes;
  std::uint32_t written{};
  std::uint32_t read{};

  /// Advances both ends by that many slots, leaving old bodies there.
  void advance(std::size_t by) {
    for (std::size_t at = 0; at < by;) {
      const std::size_t slots = std::min<std::size_t>(by - at, kSlots / 4);
      const auto body = producer.reserve(slots * kSlotBytes - kRecordHeaderBytes);
      for (std::size_t i = 0; i < body.size(); i += kWordBytes) {
        std::memcpy(&body[i], &kOldBody, kWordBytes);
      }
      producer.commit();
      at += slots;
      EXPECT_EQ(consumer.front().state, State::Record);
      consumer.pop();
      EXPECT_EQ(consumer.front().state, State::Empty);
    }
  }

  static std::uint32_t word_of(std::uint32_t record, std::size_t offset) {
    return (record + 1) * 0x1'0000 + static_cast<std::uint32_t>(offset);
  }

  void write(std::byte* body) {
    for (const std::size_t offset : probes[written]) {
      const std::uint32_t word = word_of(written, offset);
      ExploredAtomics::copy(body + offset, std::as_bytes(std::span{&word, 1}).data(), kWordBytes);
    }
    ++written;
  }

  /// Every other record in one go, if it can be.
  void send(std::size_t bytes) {
    if (written % 2 == 0 && producer.put(bytes, [this](std::byte* body) { write(body); })) {
      return;
    }
    std::span<std::byte> body;
    while ((body = producer.reserve(bytes)).data() == nullptr) {
      Explorer::running()->pause();
    }
    write(body.data());
    producer.commit();
  }

  /// Receives a record, which must be the next one and intact; returns false if there is none.
  bool receive(const Plan& plan) {
    Explorer& explorer = *Explorer::running();
    const auto front = consumer.look();
    explorer.check(front.state != State::Corrupt, "no record is corrupt");
    if (front.state != State::Record) {
      consumer.settle();
      return false;
    }
    explorer.check(read < written, "a record arrives once");
    explorer.check(front.body.size() == plan.bodies[read], "records arrive in order");
    if (plan.pops_early) {
      consumer.pop();
      consumer.settle();
    }
    for (const std::size_t offset : probes[read]) {
      std::uint32_t word = 0;
      ExploredAtomics::copy(std::as_writable_bytes(std::span{&word, 1}).data(), &front.body[offset],
                            kWordBytes);
      explorer.check(word == word_of(read, offset), "a record arrives intact");
    }
    ++read;
    if (!plan.pops_early) {
      consumer.pop();
      consumer.settle();
    }
    return true;
  }

  [[nodiscard]] bool is_drained() {
    const bool drained = producer.is_drained();
    Explorer::running()->check(!drained || read == written, "a drained ring was read to its end");
    return drained;
  }
};

template <class ProducerAtomics = ExploredAtomics, class ConsumerAtomics = ExploredAtomics>
Explorer::Scenario conversation(const Plan& plan) {
  return [plan](Explorer& explorer) {
    const auto talk = std::make_shared<Conversation<ProducerAtomics, ConsumerAtomics>>(plan.grows);
    talk->advance(plan.start);
    for (const std::size_t bytes : plan.bodies) {
      talk->probes.push_back(probes_of(bytes));
    }
    explorer.share("head", talk->ring.first(kSlotBytes));
    explorer.share("slots", talk->ring.subspan(kSlotBytes));
    explorer.add_fiber("producer", [&plan, talk] {
      for (const std::size_t bytes : plan.bodies) {
        talk->send(bytes);
      }
      while (plan.asks_if_drained && !talk->is_drained()) {
        Explorer::running()->pause();
      }
    });
    explorer.add_fiber("consumer", [&plan, talk] {
      while (talk->read < plan.bodies.size()) {
        if (!talk->receive(plan)) {
          Explorer::running()->pause();
        }
      }
      Explorer::running()->check(!talk->receive(plan), "nothing follows the last record");
    });
  };
}

/// Policy: number of runs of one exploration, sufficient to try all.
constexpr std::uint64_t kRunsMax = 1'000'000;
constexpr std::size_t kUnbounded = 1'000'000;

void expect_sound(const Plan& plan, std::size_t deviations) {
  const auto scenario = conversation(plan);
  const auto report = Explorer::every(scenario, {.deviations = deviations, .runs = kRunsMax});
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete) << report.runs << " runs were not enough";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(Explorer::at_random(scenario, seed, 500).failure, "") << "seed " << seed;
  }
}

template <class ProducerAtomics, class ConsumerAtomics = ExploredAtomics>
void expect_found(const Plan& plan, std::string_view failure) {
  const auto scenario = conversation<ProducerAtomics, ConsumerAtomics>(plan);
  const auto report = Explorer::every(scenario, {.deviations = 2, .runs = kRunsMax});
  EXPECT_EQ(report.failure.substr(0, failure.size()), failure) << report.failure;
  EXPECT_NE(Explorer::at_random(scenario, 1, 10'000).failure, "");
}

/// A body of 28 slots: two fill the ring so far that a third waits, and then skips the end.
constexpr std::size_t kLarge = 28 * kSlotBytes - kRecordHeaderBytes;

TEST(SpscRingInterleaving, OneRecordArrivesInEveryRunThereIs) {
  expect_sound(from_slot(8, {8}), kUnbounded);
}

TEST(SpscRingInterleaving, TwoRecordsArriveInEveryRunThereIs) {
  Plan plan = from_slot(8, {4, 4});
  plan.asks_if_drained = false;
  expect_sound(plan, kUnbounded);
}

TEST(SpscRingInterleaving, FourRecordsArriveOnceInOrderIntact) {
  expect_sound(from_slot(8, {4, 100, 0, 8}), 4);
}

TEST(SpscRingInterleaving, ARecordThatWouldWrapSkipsTheEndInEveryRunThereIs) {
  expect_sound(from_slot(kSlots - 1, {100}), kUnbounded);
}

TEST(SpscRingInterleaving, RecordsAroundASkipArriveOnceInOrderIntact) {
  expect_sound(from_slot(kSlots - 2, {4, 100, 4}), 4);
}

TEST(SpscRingInterleaving, RecordsThatEndWithTheRingNeedNoSkip) {
  expect_sound(from_slot(kSlots - 2, {4, 4, 4}), 4);
}

TEST(SpscRingInterleaving, AFullRingIsReusedOnlyOnceItWasRead) {
  expect_sound(from_slot(0, {kLarge, kLarge, kLarge, 4}), 3);
}

/// A full ring that may grow, with the mark in its middle or at its end; a ring too small for a
/// record; old slots are reused only after they were read.
TEST(SpscRingInterleaving, AFullRingGrowsWithoutWaiting) {
  for (const std::size_t start : {std::size_t{0}, std::size_t{3}, kSlots - 56, kSlots - 1}) {
    Plan plan = from_slot(start, {kLarge, kLarge, kLarge, 4});
    plan.grows = true;
    expect_sound(plan, 3);
  }
}

TEST(SpscRingInterleaving, ARecordThatIsTooLongForARingLetsItGrowInEveryRunThereIs) {
  Plan plan = from_slot(5, {kCapacity});
  plan.grows = true;
  expect_sound(plan, kUnbounded);
}

TEST(SpscRingInterleaving, OldSlotsOfARingThatGrewAreReusedOnlyOnceTheyWereRead) {
  constexpr std::size_t kThird = 80 * kSlotBytes - kRecordHeaderBytes;
  Plan plan = from_slot(0, {kLarge, kLarge, kThird, kThird, kThird, 4});
  plan.grows = true;
  expect_sound(plan, 3);
}

/// Planted: every store is relaxed.
struct RelaxedStores : ExploredAtomics {
  static void store(std::byte* word, std::uint32_t value, std::memory_order /*order*/) {
    ExploredAtomics::store(word, value, std::memory_order_relaxed);
  }
};

/// Planted: every load is relaxed.
struct RelaxedLoads : ExploredAtomics {
  static std::uint32_t load(const std::byte* word, std::memory_order /*order*/) {
    return ExploredAtomics::load(word, std::memory_order_relaxed);
  }
};

/// Planted bug: the word behind a record is cleared after the record is published.
struct LateZero : ExploredAtomics {
  static inline std::byte* held = nullptr;

  static void store(std::byte* word, std::uint32_t value, std::memory_order order) {
    if (value == 0 && order == std::memory_order_relaxed) {
      held = word;
      return;
    }
    ExploredAtomics::store(word, value, order);
    if (order == std::memory_order_release) {
      ExploredAtomics::store(std::exchange(held, nullptr), 0, std::memory_order_relaxed);
    }
  }
};

constexpr std::string_view kRaceWithProducer = "a data race with producer";
constexpr std::string_view kRaceWithConsumer = "a data race with consumer";
constexpr std::string_view kArrivesTwice = "not so: a record arrives once";

TEST(SpscRingInterleaving, FindsAProducerThatDoesNotRelease) {
  expect_found<RelaxedStores>(from_slot(8, {8}), kRaceWithProducer);
  expect_found<RelaxedStores>(from_slot(kSlots - 1, {100}), kRaceWithProducer);
  // Without a body there is no data race, but an old record may be seen behind the new one.
  expect_found<RelaxedStores>(from_slot(8, {0}), kArrivesTwice);
}

TEST(SpscRingInterleaving, FindsAProducerThatDoesNotReleaseItsGrowMark) {
  Plan plan = from_slot(5, {kCapacity});
  plan.grows = true;
  expect_found<RelaxedStores>(plan, kRaceWithProducer);
}

TEST(SpscRingInterleaving, FindsAConsumerThatDoesNotAcquire) {
  expect_found<ExploredAtomics, RelaxedLoads>(from_slot(8, {8}), kRaceWithProducer);
}

TEST(SpscRingInterleaving, FindsAConsumerThatDoesNotRelease) {
  expect_found<ExploredAtomics, RelaxedStores>(from_slot(0, {kLarge, kLarge, kLarge}),
                                               kRaceWithConsumer);
}

TEST(SpscRingInterleaving, FindsAProducerThatDoesNotAcquire) {
  expect_found<RelaxedLoads>(from_slot(0, {kLarge, kLarge, kLarge}), kRaceWithConsumer);
}

TEST(SpscRingInterleaving, FindsAProducerThatPublishesBeforeItZeroesTheNextWord) {
  expect_found<LateZero>(from_slot(8, {4}), kArrivesTwice);
  expect_found<LateZero>(from_slot(kSlots - 1, {100}), kArrivesTwice);
}

TEST(SpscRingInterleaving, FindsAConsumerThatGivesARecordBackTooEarly) {
  Plan plan = from_slot(0, {kLarge});
  plan.pops_early = true;
  expect_found<ExploredAtomics>(plan, "not so: a drained ring was read to its end");
  // The fourth record skips the end and uses the first slot, once that is free.
  constexpr std::size_t kThird = 20 * kSlotBytes - kRecordHeaderBytes;
  plan = from_slot(0, {kThird, kThird, kThird, 300});
  plan.pops_early = true;
  plan.asks_if_drained = false;
  expect_found<ExploredAtomics>(plan, "a data race with ");
}

}  // namespace
}  // namespace weft::ring
