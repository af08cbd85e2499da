#include "host/placement/page_sharing.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "host/testing/local_process.h"
#include "os/clock.h"
#include "os/peer_file.h"
#include "os/process_pages.h"
#include "os/shared_backing.h"

namespace weft::host {
namespace {

/// Regions in private memory of this process.
class SharedMemoryOfAProgram : public ::testing::Test {
 protected:
  static constexpr std::size_t kPages = 4;

  void SetUp() override {
#if WEFT_THREAD_SANITIZER
    GTEST_SKIP() << "the thread sanitizer knows memory by the mappings that it has seen";
#endif
    make_memory();
    process_.parts.page_sharing.turn_on();
  }
  void make_memory() {
    void* const at =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = {static_cast<std::byte*>(at), bytes()};
    std::ranges::fill(memory_, std::byte{7});
  }
  void TearDown() override {
    process_.parts.thread.stop();
    if (!memory_.empty()) {
      munmap(memory_.data(), memory_.size());
    }
  }
  [[nodiscard]] static std::size_t bytes() { return kPages * os::page_size(); }
  [[nodiscard]] PageSharing& sharing() { return process_.parts.page_sharing; }
  /// Whether or not anybody has the file open still.
  [[nodiscard]] bool is_shared() const { return os::shared_backing_of(memory_).has_value(); }
  [[nodiscard]] bool has_its_content() const {
    return std::ranges::all_of(memory_, [](std::byte each) { return each == std::byte{7}; });
  }

  testing::LocalProcess process_;
  MutableByteSpan memory_;
  const int region_{};
  const int other_{};
};

TEST_F(SharedMemoryOfAProgram, IsThatOfARegionWhileItLasts) {
  sharing().share(&region_, memory_);
  EXPECT_TRUE(is_shared());
  EXPECT_TRUE(has_its_content());
  sharing().forget(&region_);
  EXPECT_FALSE(is_shared());
  EXPECT_TRUE(has_its_content());
}

TEST_F(SharedMemoryOfAProgram, IsSharedWhileOurOwnThreadIsHeld) {
  process_.parts.thread.start();
  sharing().share(&region_, memory_);
  EXPECT_TRUE(is_shared());
  sharing().forget(&region_);
  EXPECT_FALSE(is_shared());
  EXPECT_FALSE(process_.parts.thread.is_held());
}

TEST_F(SharedMemoryOfAProgram, StaysPrivateIfTheProgramHasThreads) {
  std::atomic<bool> stops{};
  std::thread thread{[&] { stops.wait(false); }};
  sharing().share(&region_, memory_);
  EXPECT_FALSE(is_shared());
  stops = true;
  stops.notify_all();
  thread.join();
}

/// It is private again, too, if the program has got threads meanwhile.
TEST_F(SharedMemoryOfAProgram, IsGivenBackBesideThreads) {
  sharing().share(&region_, memory_);
  EXPECT_TRUE(is_shared());
  std::atomic<bool> stops{};
  std::thread thread{[&] { stops.wait(false); }};
  sharing().forget(&region_);
  EXPECT_FALSE(is_shared());
  EXPECT_TRUE(has_its_content());
  stops = true;
  stops.notify_all();
  thread.join();
}

TEST_F(SharedMemoryOfAProgram, LastsUntilTheLastRegionIsGone) {
  sharing().share(&region_, memory_);
  sharing().share(&other_, memory_.subspan(10, 20));
  sharing().forget(&region_);
  EXPECT_TRUE(is_shared());
  sharing().forget(&other_);
  EXPECT_FALSE(is_shared());
}

TEST_F(SharedMemoryOfAProgram, IsNotThatOfRegionsThatOverlapInPart) {
  sharing().share(&region_, memory_.first(2 * os::page_size()));
  sharing().share(&other_, memory_.subspan(os::page_size()));
  EXPECT_TRUE(os::find_held_file(memory_.first(1)));
  EXPECT_FALSE(os::find_held_file(memory_.last(1)));
  sharing().forget(&other_);
  EXPECT_TRUE(os::find_held_file(memory_.first(1)));
  sharing().forget(&region_);
}

TEST_F(SharedMemoryOfAProgram, IsNotSharedWithAChild) {
  sharing().share(&region_, memory_);
  ASSERT_TRUE(is_shared());
  const pid_t child = fork();
  if (child == 0) {
    std::ranges::fill(memory_, std::byte{9});
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(has_its_content());
  EXPECT_FALSE(is_shared());
  sharing().forget(&region_);
}

TEST_F(SharedMemoryOfAProgram, IsSharedAgainByRegionsThatComeAfterAChild) {
  for (int i = 0; i < 3; ++i) {
    sharing().share(&region_, memory_);
    EXPECT_TRUE(is_shared());
    const pid_t child = fork();
    if (child == 0) {
      std::ranges::fill(memory_, std::byte{9});
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    EXPECT_FALSE(is_shared());
    EXPECT_TRUE(has_its_content());
    sharing().forget(&region_);
    munmap(memory_.data(), memory_.size());  // what is left of a file is none of malloc's pages
    make_memory();
  }
}

/// A peer with a grant of before could be writing to the pages, which have other regions, too.
TEST_F(SharedMemoryOfAProgram, EndsAllGrantsBeforeItIsCopied) {
  std::vector<std::byte> words(kPlacementBytes + 64);
  Placements& placements = process_.parts.placements;
  PeerPlacement& peer = placements.add_peer();
  void* place = words.data();
  std::size_t room = words.size();
  auto* const start = static_cast<std::byte*>(std::align(64, kPlacementBytes, place, room));
  ASSERT_NE(start, nullptr);
  peer.open({start, kPlacementBytes}, 0, getpid());
  auto epoch = placements.epoch(peer);
  const auto has_ended = [&] {
    const auto before = std::exchange(epoch, placements.epoch(peer));
    return epoch != before;
  };
  sharing().share(&region_, memory_);
  EXPECT_TRUE(has_ended());
  sharing().forget(&region_);
  EXPECT_TRUE(has_ended());
  sharing().share(&region_, memory_);
  EXPECT_TRUE(has_ended());
  sharing().end();
  EXPECT_TRUE(has_ended());
  EXPECT_FALSE(has_ended());
  peer.close();
}

/// A program that registers its memory for each transfer loses little of its time.
TEST_F(SharedMemoryOfAProgram, TakesAPartOfTheTimeAndNoMore) {
  const Instant start = os::now();
  bool was_shared = true;
  std::size_t rounds = 0;
  while (was_shared && os::now() - start < Duration::seconds(30)) {
    sharing().share(&region_, memory_);
    was_shared = is_shared();
    sharing().forget(&region_);
    ++rounds;
  }
  EXPECT_FALSE(was_shared);
  EXPECT_LT(rounds, PageSharing::kMostTries) << "another bound";
  EXPECT_GE(os::now() - start, PageSharing::kFreeTime);
}

TEST_F(SharedMemoryOfAProgram, IsNotLongerThanWhatMayBeCopied) {
  const std::size_t most = PageSharing::kMostBytes + os::page_size();
  void* const at = mmap(nullptr, most, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  sharing().share(&region_, {static_cast<const std::byte*>(at), most});
  EXPECT_FALSE(os::find_held_file({static_cast<const std::byte*>(at), most}));
  munmap(at, most);
}

}  // namespace
}  // namespace weft::host
