#include "os/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace weft::os {
namespace {

/// This process is its own peer.
class PeerMemory : public ::testing::Test {
 protected:
  PeerMemory()
      : guard_(static_cast<std::byte*>(
            mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        from_(5'000),
        to_(5'000) {
    for (std::size_t i = 0; i < from_.size(); ++i) {
      from_[i] = static_cast<std::byte>(i % 251);
    }
  }
  ~PeerMemory() override { munmap(guard_, kPage); }

  [[nodiscard]] std::uint64_t guard() const { return std::bit_cast<std::uint64_t>(guard_); }
  [[nodiscard]] static PeerRange range(std::span<std::byte> memory) {
    return {.process = getpid(),
            .address = std::bit_cast<std::uint64_t>(memory.data()),
            .length = memory.size()};
  }

  static constexpr std::size_t kPage = 4'096;
  std::byte* guard_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

TEST_F(PeerMemory, IsWrittenFromPieces) {
  const std::array<ByteSpan, 3> pieces{ByteSpan{from_}.first(100),
                                       ByteSpan{from_}.subspan(100, 4'000),
                                       ByteSpan{from_}.subspan(4'100)};
  EXPECT_EQ(write_peer(range(to_), guard(), pieces), PeerCopy::Done);
  EXPECT_EQ(to_, from_);
}

TEST_F(PeerMemory, OfAnyLengthIsWrittenWhole) {
  for (const std::size_t length : {1U, 7U, 8U, 9U, 15U, 16U, 17U, 4'095U}) {
    for (const std::size_t offset : {0U, 1U, 5U}) {
      std::ranges::fill(to_, std::byte{0xEE});
      const std::array pieces{ByteSpan{from_}.first(length)};
      EXPECT_EQ(write_peer(range(std::span{to_}.subspan(offset, length)), guard(), pieces),
                PeerCopy::Done);
      EXPECT_TRUE(std::ranges::equal(std::span{to_}.subspan(offset, length), pieces[0]));
      EXPECT_EQ(to_[offset + length], std::byte{0xEE});
    }
  }
}

TEST_F(PeerMemory, IsReadIntoPieces) {
  const std::array<MutableByteSpan, 2> pieces{MutableByteSpan{to_}.first(3),
                                              MutableByteSpan{to_}.subspan(3)};
  EXPECT_EQ(read_peer(range(from_), guard(), pieces), PeerCopy::Done);
  EXPECT_EQ(to_, from_);
}

TEST_F(PeerMemory, BehindAClosedGuardIsLeftAlone) {
  ASSERT_EQ(mprotect(guard_, kPage, PROT_NONE), 0);
  const std::array from{ByteSpan{from_}};
  EXPECT_EQ(write_peer(range(to_), guard(), from), PeerCopy::BadAddress);
  const std::array to{MutableByteSpan{to_}};
  EXPECT_EQ(read_peer(range(from_), guard(), to), PeerCopy::BadAddress);
  EXPECT_EQ(to_, std::vector<std::byte>(to_.size()));
}

TEST_F(PeerMemory, ThatIsNotThereIsSaidToBe) {
  const std::array from{ByteSpan{from_}.first(8)};
  EXPECT_EQ(write_peer({.process = getpid(), .address = 8, .length = 8}, guard(), from),
            PeerCopy::BadAddress);
}

TEST_F(PeerMemory, OfAProcessThatIsGoneIsSaidToBe) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::array from{ByteSpan{from_}};
  PeerRange to = range(to_);
  to.process = child;
  EXPECT_EQ(write_peer(to, guard(), from), PeerCopy::NoSuchProcess);
  EXPECT_FALSE(may_be_running(child, static_cast<std::uint32_t>(child)));
}

TEST(ThreadOfAPeer, RunsUnlessItIsStoppedOrGone) {
  EXPECT_TRUE(may_be_running(getpid(), thread_id()));
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_FALSE(may_be_running(child, static_cast<std::uint32_t>(child)));
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace weft::os
