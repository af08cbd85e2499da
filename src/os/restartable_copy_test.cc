#include "os/restartable_copy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "os/process_pages.h"
#include "os/user_faults.h"

namespace weft::os {
namespace {

constexpr std::uint64_t kLive = 7;
constexpr std::byte kAfterwards{0x77};  // what the owner writes once nobody else may

/// Memory and a word that both an owner and a copier see, though one be a child of fork().
class CopiesWhileLive : public ::testing::Test {
 protected:
  struct Shared {
    std::atomic<std::uint64_t> word{kLive};
    std::atomic<std::uint64_t> copies{};
    std::array<std::byte, 4 * kLiveCopyBytes> memory{};
  };

  void SetUp() override {
    if (!has_live_copy()) {
      GTEST_SKIP() << "no restartable sequences for this thread";
    }
    for (std::size_t i = 0; i < from_.size(); ++i) {
      from_[i] = static_cast<std::byte>(1 + i % 100);
    }
    void* const at =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    shared_ = new (at) Shared;
  }
  void TearDown() override {
    if (shared_ != nullptr) {
      munmap(shared_, sizeof(Shared));
    }
  }

  [[nodiscard]] LiveWord live() const { return {.word = shared_->word, .live = kLive}; }
  [[nodiscard]] LiveCopy copy() {
    return copy_while_live(live(), shared_->memory.data(), ByteSpan{from_});
  }
  /// Until it is refused.
  [[nodiscard]] LiveCopy copy_on_and_on() {
    LiveCopy outcome = LiveCopy::Done;
    while (outcome != LiveCopy::Ended) {
      outcome = copy();
      shared_->copies.fetch_add(1, std::memory_order_relaxed);
    }
    return outcome;
  }
  /// A process that works until it is refused is stopped in the middle; `end` is called before it
  /// goes on. It has left its CPU when waitpid(2) says that it is stopped.
  template <class Work, class End>
  void stop_a_process(Work work, End end) {
    shared_->word.store(kLive);
    const std::uint64_t before = shared_->copies.load();
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(0);
    }
    while (shared_->copies.load() < before + 10) {
      std::this_thread::yield();
    }
    kill(child, SIGSTOP);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    end();
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
  }
  void end_and_reuse() {
    shared_->word.store(kLive + 1);
    std::ranges::fill(shared_->memory, kAfterwards);
  }
  [[nodiscard]] bool is_left_alone() const {
    return std::ranges::all_of(shared_->memory, [](std::byte each) { return each == kAfterwards; });
  }

  std::vector<std::byte> from_ = std::vector<std::byte>(4 * kLiveCopyBytes);
  Shared* shared_{};
};

TEST_F(CopiesWhileLive, OfAnyLengthAreWhole) {
  std::byte* const memory = shared_->memory.data();
  for (const std::size_t length : {0U, 1U, 7U, 8U, 9U, 16U, 4'095U, 4'096U, 4'097U, 9'000U}) {
    for (const std::size_t offset : {0U, 1U, 4U, 7U}) {
      std::ranges::fill(shared_->memory, kAfterwards);
      const ByteSpan from = ByteSpan{from_}.subspan(3, length);
      EXPECT_EQ(copy_while_live(live(), memory + offset, from), LiveCopy::Done);
      EXPECT_TRUE(std::ranges::equal(from, std::span{memory + offset, length}))
          << length << " bytes at " << offset;
      EXPECT_EQ(memory[offset + length], kAfterwards);
      EXPECT_TRUE(offset == 0 || memory[offset - 1] == kAfterwards);
    }
  }
}

TEST_F(CopiesWhileLive, DoNothingOnceTheWordHasChanged) {
  end_and_reuse();
  EXPECT_EQ(copy(), LiveCopy::Ended);
  EXPECT_TRUE(is_left_alone());
}

/// A handler that interrupts a copy is the owner: what it leaves behind stays.
class CopiesUnderSignals : public CopiesWhileLive {
 protected:
  static void handle(int /*signal*/) { (*on_signal)(); }
  static inline std::function<void()>* on_signal = nullptr;

