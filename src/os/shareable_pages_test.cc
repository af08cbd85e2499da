#include "os/shareable_pages.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "os/peer_file.h"
#include "os/process_pages.h"

namespace weft::os {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kPages = 8;

/// Private memory of this process, of which each page holds its number, but for one that was never
/// touched.
class PrivateMemory : public ::testing::Test {
 protected:
  static constexpr std::size_t kUntouched = 5;

  PrivateMemory() {
    // A page on either side that is of another kind, so that nothing is joined to it.
    void* const at =
        mmap(nullptr, (kPages + 2) * page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    whole_ = {static_cast<std::byte*>(at), (kPages + 2) * page_size()};
    memory_ = whole_.subspan(page_size(), kPages * page_size());
    EXPECT_EQ(mprotect(memory_.data(), memory_.size(), PROT_READ | PROT_WRITE), 0);
    for (std::size_t i = 0; i < kPages; ++i) {
      if (i != kUntouched) {
        std::ranges::fill(page(i), static_cast<std::byte>(i + 1));
      }
    }
  }
  ~PrivateMemory() override { munmap(whole_.data(), whole_.size()); }

  [[nodiscard]] MutableByteSpan page(std::size_t number) const {
    return memory_.subspan(number * page_size(), page_size());
  }
  [[nodiscard]] bool has_its_content() const {
    for (std::size_t i = 0; i < kPages; ++i) {
      const auto content = static_cast<std::byte>(i == kUntouched ? 0 : i + 1);
      if (!std::ranges::all_of(page(i), [&](std::byte each) { return each == content; })) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool is_shared() const { return find_held_file(memory_).has_value(); }
  [[nodiscard]] std::string why_not(std::span<const std::byte> memory) const {
    const auto made = ShareablePages::make(memory);
    return made ? "" : made.error().reason;
  }
  /// As another process would.
  [[nodiscard]] PeerMapping map_again() const {
    const auto held = find_held_file(memory_);
    EXPECT_TRUE(held);
    auto mapped = map_peer_file(getpid(), held->range, memory_.size(), Protection::ReadWrite);
    EXPECT_TRUE(mapped) << mapped.error().reason;
    return std::move(*mapped);
  }

  MutableByteSpan whole_;
  MutableByteSpan memory_;
};

TEST_F(PrivateMemory, IsMappedByOthersAndKeepsItsContent) {
  const auto made = ShareablePages::make(memory_.subspan(100, memory_.size() - 200));
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_EQ(made->size(), memory_.size());
  EXPECT_TRUE(has_its_content());
  const PeerMapping peer = map_again();
  peer.first[7] = std::byte{0x77};
  EXPECT_EQ(memory_[7], std::byte{0x77});
  memory_[8] = std::byte{0x78};
  EXPECT_EQ(peer.first[8], std::byte{0x78});
  memory_[7] = memory_[8] = std::byte{1};
  EXPECT_TRUE(has_its_content());
}

/// Who only reads them may go on: a thread that is held looks for its release there.
TEST_F(PrivateMemory, IsSeenWholeAtAnyTime) {
#if WEFT_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer takes a new mapping for a write to all of it";
#endif
  std::atomic<bool> stops{};
  std::atomic<std::uint64_t> seen_empty{};
  std::thread reader{[&] {
    const volatile std::byte* const word = memory_.data();
    while (!stops.load(std::memory_order_relaxed)) {
      seen_empty += *word == std::byte{} ? 1 : 0;
    }
  }};
  for (int turn = 0; turn < 300; ++turn) {
    auto made = ShareablePages::make(memory_);
    ASSERT_TRUE(made) << made.error().reason;
    if (turn % 2 == 0) {
      made->make_private();
    }
    made->restore();
  }
  stops = true;
  reader.join();
  EXPECT_EQ(seen_empty, 0U);
  EXPECT_TRUE(has_its_content());
}

/// As they are left where some pages were shared before.
TEST_F(PrivateMemory, MayBeOfSeveralMappings) {
  for (int turn = 0; turn < 2; ++turn) {
    auto part = ShareablePages::make(page(2));
    ASSERT_TRUE(part);
    part->restore();
    auto made = ShareablePages::make(memory_);
    ASSERT_TRUE(made) << made.error().reason;
    EXPECT_TRUE(is_shared());
    EXPECT_TRUE(has_its_content());
    made->restore();
  }
}

TEST_F(PrivateMemory, KnowsWhichMemoryLiesInItsPages) {
  const auto made = ShareablePages::make(memory_.subspan(page_size(), 2 * page_size()));
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->covers(memory_.subspan(page_size() + 1, 2 * page_size() - 1)));
  EXPECT_FALSE(made->covers(memory_.subspan(page_size() - 1, 2)));
  EXPECT_TRUE(made->overlaps(memory_.subspan(page_size() - 1, 2)));
  EXPECT_FALSE(made->covers(memory_.subspan(3 * page_size() - 1, 2)));
  EXPECT_TRUE(made->overlaps(memory_.subspan(3 * page_size() - 1, 2)));
  EXPECT_FALSE(made->overlaps(memory_.subspan(3 * page_size(), 1)));
  EXPECT_FALSE(made->overlaps(memory_.first(page_size())));
}

TEST_F(PrivateMemory, TakesNoMemoryForPagesThatWereNeverTouched) {
  const auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  const auto held = find_held_file(memory_);
  struct stat status{};
  ASSERT_EQ(fstat(held->file.get(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_blocks) * 512, (kPages - 1) * page_size());
}

TEST_F(PrivateMemory, IsNobodyElsesOnceItIsPrivateAgain) {
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  const PeerMapping peer = map_again();
  made->make_private();
  EXPECT_FALSE(is_shared());
  EXPECT_TRUE(has_its_content());
  memory_[7] = std::byte{0x77};
  EXPECT_EQ(peer.first[7], std::byte{1});
  peer.first[7] = std::byte{0x55};
  EXPECT_EQ(memory_[7], std::byte{0x77});
}

TEST_F(PrivateMemory, IsAChildsOwnIfItWasMadePrivateBefore) {
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  made->make_private();
  const pid_t child = fork();
  if (child == 0) {
    std::ranges::fill(memory_, std::byte{0x99});
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(has_its_content());
}

TEST_F(PrivateMemory, IsAsItWasOnceItIsRestored) {
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  const PeerMapping peer = map_again();
  made->restore();
  EXPECT_FALSE(is_shared());
  EXPECT_TRUE(has_its_content());
  peer.first[7] = std::byte{0x55};
  EXPECT_TRUE(has_its_content());
  // As malloc(3) and others rely on.
  ASSERT_EQ(madvise(memory_.data(), memory_.size(), MADV_DONTNEED), 0);
  EXPECT_TRUE(std::ranges::all_of(memory_, [](std::byte each) { return each == std::byte{}; }));
  EXPECT_THAT(why_not(memory_), IsEmpty());
}

TEST_F(PrivateMemory, TakesNoMoreMemoryOnceItIsRestored) {
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  made->restore();
  std::vector<unsigned char> resident(kPages);
  ASSERT_EQ(mincore(memory_.data(), memory_.size(), resident.data()), 0);
  EXPECT_EQ(resident[kUntouched] & 1U, 0U);
  EXPECT_EQ(resident[kUntouched + 1] & 1U, 1U);
}

TEST_F(PrivateMemory, KeepsTheAccessThatItWasGivenMeanwhile) {
  for (const bool restores : {false, true}) {
    auto made = ShareablePages::make(memory_);
    ASSERT_TRUE(made) << made.error().reason;
    ASSERT_EQ(mprotect(page(2).data(), page_size(), PROT_READ), 0);
    restores ? made->restore() : made->make_private();
    EXPECT_TRUE(has_its_content());
    const int null = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(read(null, page(2).data(), 1), -1);
    EXPECT_EQ(read(null, page(3).data(), 0), 0);
    close(null);
    made->restore();
    ASSERT_EQ(mprotect(page(2).data(), page_size(), PROT_READ | PROT_WRITE), 0);
  }
}

TEST_F(PrivateMemory, IsRestoredWhereNobodyMayReadIt) {
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  ASSERT_EQ(mprotect(page(4).data(), page_size(), PROT_NONE), 0);
  made->restore();
  const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(read(zero, page(4).data(), 1), -1) << "nor now";
  close(zero);
  ASSERT_EQ(mprotect(page(4).data(), page_size(), PROT_READ | PROT_WRITE), 0);
  EXPECT_FALSE(find_held_file(page(4)));
  EXPECT_TRUE(has_its_content());
}

/// A program may unmap what it has registered, and map something else there.
TEST_F(PrivateMemory, LeavesAloneWhatTookItsPlace) {
  for (const bool restores : {false, true}) {
    auto made = ShareablePages::make(memory_);
    ASSERT_TRUE(made) << made.error().reason;
    void* const other = mmap(page(3).data(), page_size(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ASSERT_EQ(other, page(3).data());
    page(3)[0] = std::byte{0x42};
    restores ? made->restore() : made->make_private();
    EXPECT_EQ(page(3)[0], std::byte{0x42});
    std::ranges::fill(page(3), std::byte{4});
    EXPECT_TRUE(has_its_content());
    made->restore();
  }
}

TEST_F(PrivateMemory, GrowsAndMovesAsRealloc) {  // mremap(2)
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  void* const moved = mremap(memory_.data(), memory_.size(), 2 * memory_.size(), MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  const MutableByteSpan grown{static_cast<std::byte*>(moved), 2 * memory_.size()};
  EXPECT_EQ(grown.front(), std::byte{1});
  EXPECT_TRUE(std::ranges::all_of(grown.subspan(memory_.size()),
                                  [](std::byte each) { return each == std::byte{}; }));
  made->make_private();
  EXPECT_FALSE(find_held_file(grown));
  grown.front() = std::byte{2};
  munmap(moved, grown.size());
}

TEST_F(PrivateMemory, IsRestoredEvenIfTheProgramClosedItsFile) {
  auto made = ShareablePages::make(memory_);
  ASSERT_TRUE(made);
  const auto held = find_held_file(memory_);
  for (int each = 3; each < 1'024; ++each) {  // as closefrom(3)
    struct stat status{};
    if (fstat(each, &status) == 0 && status.st_ino == held->range.inode &&
        each != held->file.get()) {
      ASSERT_GE(dup2(STDERR_FILENO, each), 0);
    }
  }
  made->make_private();
  EXPECT_FALSE(is_shared());
  EXPECT_TRUE(has_its_content());
}

TEST_F(PrivateMemory, IsRefusedWhereItIsNotPlain) {
  EXPECT_THAT(why_not({}), HasSubstr("there is none"));
  std::thread{[&] {  // whose stack is plain memory
    const auto* const on_stack = static_cast<const std::byte*>(__builtin_frame_address(0));
    EXPECT_THAT(why_not({on_stack, 1}), HasSubstr("stack of its thread"));
  }}
      .join();
  EXPECT_THAT(why_not(whole_), HasSubstr("not all private"));
  EXPECT_EQ(mprotect(page(2).data(), page_size(), PROT_READ), 0);
  EXPECT_THAT(why_not(memory_), HasSubstr("not all private"));
  EXPECT_THAT(why_not(page(2)), HasSubstr("not all private"));
  EXPECT_EQ(madvise(page(7).data(), page_size(), MADV_DONTFORK), 0);
  EXPECT_THAT(why_not(page(7)), HasSubstr("special kind: dc"));
  EXPECT_EQ(mprotect(page(2).data(), page_size(), PROT_READ | PROT_WRITE), 0);
  EXPECT_TRUE(has_its_content());
}

TEST_F(PrivateMemory, IsRefusedWhereNoFileMayBeSoLong) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_THAT(why_not(memory_), HasSubstr("RLIMIT_FSIZE"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/// What the kernel shows of a program's memory.
class MappingsOfAProgram : public ::testing::Test {
 protected:
  static std::string why_not(std::uint64_t first, std::uint64_t end,
                             const std::string& flags = " rd wr mr mw me ac sd ") {
    std::istringstream smaps{
        "555555554000-555555575000 rw-p 00000000 00:00 0                          [heap]\n"
        "Size:                132 kB\nVmFlags:" +
        flags +
        "\n"
        "7ffff7d00000-7ffff7d22000 r--p 00000000 fe:00 1234                       /lib/libc.so.6\n"
        "FilePmdMapped:          0 kB\nVmFlags: rd mr mw me\n"
        "7ffff7e00000-7ffff7e10000 rw-s 00000000 00:01 77                         /memfd:x "
        "(deleted)\n"
        "VmFlags: rd wr sh mr mw me ms\n"
        "7ffff7f00000-7ffff7f10000 rw-p 00000000 00:00 0\n"
        "VmFlags: rd wr mr mw me ac\n"
        "7ffff7f10000-7ffff7f12000 rw-p 00000000 00:00 0\n"
        "VmFlags: rd wr mr mw me ac sd\n"
        "7ffff7f12000-7ffff7f13000 rw-p 00000000 00:00 0\n"
        "VmFlags: rd wr mr mw me ac lo\n"
        "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]\n"
        "VmFlags: rd wr mr mw me gd ac\n"};
    return why_not_shareable(smaps, first, end);
  }
};

TEST_F(MappingsOfAProgram, AreShareableWhereTheyArePlain) {
  EXPECT_THAT(why_not(0x555555554000, 0x555555575000), IsEmpty());
  EXPECT_THAT(why_not(0x555555555000, 0x555555556000), IsEmpty());
  EXPECT_THAT(why_not(0x7ffff7f00000, 0x7ffff7f10000), IsEmpty());
  EXPECT_THAT(why_not(0x7ffff7f0f000, 0x7ffff7f12000), IsEmpty()) << "one behind the other";
}

TEST_F(MappingsOfAProgram, AreNotShareableOtherwise) {
  EXPECT_THAT(why_not(0x555555554000, 0x555555576000), HasSubstr("not all private"));
  EXPECT_THAT(why_not(0x555555553000, 0x555555555000), HasSubstr("not all private"));
  EXPECT_THAT(why_not(0x555555574000, 0x555555575000, " rd wr lo "), HasSubstr("kind: lo"));
  EXPECT_THAT(why_not(0x7ffff7d00000, 0x7ffff7d01000), HasSubstr("not all private"));
  EXPECT_THAT(why_not(0x7ffff7e00000, 0x7ffff7e01000), HasSubstr("not all private"));
  EXPECT_THAT(why_not(0x7ffffffde000, 0x7ffffffdf000), HasSubstr("not all private"));
  EXPECT_THAT(why_not(0x7ffff7f00000, 0x7ffff7f13000), HasSubstr("kind: lo"));
  EXPECT_THAT(why_not(0x7ffffffff000, 0x800000000000), HasSubstr("nothing is mapped"));
  std::istringstream without_flags{
      "1000-2000 rw-p 00000000 00:00 0\n3000-4000 rw-p 00000000 00:00 0\n"};
  EXPECT_THAT(why_not_shareable(without_flags, 0x1000, 0x2000), HasSubstr("no flags"));
}

}  // namespace
}  // namespace weft::os
