#include "os/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

namespace weft::os {
namespace {

constexpr std::size_t kBytes = 8'192;

TEST(SharedMemory, IsSeenByAllWhoMapIt) {
  const auto file = create_shared_memory("test", kBytes);
  ASSERT_TRUE(file);
  const auto a = map_shared(*file, Protection::ReadWrite, kBytes, kBytes);
  const auto b = map_shared(*file, Protection::ReadOnly, 1, kBytes);
  ASSERT_TRUE(a && b);
  a->bytes()[77] = std::byte{9};
  EXPECT_EQ(b->bytes()[77], std::byte{9});
}

TEST(SharedMemory, CannotShrinkUnderAMapping) {
  const auto file = create_shared_memory("test", kBytes);
  ASSERT_TRUE(file);
  EXPECT_NE(ftruncate(file->get(), 0), 0);
  EXPECT_NE(ftruncate(file->get(), 2 * kBytes), 0);
}

TEST(SharedMemory, RefusesWhatIsNotSealedOrHasTheWrongSize) {
  const UniqueFd open_file{memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(ftruncate(open_file.get(), kBytes), 0);
  EXPECT_FALSE(map_shared(open_file, Protection::ReadWrite, 1, kBytes));
  const auto file = create_shared_memory("test", kBytes);
  ASSERT_TRUE(file);
  EXPECT_FALSE(map_shared(*file, Protection::ReadWrite, kBytes + 1, 2 * kBytes));
  EXPECT_FALSE(map_shared(*file, Protection::ReadWrite, 1, kBytes - 1));
  EXPECT_FALSE(map_published(*file, kBytes)) << "others could still write it";
}

TEST(SharedMemory, KeepsItsWritersAndTakesNoOthers) {
  const auto file = create_sealable_memory("test", kBytes);
  ASSERT_TRUE(file);
  EXPECT_NE(ftruncate(file->get(), 0), 0);
  const auto writer = map_shared(*file, Protection::ReadWrite, kBytes, kBytes);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(forbid_new_writers(*file));
  const std::byte nine{9};
  EXPECT_LT(pwrite(file->get(), &nine, 1, 0), 0);
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0), MAP_FAILED);
  const auto reader = map_shared(*file, Protection::ReadOnly, kBytes, kBytes);
  ASSERT_TRUE(reader);
  EXPECT_NE(mprotect(reader->bytes().data(), kBytes, PROT_READ | PROT_WRITE), 0);
  writer->bytes()[77] = nine;
  EXPECT_EQ(reader->bytes()[77], nine);
  EXPECT_FALSE(forbid_new_writers(*file)) << "its seals are final";
}

TEST(PublishedMemory, CannotBeWrittenByAnybody) {
  const std::array<std::byte, 4> contents{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const auto file = publish_memory("test", contents);
  ASSERT_TRUE(file);
  EXPECT_LT(pwrite(file->get(), contents.data(), 1, 0), 0);
  EXPECT_FALSE(map_shared(*file, Protection::ReadWrite, 1, 4));
  const auto mapping = map_published(*file, 4);
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->bytes()[3], std::byte{4});
}

}  // namespace
}  // namespace weft::os