  void SetUp() override {
    CopiesWhileLive::SetUp();
    struct sigaction action{};
    action.sa_handler = handle;
    sigaction(SIGALRM, &action, &before_);
  }
  void TearDown() override {
    sigaction(SIGALRM, &before_, nullptr);
    CopiesWhileLive::TearDown();
  }
  /// One signal, so many microseconds from now, of the time that this process has the CPU.
  static void interrupt_in(int microseconds) {
    const itimerval timer{
        .it_interval = {},
          .it_value = {.tv_sec = 0, .tv_usec = microseconds}
    };
    setitimer(ITIMER_REAL, &timer, nullptr);
  }

  struct sigaction before_{};
};

TEST_F(CopiesUnderSignals, LookAgainAfterEachOfThem) {
  std::function<void()> end = [this] { end_and_reuse(); };
  on_signal = &end;
  for (int round = 0; round < 300; ++round) {
    shared_->word.store(kLive);
    interrupt_in(50 + round);
    ASSERT_EQ(copy_on_and_on(), LiveCopy::Ended);
    ASSERT_TRUE(is_left_alone()) << "round " << round;
  }
  EXPECT_GT(shared_->copies.load(), 300U) << "they were interrupted after they had begun";
}

TEST_F(CopiesUnderSignals, AreWholeWhateverInterruptsThem) {
  std::atomic<int> signals{};
  std::function<void()> count = [&] { ++signals; };
  on_signal = &count;
  const itimerval timer{
      .it_interval = {.tv_sec = 0, .tv_usec = 100},
        .it_value = {.tv_sec = 0, .tv_usec = 100}
  };
  setitimer(ITIMER_REAL, &timer, nullptr);
  while (signals < 100) {
    std::ranges::fill(shared_->memory, std::byte{});
    ASSERT_EQ(copy(), LiveCopy::Done);
    ASSERT_TRUE(std::ranges::equal(from_, shared_->memory));
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
}

/// Atomics on the first word of the memory.
class AtomicsWhileLive : public CopiesUnderSignals {
 protected:
  [[nodiscard]] std::byte* at() { return shared_->memory.data(); }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t value = 0;
    std::memcpy(&value, shared_->memory.data(), sizeof value);
    return value;
  }
  /// Adds one each time, until it is refused; how often it did.
  [[nodiscard]] std::uint64_t add_on_and_on() {
    std::uint64_t done = 0;
    LiveCopy outcome = LiveCopy::Done;
    while (outcome != LiveCopy::Ended) {
      outcome = add_while_live(live(), at(), 1).outcome;
      done += outcome == LiveCopy::Done ? 1 : 0;
      shared_->copies.fetch_add(1, std::memory_order_relaxed);
    }
    return done;
  }
};

TEST_F(AtomicsWhileLive, BringWhatWasThere) {
  EXPECT_EQ(add_while_live(live(), at(), 5).original, 0U);
  EXPECT_EQ(add_while_live(live(), at(), ~std::uint64_t{0}).original, 5U);
  EXPECT_EQ(value(), 4U);
  EXPECT_EQ(swap_while_live(live(), at(), 4, 99).original, 4U);
  EXPECT_EQ(value(), 99U);
  EXPECT_EQ(swap_while_live(live(), at(), 4, 100).original, 99U);
  EXPECT_EQ(value(), 99U) << "it was not what it had to be";
  EXPECT_EQ(add_while_live(live(), at(), kLive).original, 99U);
  EXPECT_EQ(shared_->memory[sizeof(std::uint64_t)], std::byte{});
}

TEST_F(AtomicsWhileLive, DoNothingOnceTheWordHasChanged) {
  end_and_reuse();
  EXPECT_EQ(add_while_live(live(), at(), 1).outcome, LiveCopy::Ended);
  EXPECT_EQ(swap_while_live(live(), at(), value(), 1).outcome, LiveCopy::Ended);
  EXPECT_TRUE(is_left_alone());
}

TEST_F(AtomicsWhileLive, AreDoneOnceWhateverInterruptsThem) {
  std::atomic<int> signals{};
  std::function<void()> count = [&] { ++signals; };
  on_signal = &count;
  const itimerval timer{
      .it_interval = {.tv_sec = 0, .tv_usec = 100},
        .it_value = {.tv_sec = 0, .tv_usec = 100}
  };
  setitimer(ITIMER_REAL, &timer, nullptr);
  std::uint64_t added = 0;
  std::uint64_t swapped = 0;
  while (signals < 500) {
    const LiveAtomic add = add_while_live(live(), at(), 1);
    ASSERT_EQ(add.outcome, LiveCopy::Done);
    ASSERT_EQ(add.original, added + swapped);
    ++added;
    const LiveAtomic swap = swap_while_live(live(), at(), add.original + 1, add.original + 2);
    ASSERT_EQ(swap.outcome, LiveCopy::Done);
    ASSERT_EQ(swap.original, add.original + 1) << "and it was stored";
    ++swapped;
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  EXPECT_EQ(value(), added + swapped);
}

TEST_F(AtomicsWhileLive, LookAgainAfterEachSignal) {
  std::function<void()> end = [this] { end_and_reuse(); };
  on_signal = &end;
  for (int round = 0; round < 300; ++round) {
    shared_->word.store(kLive);
    interrupt_in(50 + round);
    static_cast<void>(add_on_and_on());
    ASSERT_TRUE(is_left_alone()) << "round " << round;
  }
}

TEST_F(AtomicsWhileLive, AreOneAfterTheOtherAmongThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50'000;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach;) {
        i += add_while_live(live(), at(), 1).outcome == LiveCopy::Done ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(value(), std::uint64_t{kThreads} * kEach);
}

TEST_F(AtomicsWhileLive, OfAStoppedProcessAreNotDoneLater) {
  for (int round = 0; round < 10; ++round) {
    ASSERT_NO_FATAL_FAILURE(
        stop_a_process([&] { static_cast<void>(add_on_and_on()); }, [&] { end_and_reuse(); }));
    ASSERT_TRUE(is_left_alone()) << "round " << round;
  }
}

/// The copy waits in the kernel for a page, half done, while its owner ends it.
TEST_F(CopiesWhileLive, LookAgainAfterAPageFaultThatWaited) {
  auto faults = UserFaults::open(FaultsOf::Programs);
  if (!faults) {
    GTEST_SKIP() << faults.error().reason;
  }
  const std::size_t page = page_size();
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::ranges::fill(std::span{memory, page}, kAfterwards);
  ASSERT_TRUE(faults->watch(std::bit_cast<std::uint64_t>(memory + page), page));
  std::atomic<LiveCopy> outcome{LiveCopy::Done};
  const ByteSpan half = ByteSpan{from_}.first(kLiveCopyBytes);
  std::byte* const to = memory + page - kLiveCopyBytes / 2;
  std::thread copier{[&] { outcome = copy_while_live(live(), to, half); }};
  pollfd waits{.fd = faults->fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&waits, 1, 10'000), 1);
  ASSERT_TRUE(faults->next());
  EXPECT_EQ(*to, from_.front()) << "it is in the middle";
  shared_->word.store(kLive + 1);
  std::ranges::fill(std::span{memory, page}, kAfterwards);
  ASSERT_EQ(faults->fill(std::bit_cast<std::uint64_t>(memory + page), page), FillOutcome::Filled);
  copier.join();
  EXPECT_EQ(outcome, LiveCopy::Ended);
  EXPECT_TRUE(std::ranges::all_of(std::span{memory, page},
                                  [](std::byte each) { return each == kAfterwards; }));
  EXPECT_TRUE(std::ranges::all_of(std::span{memory + page, page},
                                  [](std::byte each) { return each == std::byte{}; }));
  faults->unwatch(std::bit_cast<std::uint64_t>(memory + page), page);
  munmap(memory, 2 * page);
}

TEST_F(CopiesWhileLive, WriteNothingAfterTheyWereStopped) {
  for (int round = 0; round < 30; ++round) {
    ASSERT_NO_FATAL_FAILURE(
        stop_a_process([&] { static_cast<void>(copy_on_and_on()); }, [&] { end_and_reuse(); }));
    ASSERT_TRUE(is_left_alone()) << "round " << round;
  }
}

/// More threads than CPUs, each with pages of its own.
TEST_F(CopiesWhileLive, AreWholeAmongManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{};
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      std::vector<std::byte> to(from_.size());
      for (int i = 0; i < 2'000; ++i) {
        std::ranges::fill(to, std::byte{});
        const bool is_whole =
            copy_while_live(live(), to.data(), ByteSpan{from_}) == LiveCopy::Done && to == from_;
        wrong += is_whole ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weft::os
