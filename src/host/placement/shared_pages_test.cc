// Direct placement through pages that the owner of memory and its peer both map.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "host/placement/peer_placement.h"
#include "host/placement/placements.h"
#include "os/restartable_copy.h"
#include "os/unique_fd.h"

namespace weft::host {
namespace {

using verbs::Access;

constexpr verbs::AccessFlags kAllRights =
    verbs::AccessFlags{Access::RemoteRead} | Access::RemoteWrite | Access::RemoteAtomic;
constexpr Qpn kQpn{0x1234};
constexpr RKey kKey{0x5678};
constexpr std::uint64_t kIova = 0x1'0000'0000;
constexpr std::uint64_t kTables = 5;
constexpr std::size_t kLength = 40'000;
constexpr std::byte kAfterwards{0x77};  // what the owner writes once nobody else may

/// An owner of a sealed file's memory and an initiator, both in this process, or the initiator in
/// a child of it.
class PlacementsInPages : public ::testing::Test {
 protected:
  PlacementsInPages() : owned_(owner_.add_peer()), initiator_(initiators_.add_peer()) {
    request_.dest_qp = kQpn;
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i] = static_cast<std::byte>(1 + i % 100);
    }
  }
  void SetUp() override {
    if (!os::has_live_copy()) {
      GTEST_SKIP() << "no restartable sequences for this thread";
    }
    shared_ = {map(kPlacementBytes, MAP_SHARED | MAP_ANONYMOUS, -1), kPlacementBytes};
    file_ = os::UniqueFd{memfd_create("pages-of-a-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    ASSERT_EQ(ftruncate(file_.get(), kLength), 0);
    ASSERT_EQ(fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    memory_ = {map(kLength, MAP_SHARED, file_.get()), kLength};
    owned_.open(shared_, 0, getpid());
    initiator_.open(shared_, 1, getpid());
  }
  void TearDown() override {
    for (const MutableByteSpan each : {shared_, memory_}) {
      if (!each.empty()) {
        munmap(each.data(), each.size());
      }
    }
  }

  [[nodiscard]] static std::byte* map(std::size_t bytes, int flags, int file) {
    return static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0));
  }
  void grant(verbs::AccessFlags rights = kAllRights, std::size_t at = 0) {
    const auto epoch = owner_.epoch(owned_);
    ASSERT_TRUE(epoch);
    owner_.grant(owned_, *epoch, kTables, kQpn,
                 {.rkey = kKey,
                  .iova = kIova,
                  .length = kLength - at,
                  .memory = memory_.data() + at,
                  .rights = rights,
                  .region = &memory_});
  }
  [[nodiscard]] PlacementWay place(std::uint64_t offset, std::span<const ByteSpan> from,
                                   std::span<const MutableByteSpan> to) {
    std::size_t length = total_bytes(from);
    for (const MutableByteSpan piece : to) {
      length += piece.size();
    }
    return initiator_.place(
        {
            .target = {.request = request_,
                       .right = to.empty() ? Access::RemoteWrite : Access::RemoteRead,
                       .rkey = kKey,
                       .address = kIova + offset,
                       .length = static_cast<std::uint32_t>(length)},
            .from = from,
            .to = to,
            .atomic = {},
            .is_first = true,
            .is_last = true,
            .path_mtu = verbs::Mtu::Mtu4096
    },
        kTables);
  }
  /// An atomic, and where the original value goes.
  [[nodiscard]] PlacementWay perform(std::uint64_t offset, const hca::AtomicOperation& atomic,
                                     std::span<const MutableByteSpan> to) {
    return initiator_.place(
        {
            .target = {.request = request_,
                       .right = Access::RemoteAtomic,
                       .rkey = kKey,
                       .address = kIova + offset,
                       .length = hca::kAtomicBytes},
            .from = {},
            .to = to,
            .atomic = atomic,
            .is_first = true,
            .is_last = true,
            .path_mtu = verbs::Mtu::Mtu4096
    },
        kTables);
  }
  [[nodiscard]] PlacementWay add(std::uint64_t offset, std::uint64_t addend) {
    return perform(offset, {.swap_or_add = addend}, std::array{bytes_of_original()});
  }
  [[nodiscard]] MutableByteSpan bytes_of_original() {
    return std::as_writable_bytes(std::span{&original_, 1});
  }
  [[nodiscard]] std::uint64_t word(std::size_t at) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data() + at, sizeof value);
    return value;
  }
  [[nodiscard]] PlacementWay write_all() { return place(0, std::array{ByteSpan{data_}}, {}); }
  [[nodiscard]] bool is_left_alone() const {
    return std::ranges::all_of(memory_, [](std::byte each) { return each == kAfterwards; });
  }
  /// How often the file is mapped in this process.
  [[nodiscard]] static int mappings() {
    int count = 0;
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);) {
      count += line.find("pages-of-a-test") != std::string::npos ? 1 : 0;
    }
    return count;
  }

  MutableByteSpan shared_;
  MutableByteSpan memory_;
  os::UniqueFd file_;
  Placements owner_;
  Placements initiators_;
  PeerPlacement& owned_;
  PeerPlacement& initiator_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kLength);
  hca::PacketHeader request_;
  std::uint64_t original_{};
};

