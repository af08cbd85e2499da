#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

constexpr LKey kWhole{1};
constexpr LKey kOwn{7};
constexpr std::uint32_t kPieceBytes = 4096;

/// A PD whose registrations are counted, and refused if that is asked for.
class LocalKeys : public ::testing::Test {
 protected:
  LocalKeys() {
    pd_.local_key = kWhole;
    pd_.registrations = std::make_unique<Registrations>(
        Registrations::Registrar{
            .add = [this](std::uint64_t /*begin*/,
                          std::uint64_t length) -> Result<Registrations::Entry> {
              ++asked_;
              if (refuses_) {
                return fail(ErrorCode::OutOfMemory, "a limit of locked memory");
              }
              return Registrations::Entry{.length = length, .lkey = kOwn, .region = nullptr};
            },
            .remove = [](const Registrations::Entry& /*entry*/) {}},
        8);
  }
  /// The first byte of a page, of two that stay.
  [[nodiscard]] std::uint64_t in_heap() const {
    return (std::bit_cast<std::uint64_t>(pages_) + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  }

  const void* const pages_ = sbrk(2 * std::intptr_t{kPieceBytes});  // whatever allocator there is
  VerbsPd pd_;
  unsigned asked_{};
  bool refuses_{};
};

TEST_F(LocalKeys, OfTheHeapAreItsRegistrationsBesideAKeyForAllMemory) {
  static unsigned outside = 0;
  pd_.reaches_all = true;
  EXPECT_EQ(pd_.key_of(in_heap(), 64), kWhole);
  EXPECT_EQ(asked_, 0U);
  pd_.registers_heap = true;
  EXPECT_EQ(pd_.key_of(in_heap(), 64), kOwn);
  EXPECT_EQ(pd_.key_of(in_heap() + 64, 64), kOwn);
  EXPECT_EQ(asked_, 1U);
  EXPECT_EQ(pd_.key_of(std::bit_cast<std::uint64_t>(&outside), sizeof outside), kWhole);
  EXPECT_EQ(asked_, 1U);
}

TEST_F(LocalKeys, OfTheHeapAreThatForAllMemoryOnceARegistrationIsRefused) {
  pd_.reaches_all = pd_.registers_heap = true;
  refuses_ = true;
  EXPECT_EQ(pd_.key_of(in_heap(), 64), kWhole);
  EXPECT_EQ(asked_, 1U);
  refuses_ = false;
  EXPECT_EQ(pd_.key_of(in_heap(), 64), kWhole);
  EXPECT_EQ(asked_, 1U);
}

TEST_F(LocalKeys, AreRegistrationsOutsideAnArenaAndNothingElseThen) {
  ibv_mr arena{};
  arena.addr = std::bit_cast<void*>(in_heap());
  arena.length = kPieceBytes / 2;
  pd_.region = &arena;
  EXPECT_EQ(pd_.key_of(in_heap() + kPieceBytes / 2 - 64, 64), kWhole);
  EXPECT_EQ(asked_, 0U);
  refuses_ = true;
  const auto refused = pd_.key_of(in_heap() + kPieceBytes / 2 - 63, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  refuses_ = false;
  EXPECT_EQ(pd_.key_of(in_heap() + kPieceBytes / 2 - 63, 64), kOwn);
}

}  // namespace
}  // namespace weft::verbs_driver
