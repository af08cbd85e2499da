#include "os/shared_backing.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::os {
namespace {

constexpr const char* kMaps =
    "1000-2000 rw-s 00003000 00:01 77 /memfd:a (deleted)\n"
    "2000-4000 rw-s 00004000 00:01 77 /memfd:a (deleted)\n"
    "4000-5000 r--s 00006000 00:01 77 /memfd:a (deleted)\n"
    "5000-6000 rw-p 00000000 00:00 0 [heap]\n"
    "what is this?\n"
    "7000-8000 rw-p 00003000 00:01 77 /memfd:a (deleted)\n"
    "8000-9000 rw-s 00003000 00:02 77 /elsewhere\n";

TEST(SharedBacking, IsTheFileAndThePlaceInIt) {
  std::istringstream maps{kMaps};
  EXPECT_EQ(shared_backing_in(maps, 0x1800, 0x2000),
            (SharedBacking{.device = 1, .inode = 77, .offset = 0x3800}))
      << "mappings that go on in memory and in the file are one";
}

TEST(SharedBacking, IsNotThereForPrivateMemoryOrPartOfIt) {
  for (const auto& [address, length] : {
           std::pair{0x5000U, 0x10U  },
           {0x7000U, 0x10U  },
           {0x3800U, 0x1000U},
           {0xA000U, 1U     }
  }) {
    std::istringstream maps{kMaps};
    EXPECT_FALSE(shared_backing_in(maps, address, length)) << address;
  }
}

TEST(SharedBacking, IsAFileOnlyWhereTheFileHasAName) {
  for (const auto& [address, length, is_file] : {
           std::tuple{0x8000U, 0x1000U, true },
           {0x8000U, 0x1001U, false},
           {0x1000U, 0x10U,   false},
           {0x5000U, 0x10U,   false},
  }) {
    std::istringstream maps{kMaps};
    EXPECT_EQ(is_file_mapping_in(maps, address, length), is_file) << address;
  }
}

TEST(SharedBacking, IsFoundWhereAnotherProcessHasMappedIt) {
  const SharedBacking backing{.device = 1, .inode = 77, .offset = 0x4800};
  std::istringstream maps{kMaps};
  EXPECT_EQ(find_mapping_in(maps, backing, 0x800, true), 0x2800U);
  std::istringstream again{kMaps};
  EXPECT_EQ(find_mapping_in(again, backing, 0x1'0000, true), 0U) << "not all of it";
  const SharedBacking to_read{.device = 1, .inode = 77, .offset = 0x6000};
  std::istringstream third{kMaps};
  EXPECT_EQ(find_mapping_in(third, to_read, 8, true), 0U) << "not to be written";
  std::istringstream fourth{kMaps};
  EXPECT_EQ(find_mapping_in(fourth, to_read, 8, false), 0x4000U);
}

TEST(SharedBacking, LeadsFromOneMappingOfAFileToAnother) {
  const int file = memfd_create("backing", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 8'192), 0);
  void* const first = mmap(nullptr, 8'192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  auto* const start = static_cast<std::byte*>(first);
  const auto backing = shared_backing_of({start + 100, 1'000});
  ASSERT_TRUE(backing);
  EXPECT_EQ(backing->offset, 100U);
  EXPECT_EQ(find_mapping(*backing, 1'000, true), start + 100);
  munmap(first, 8'192);
  EXPECT_EQ(find_mapping(*backing, 1'000, true), nullptr);
  const std::vector<std::byte> heap(1'000);
  EXPECT_FALSE(shared_backing_of(heap));
  close(file);
}

TEST(SharedBacking, IsWorthAskingForWhereThePageIsAFiles) {
  const int file = memfd_create("backing", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4'096), 0);
  for (const int flags : {MAP_SHARED, MAP_SHARED | MAP_ANONYMOUS}) {
    void* const at = mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, flags,
                          (flags & MAP_ANONYMOUS) != 0 ? -1 : file, 0);
    EXPECT_TRUE(may_be_shared({static_cast<const std::byte*>(at), 1})) << "not touched yet";
    munmap(at, 4'096);
  }
  void* const own =
      mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(may_be_shared({static_cast<const std::byte*>(own), 1}));
  *static_cast<char*>(own) = 1;
  EXPECT_FALSE(may_be_shared({static_cast<const std::byte*>(own), 1}));
  munmap(own, 4'096);
  close(file);
}

}  // namespace
}  // namespace weft::os
