#include "os/user_faults.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "os/process_pages.h"

namespace weft::os {
namespace {

using Kind = MemoryMessage::Kind;

/// Eight pages of which none is there, watched; for whose faults.
class UserFaultsTest : public ::testing::TestWithParam<FaultsOf> {
 protected:
  void SetUp() override {
    auto opened = UserFaults::open(GetParam());
    if (!opened) {
      GTEST_SKIP() << opened.error().reason;
    }
    faults_.emplace(*std::move(opened));
    memory_ = static_cast<char*>(mmap(nullptr, kPages * page_size(), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    ASSERT_TRUE(faults_->watch(page(0), kPages * page_size()));
  }
  void TearDown() override {
    faults_.reset();
    if (memory_ != nullptr) {
      munmap(memory_, kPages * page_size());
    }
  }

  [[nodiscard]] char* at(unsigned i) const { return memory_ + std::size_t{i} * page_size(); }
  [[nodiscard]] std::uint64_t page(unsigned i) const { return std::bit_cast<std::uint64_t>(at(i)); }

  /// The next message, within 10 s.
  [[nodiscard]] MemoryMessage next() {
    pollfd waits{.fd = faults_->fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&waits, 1, 10'000), 1);
    const auto message = faults_->next();
    EXPECT_TRUE(message);
    return message.value_or(MemoryMessage{});
  }
  /// What is told first while another thread does this, which waits until all was read.
  [[nodiscard]] MemoryMessage told_of(const std::function<void()>& change) {
    std::atomic<bool> is_done{};
    std::thread changer{[&] {
      change();
      is_done = true;
    }};
    const MemoryMessage message = next();
    while (!is_done) {
      static_cast<void>(faults_->next());
      std::this_thread::yield();
    }
    changer.join();
    return message;
  }

  static constexpr unsigned kPages = 8;
  std::optional<UserFaults> faults_;
  char* memory_{};
};

TEST_P(UserFaultsTest, AreToldAndServed) {
  std::atomic<int> seen{-1};
  std::thread reader{[&] { seen = *static_cast<volatile char*>(at(3) + 5); }};
  const MemoryMessage message = next();
  EXPECT_EQ(message.kind, Kind::Fault);
  EXPECT_EQ(message.first, page(3));
  EXPECT_EQ(message.last, page(4));
  EXPECT_EQ(seen, -1);
  EXPECT_EQ(faults_->fill(message.first, page_size()), FillOutcome::Filled);
  reader.join();
  EXPECT_EQ(seen, 0);
  EXPECT_FALSE(faults_->next());
}

TEST_P(UserFaultsTest, ComeFromNoPageThatWasFilled) {
  EXPECT_EQ(faults_->fill(page(4), page_size()), FillOutcome::Filled);
  *at(4) = 'x';
  EXPECT_EQ(faults_->fill(page(2), 4 * page_size()), FillOutcome::Filled);
  EXPECT_EQ(*at(4), 'x') << "what is there stays";
  *at(2) = 'y';
  EXPECT_EQ(*at(5), 0);
  EXPECT_FALSE(faults_->next());
}

TEST_P(UserFaultsTest, ComeFromNoneOfPagesOfSeveralMappingsThatWereFilled) {
  ASSERT_EQ(madvise(at(2), page_size(), MADV_DONTFORK), 0);  // which makes it a mapping of its own
  ASSERT_EQ(faults_->fill(page(0), kPages * page_size()), FillOutcome::Filled);
  for (unsigned i = 0; i < kPages; ++i) {
    EXPECT_EQ(*at(i), 0);
  }
  EXPECT_FALSE(faults_->next());
}

TEST_P(UserFaultsTest, TellOfChanges) {
  const auto expect = [&](const MemoryMessage& message, Kind kind, unsigned first, unsigned last) {
    EXPECT_EQ(message.kind, kind);
    EXPECT_EQ(message.first, page(first));
    EXPECT_EQ(message.last, page(last));
  };
  expect(told_of([&] { madvise(at(1), 2 * page_size(), MADV_DONTNEED); }), Kind::Removed, 1, 3);
  expect(told_of([&] { munmap(at(7), page_size()); }), Kind::Unmapped, 7, 8);
  const std::size_t length = 2 * std::size_t{page_size()};
  void* const free = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* moved = nullptr;
  const MemoryMessage message =
      told_of([&] { moved = mremap(at(4), length, length, MREMAP_MAYMOVE | MREMAP_FIXED, free); });
  ASSERT_NE(moved, MAP_FAILED);
  expect(message, Kind::Moved, 4, 6);
  EXPECT_EQ(message.moved_to, std::bit_cast<std::uint64_t>(moved));
  faults_->unwatch(message.moved_to, length);
  munmap(moved, length);  // nobody waits for a reader
}

TEST_P(UserFaultsTest, AreNotOfMemoryThatIsNotWatchedOrCannotBe) {
  faults_->unwatch(page(6), page_size());
  EXPECT_EQ(faults_->fill(page(6), page_size()), FillOutcome::NotWatched);
  *at(6) = 'x';
  EXPECT_FALSE(faults_->next());
  const UniqueFd file{open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  void* const mapped = mmap(nullptr, page_size(), PROT_READ, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(faults_->watch(std::bit_cast<std::uint64_t>(mapped), page_size()).error().code,
            ErrorCode::NotSupported);
  munmap(mapped, page_size());
  EXPECT_FALSE(faults_->watch(8, page_size()));
}

INSTANTIATE_TEST_SUITE_P(Of, UserFaultsTest, ::testing::Values(FaultsOf::Programs, FaultsOf::All),
                         [](const auto& tested) {
                           return tested.param == FaultsOf::Programs ? "Programs" : "All";
                         });

}  // namespace
}  // namespace weft::os
