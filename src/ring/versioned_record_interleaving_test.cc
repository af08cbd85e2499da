#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ring/testing/explored_atomics.h"
#include "ring/testing/explorer.h"
#include "ring/versioned_record.h"

/// A record that is read while it is written, in every interleaving that the bounds below allow: no
/// reader takes words of two versions, and mistakes by which it would are found.

namespace weft::ring {
namespace {

using testing::ExploredAtomics;
using testing::Explorer;

constexpr std::size_t kWords = 2;

struct Shared {
  alignas(std::uint32_t) std::array<std::byte, VersionedRecord<kWords>::kBytes> record{};
};

/// Writes 1 and then 2 into both words, beside readers that must find the same in both, and never
/// an older record than before.
template <class WriterAtomics = ExploredAtomics, class ReaderAtomics = ExploredAtomics>
Explorer::Scenario one_writes(std::size_t readers) {
  return [readers](Explorer& explorer) {
    constexpr std::array<std::string_view, 2> kNames{"reader 0", "reader 1"};
    const auto shared = std::make_shared<Shared>();
    explorer.share("record", std::span<const std::byte>{shared->record});
    explorer.add_fiber("writer", [shared] {
      for (std::uint32_t value = 1; value <= 2; ++value) {
        VersionedRecord<kWords, WriterAtomics>::write(shared->record.data(), {value, value});
      }
    });
    for (std::size_t i = 0; i < readers; ++i) {
      explorer.add_fiber(kNames.at(i), [shared] {
        std::uint32_t last = 0;
        for (int turn = 0; turn < 2; ++turn) {
          std::array<std::uint32_t, kWords> words{};
          if (VersionedRecord<kWords, ReaderAtomics>::read(shared->record.data(), words)) {
            Explorer::running()->check(words[0] == words[1], "the words are of one version");
            Explorer::running()->check(words[0] >= last, "a later record is no older one");
            last = words[0];
          }
        }
      });
    }
  };
}

/// Policy: number of runs of one exploration, sufficient to try all.
constexpr std::uint64_t kRunsMax = 1'000'000;

void expect_sound(const Explorer::Scenario& scenario, std::size_t deviations) {
  const auto report = Explorer::every(scenario, {.deviations = deviations, .runs = kRunsMax});
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete) << report.runs << " runs were not enough";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(Explorer::at_random(scenario, seed, 500).failure, "") << "seed " << seed;
  }
}

void expect_found(const Explorer::Scenario& scenario) {
  constexpr std::string_view kTorn = "not so: the words are of one version";
  const auto report = Explorer::every(scenario, {.deviations = 4, .runs = kRunsMax});
  EXPECT_EQ(report.failure.substr(0, kTorn.size()), kTorn) << report.failure;
}

TEST(VersionedRecordInterleaving, IsReadWholeOrNotAtAll) {
  expect_sound(one_writes(1), 4);
  expect_sound(one_writes(2), 2);
}

TEST(VersionedRecord, IsReadAsItWasWrittenLast) {
  Shared shared;
  std::array<std::uint32_t, kWords> words{9, 9};
  EXPECT_TRUE(VersionedRecord<kWords>::read(shared.record.data(), words));
  EXPECT_EQ(words, (std::array<std::uint32_t, kWords>{0, 0}));
  for (std::uint32_t value = 1; value <= 3; ++value) {
    VersionedRecord<kWords>::write(shared.record.data(), {value, ~value});
    EXPECT_TRUE(VersionedRecord<kWords>::read(shared.record.data(), words));
    EXPECT_EQ(words, (std::array{value, ~value}));
  }
}

TEST(VersionedRecord, OfAWriterThatDiedInTheMiddleIsNotRead) {
  Shared shared;
  VersionedRecord<kWords>::write(shared.record.data(), {1, 1});
  shared.record[0] = std::byte{3};
  std::array<std::uint32_t, kWords> words{};
  EXPECT_FALSE(VersionedRecord<kWords>::read(shared.record.data(), words));
}

/// Planted bug: no fence.
struct NoFence : ExploredAtomics {
  static void fence() {}
};

/// Planted: the version that ends a write may be seen before the words are.
struct RelaxedStores : ExploredAtomics {
  static void store(std::byte* word, std::uint32_t value, std::memory_order /*order*/) {
    ExploredAtomics::store(word, value, std::memory_order_relaxed);
  }
};

/// Planted: the words may be older than the version that was seen.
struct RelaxedLoads : ExploredAtomics {
  static std::uint32_t load(const std::byte* word, std::memory_order /*order*/) {
    return ExploredAtomics::load(word, std::memory_order_relaxed);
  }
};

TEST(VersionedRecordInterleaving, FindsAWriterWithoutAFence) {
  expect_found(one_writes<NoFence>(1));
}

TEST(VersionedRecordInterleaving, FindsAReaderWithoutAFence) {
  expect_found(one_writes<ExploredAtomics, NoFence>(1));
}

TEST(VersionedRecordInterleaving, FindsAWriterWithoutRelease) {
  expect_found(one_writes<RelaxedStores>(1));
}

TEST(VersionedRecordInterleaving, FindsAReaderWithoutAcquire) {
  expect_found(one_writes<ExploredAtomics, RelaxedLoads>(1));
}

}  // namespace
}  // namespace weft::ring
