#include "programs/iscsi/sanitize_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: mkdtemp

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::programs::iscsi {
namespace {

class SanitizeFiles : public ::testing::Test {
 protected:
  SanitizeFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-sanitize-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~SanitizeFiles() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] static bool save(SanitizeFile& file, const std::vector<std::byte>& image) {
    bool saved = false;
    file.save(image, [&saved](bool value) { saved = value; });
    return saved;
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{folder_}) {
      ++count;
    }
    return count;
  }

  std::filesystem::path folder_;
};

TEST_F(SanitizeFiles, KeepWhatTheyAreGivenUntilTheyAreToForgetIt) {
  SanitizeFile file{(folder_ / "disk.img").string()};
  EXPECT_EQ(file.load(), std::vector<std::byte>{}) << "nothing is kept";
  EXPECT_TRUE(save(file, {})) << "which may be forgotten again";
  const std::vector<std::byte> first(524, std::byte{1});
  const std::vector<std::byte> second(12, std::byte{2});
  EXPECT_TRUE(save(file, first));
  EXPECT_EQ(SanitizeFile{(folder_ / "disk.img").string()}.load(), first);
  EXPECT_TRUE(save(file, second));
  EXPECT_EQ(file.load(), second);
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(save(file, {}));
  EXPECT_EQ(file.load(), std::vector<std::byte>{});
  EXPECT_EQ(files(), 0U);
}

TEST_F(SanitizeFiles, SayWhatTheyCannotDo) {
  SanitizeFile nowhere{(folder_ / "none" / "disk.img").string()};
  EXPECT_FALSE(save(nowhere, std::vector<std::byte>(12)));
  SanitizeFile file{(folder_ / "disk.img").string()};
  std::ofstream{file.path()}.close();
  EXPECT_EQ(file.load().error().code, ErrorCode::Io) << "no octet of it";
  std::ofstream{file.path()} << std::string(1 << 17, 'x');
  EXPECT_EQ(file.load().error().code, ErrorCode::Io) << "more than a block";
  std::filesystem::remove(file.path());
  std::filesystem::create_directory(file.path());
  EXPECT_EQ(file.load().error().code, ErrorCode::Io);
  EXPECT_FALSE(save(file, std::vector<std::byte>(12)));
}

}  // namespace
}  // namespace weft::programs::iscsi
