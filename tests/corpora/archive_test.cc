// Run in this folder.

#include "archive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace weft::corpora {
namespace {

std::vector<std::uint8_t> octets_of(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  return {bytes.begin(), bytes.end()};
}

/// {"a.input": b"", "b.input": b"hello"}, by scripts/testing/corpora.py.
std::vector<std::uint8_t> two() { return octets_of("archive_test.zip"); }

TEST(CorpusArchive, HasItsInputsInOrder) {
  const auto inputs = read_archive(two());
  ASSERT_TRUE(inputs);
  ASSERT_EQ(inputs->size(), 2U);
  EXPECT_EQ(inputs->at(0).name, "a.input");
  EXPECT_TRUE(inputs->at(0).octets.empty());
  EXPECT_EQ(inputs->at(1).name, "b.input");
  EXPECT_TRUE(std::ranges::equal(inputs->at(1).octets, std::string_view{"hello"}));
}

TEST(CorpusArchive, ThatIsCutShortIsNone) {
  const auto whole = two();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read_archive(std::span{whole}.first(length))) << length;
  }
}

TEST(CorpusArchive, ThatIsCompressedOrLacksAnEntryIsNone) {
  auto archive = two();
  archive[8] = 8;  // deflated
  EXPECT_FALSE(read_archive(archive));
  archive = two();
  archive[archive.size() - 12] = 3;  // entries, says the end of the directory
  EXPECT_FALSE(read_archive(archive));
}

TEST(CorpusArchive, OfEachFuzzerIsWhole) {
  std::size_t archives = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"."}) {
    if (entry.path().extension() == ".zip") {
      const auto inputs = read_archive(octets_of(entry.path()));
      ASSERT_TRUE(inputs) << entry.path();
      EXPECT_FALSE(inputs->empty()) << entry.path();
      ++archives;
    }
  }
  EXPECT_GE(archives, 19U);
}

}  // namespace
}  // namespace weft::corpora