TEST_F(PlacementsInPages, WriteAndReadInPieces) {
  grant();
  const std::array from{ByteSpan{data_}.first(1'001), ByteSpan{data_}.subspan(1'001, 5'000)};
  EXPECT_EQ(place(77, from, {}), PlacementWay::SharedPages);
  EXPECT_TRUE(std::ranges::equal(memory_.subspan(77, 6'001), std::span{data_}.first(6'001)));
  EXPECT_EQ(memory_[76], std::byte{});
  EXPECT_EQ(memory_[77 + 6'001], std::byte{});
  std::vector<std::byte> into(3'000);
  const std::array to{MutableByteSpan{into}.first(13), MutableByteSpan{into}.subspan(13)};
  EXPECT_EQ(place(177, {}, to), PlacementWay::SharedPages);
  EXPECT_TRUE(std::ranges::equal(into, std::span{data_}.subspan(100, 3'000)));
}

TEST_F(PlacementsInPages, StayWithinTheGrant) {
  grant(Access::RemoteRead);
  EXPECT_EQ(write_all(), PlacementWay::NotGranted) << "it may only be read";
  grant();
  EXPECT_EQ(place(1, std::array{ByteSpan{data_}}, {}), PlacementWay::NotGranted) << "one too many";
}

TEST_F(PlacementsInPages, EndWithTheWithdrawalAndMayBeginAgain) {
  grant();
  ASSERT_EQ(write_all(), PlacementWay::SharedPages);
  owner_.withdraw();
  std::ranges::fill(memory_, kAfterwards);
  EXPECT_EQ(write_all(), PlacementWay::NotGranted);
  EXPECT_TRUE(is_left_alone());
  grant();
  EXPECT_EQ(write_all(), PlacementWay::SharedPages);
  EXPECT_EQ(mappings(), 2) << "once for each of the two";
}

TEST_F(PlacementsInPages, AreCallsWhereTheFileCannotBeFound) {
  file_ = os::UniqueFd{};
  grant();
  EXPECT_EQ(write_all(), PlacementWay::Placed);
  EXPECT_EQ(mappings(), 1);
}

/// A program may close its descriptor once the memory was reached.
TEST_F(PlacementsInPages, KeepTheFileForTheLifeOfTheRegion) {
  grant();
  file_ = os::UniqueFd{};
  owner_.withdraw();
  grant();
  EXPECT_EQ(write_all(), PlacementWay::SharedPages);
  owner_.withdraw();
  owner_.forget(&memory_);
  grant();
  EXPECT_EQ(write_all(), PlacementWay::Placed) << "nobody holds it open any more";
}

TEST_F(PlacementsInPages, LetGoOfMemoryThatIsGrantedNoMore) {
  int notified = 0;
  Placements initiators;
  initiators.on_mapped([&] { ++notified; });
  PeerPlacement& initiator = initiators.add_peer();
  initiator.open(shared_, 1, getpid());
  grant();
  const hca::PlacementTarget target{.request = request_,
                                    .right = Access::RemoteWrite,
                                    .rkey = kKey,
                                    .address = kIova,
                                    .length = 8};
  EXPECT_EQ(initiator.find(target, kTables), PlacementWay::SharedPages);
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(mappings(), 2);
  initiators.release_mapped();
  EXPECT_EQ(mappings(), 2) << "it is granted";
  EXPECT_TRUE(initiators.has_mapped());
  owner_.withdraw();
  initiators.release_mapped();
  EXPECT_EQ(mappings(), 1);
  EXPECT_FALSE(initiators.has_mapped());
}

TEST_F(PlacementsInPages, PerformAtomicsAndBringTheOriginalBack) {
  grant();
  EXPECT_EQ(add(80, 5), PlacementWay::SharedPages);
  EXPECT_EQ(add(80, 6), PlacementWay::SharedPages);
  EXPECT_EQ(word(80), 11U);
  EXPECT_EQ(original_, 5U);
  const std::array pieces{bytes_of_original().first(3), bytes_of_original().subspan(3)};
  original_ = 0;
  EXPECT_EQ(
      perform(80, {.compares = true, .swap_or_add = ~std::uint64_t{0}, .compare = 11}, pieces),
      PlacementWay::SharedPages);
  EXPECT_EQ(word(80), ~std::uint64_t{0});
  EXPECT_EQ(original_, 11U);
  EXPECT_EQ(perform(80, {.compares = true, .swap_or_add = 1, .compare = 11}, pieces),
            PlacementWay::SharedPages);
  EXPECT_EQ(word(80), ~std::uint64_t{0}) << "it was not what it had to be";
  EXPECT_EQ(original_, ~std::uint64_t{0});
  EXPECT_EQ(word(72), 0U);
  EXPECT_EQ(word(88), 0U);
}

TEST_F(PlacementsInPages, PerformNoAtomicWithoutTheRight) {
  grant(verbs::AccessFlags{Access::RemoteRead} | Access::RemoteWrite);
  EXPECT_EQ(add(80, 5), PlacementWay::NotGranted);
  EXPECT_EQ(word(80), 0U);
  grant(Access::RemoteAtomic);
  EXPECT_EQ(add(80, 5), PlacementWay::SharedPages);
  EXPECT_EQ(write_all(), PlacementWay::NotGranted) << "that is another right";
  EXPECT_EQ(word(80), 5U);
}

/// The peer's address is a multiple of eight, and lies across two words of the owner's.
TEST_F(PlacementsInPages, LeaveAtomicsAcrossWordsToTheAdapter) {
  grant(kAllRights, 4);
  EXPECT_EQ(add(80, 5), PlacementWay::NotGranted);
  EXPECT_EQ(word(84), 0U);
}

TEST_F(PlacementsInPages, PerformNoAtomicAfterTheWithdrawal) {
  grant();
  ASSERT_EQ(add(80, 5), PlacementWay::SharedPages);
  owner_.withdraw();
  EXPECT_EQ(add(80, 5), PlacementWay::NotGranted);
  EXPECT_EQ(word(80), 5U);
}

/// The owner's engine and the initiator's hand act on one word.
TEST_F(PlacementsInPages, AreAtomicBesideTheAdapter) {
  constexpr std::uint64_t kEach = 20'000;
  grant();
  std::thread adapter{[this] {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      static_cast<void>(hca::perform({.swap_or_add = 1}, memory_.data() + 80));
    }
  }};
  for (std::uint64_t i = 0; i < kEach;) {
    i += add(80, 1) == PlacementWay::SharedPages ? 1 : 0;
  }
  adapter.join();
  EXPECT_EQ(word(80), 2 * kEach);
}

/// The initiator is stopped in the middle of one of its copies, mostly. Its owner withdraws, and
/// uses the memory for something else; then the initiator goes on.
TEST_F(PlacementsInPages, OfAStoppedInitiatorChangeNothingWhenItGoesOn) {
  auto* const copies =
      new (map(sizeof(std::atomic<int>), MAP_SHARED | MAP_ANONYMOUS, -1)) std::atomic<int>{};
  for (int round = 0; round < 20; ++round) {
    *copies = 0;
    std::ranges::fill(shared_, std::byte{});  // as two that meet have it: without grants of before
    const pid_t child = fork();
    if (child == 0) {
      while (write_all() != PlacementWay::SharedPages) {
        std::this_thread::yield();  // until its parent is ready
      }
      while (write_all() == PlacementWay::SharedPages) {
        ++*copies;
      }
      _exit(*copies > 0 ? 0 : 1);
    }
    owned_.open(shared_, 0, child);  // whose threads are looked at
    grant();
    int status = 0;
    while (*copies < 10) {
      ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "it has ended with " << WEXITSTATUS(status);
      std::this_thread::yield();
    }
    kill(child, SIGSTOP);
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status)) << "it has ended with " << WEXITSTATUS(status);
    const auto start = std::chrono::steady_clock::now();
    owner_.withdraw();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 1.0) << "it was waited for";
    std::ranges::fill(memory_, kAfterwards);
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    ASSERT_TRUE(is_left_alone()) << "round " << round;
  }
  munmap(copies, sizeof(std::atomic<int>));
}

/// Threads that a signal interrupts, mostly in the middle of a copy, and holds there until the
/// owner has withdrawn and uses its memory for something else.
class PlacementsOfHeldThreads : public PlacementsInPages {
 protected:
  static constexpr int kThreads = 6;

  static void hold(int /*signal*/) {
    ++held;
    while (!may_go_on) {
      usleep(100);
    }
    --held;
  }
  static void wait_until_held(int count) {
    while (held != count) {
      std::this_thread::yield();
    }
  }
  static inline std::atomic<int> held{};
  static inline std::atomic<bool> may_go_on{};

  void SetUp() override {
    PlacementsInPages::SetUp();
    struct sigaction action{};
    action.sa_handler = hold;
    sigaction(SIGUSR1, &action, &before_);
  }
  void TearDown() override {
    sigaction(SIGUSR1, &before_, nullptr);
    PlacementsInPages::TearDown();
  }

  void start() {
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this] {
        while (!is_over_) {
          placed_ += write_all() == PlacementWay::SharedPages ? 1 : 0;
        }
      });
    }
  }
  /// Each thread is somewhere, and stays there.
  void hold_all() {
    const int before = placed_;
    while (placed_ < before + 20) {
      std::this_thread::yield();
    }
    may_go_on = false;
    for (std::thread& thread : threads_) {
      pthread_kill(thread.native_handle(), SIGUSR1);
    }
    wait_until_held(kThreads);
  }
  /// Each goes on, and has ended the copy that it was in.
  void let_go() {
    may_go_on = true;
    wait_until_held(0);
    for (std::size_t claim = 0; claim < ring::kPlacementClaims; ++claim) {
      const auto& words = static_cast<PlacementMemory*>(static_cast<void*>(shared_.data()))->words;
      while (words.claims.at(claim).thread != 0) {
        std::this_thread::yield();
      }
    }
  }
  void end() {
    is_over_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  struct sigaction before_{};
  std::atomic<bool> is_over_{};
  std::atomic<int> placed_{};
  std::vector<std::thread> threads_;
};

TEST_F(PlacementsOfHeldThreads, WriteNothingWhenTheyGoOn) {
  start();
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    grant();
    hold_all();
    owner_.withdraw();
    std::ranges::fill(memory_, kAfterwards);
    let_go();
    EXPECT_TRUE(is_left_alone()) << "round " << round;
  }
  end();
}

}  // namespace
}  // namespace weft::host
