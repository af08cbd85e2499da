#include "verbs_driver/registrations.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace weft::verbs_driver {
namespace {

constexpr std::uint64_t kPage = Registrations::kPageBytes;

/// Gives keys 1, 2, ... and knows which are there.
struct FakeRegistrar {
  std::uint32_t last{};
  std::uint64_t begin{};
  std::uint64_t length{};
  std::set<std::uint32_t> there;

  [[nodiscard]] Registrations::Registrar functions() {
    return {.add = [this](std::uint64_t at, std::uint64_t bytes) -> Result<Registrations::Entry> {
              begin = at;
              length = bytes;
              there.insert(++last);
              return Registrations::Entry{.length = bytes, .lkey = LKey{last}};
            },
            .remove =
                [this](const Registrations::Entry& entry) {
                  EXPECT_EQ(there.erase(entry.lkey.value()), 1U);
                }};
  }
};

TEST(Registrations, AreMadeOnceForWholePages) {
  FakeRegistrar device;
  Registrations kept{device.functions(), 8};
  EXPECT_EQ(*kept.key_of(kPage + 100, kPage), LKey{1});
  EXPECT_EQ(device.begin, kPage);
  EXPECT_EQ(device.length, 2 * kPage);
  EXPECT_EQ(*kept.key_of(kPage, 1), LKey{1});
  EXPECT_EQ(*kept.key_of(3 * kPage - 1, 1), LKey{1});
  EXPECT_EQ(kept.size(), 1U);
  EXPECT_EQ(*kept.key_of(3 * kPage - 1, 2), LKey{2}) << "its second byte is on another page";
}

TEST(Registrations, OfALongPieceServeWhatLiesBehindShorterOnes) {
  FakeRegistrar device;
  Registrations kept{device.functions(), 8};
  EXPECT_EQ(*kept.key_of(0x10000, 16 * kPage), LKey{1});
  EXPECT_EQ(*kept.key_of(0x10000 + 15 * kPage, 2 * kPage), LKey{2});
  EXPECT_EQ(*kept.key_of(0x10000 + 2 * kPage, 4 * kPage), LKey{1});
  EXPECT_EQ(*kept.key_of(0x10000 + 16 * kPage, 8), LKey{2});
}

TEST(Registrations, TakeMoreAroundAPieceOfMuchMemory) {
  constexpr std::uint64_t kUnit = 4 * Registrations::kAroundBytes;
  FakeRegistrar device;
  Registrations::Registrar registrar = device.functions();
  registrar.around = [] {
    return Registrations::Range{.begin = 0, .end = Registrations::kPartsOfAll * kUnit};
  };
  Registrations kept{std::move(registrar), 8};
  EXPECT_EQ(*kept.key_of(3 * kUnit + kPage, kPage), LKey{1});
  EXPECT_EQ(device.begin, 3 * kUnit);
  EXPECT_EQ(device.length, kUnit);
}

TEST(Registrations, TakeMemoryAroundAPieceAlongWhereThatIsThere) {
  constexpr std::uint64_t kAround = Registrations::kAroundBytes;
  FakeRegistrar device;
  Registrations::Registrar registrar = device.functions();
  const std::uint64_t first = 4 * kAround + 3 * kPage;
  Registrations::Range heap{.begin = first, .end = 6 * kAround};
  registrar.around = [&heap] { return heap; };
  std::uint64_t most = ~std::uint64_t{0};
  registrar.add = [&most, add = registrar.add](std::uint64_t at, std::uint64_t bytes) {
    return bytes <= most ? add(at, bytes)
                         : Result<Registrations::Entry>{fail(ErrorCode::OutOfMemory, "locked")};
  };
  Registrations kept{registrar, 8};
  EXPECT_EQ(*kept.key_of(first + 100, 10), LKey{1});
  EXPECT_EQ(device.begin, first);  // where the heap begins
  EXPECT_EQ(device.length, kAround - 3 * kPage);
  EXPECT_EQ(*kept.key_of(5 * kAround - 8, 8), LKey{1});
  EXPECT_EQ(*kept.key_of(5 * kAround - 8, 16), LKey{2});  // of both sides, to the heap's end
  EXPECT_EQ(device.begin, first);
  EXPECT_EQ(device.begin + device.length, 6 * kAround);
  heap.end = 7 * kAround;  // it has grown
  most = kPage;            // and no more memory may be locked
  EXPECT_EQ(*kept.key_of(6 * kAround + 8, 8), LKey{3});
  EXPECT_EQ(device.length, kPage);
  EXPECT_EQ(*kept.key_of(9 * kAround + 8, 8), LKey{4});  // not of the heap
  EXPECT_EQ(device.begin, 9 * kAround);
}

TEST(Registrations, EndWhenTheirMemoryIsForgottenAndWithTheirPd) {
  FakeRegistrar device;
  auto kept = std::make_unique<Registrations>(device.functions(), 8);
  EXPECT_TRUE(kept->key_of(0x10000, kPage));
  EXPECT_TRUE(kept->key_of(0x20000, kPage));
  kept->forget(0x10000 + kPage - 1, 1);
  EXPECT_EQ(device.there, std::set<std::uint32_t>{2});
  EXPECT_EQ(*kept->key_of(0x10000, 1), LKey{3});
  kept.reset();
  EXPECT_TRUE(device.there.empty());
}

TEST(Registrations, AboveTheLimitAreRefusedAndNoneGoesByItself) {
  FakeRegistrar device;
  Registrations kept{device.functions(), 2};
  EXPECT_TRUE(kept.key_of(0x10000, 1));
  EXPECT_TRUE(kept.key_of(0x20000, 1));
  const auto third = kept.key_of(0x30000, 1);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(*kept.key_of(0x10000, 1), LKey{1});
}

TEST(Registrations, RefuseWhatGoesBeyondTheLastAddress) {
  FakeRegistrar device;
  Registrations kept{device.functions(), 2};
  EXPECT_FALSE(kept.key_of(~std::uint64_t{0} - 10, 100));
  EXPECT_EQ(device.last, 0U);
}

}  // namespace
}  // namespace weft::verbs_driver
