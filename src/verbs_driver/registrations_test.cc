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
