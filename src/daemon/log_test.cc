#include "daemon/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weft::daemon {
namespace {

class Logs : public ::testing::Test {
 protected:
  Logs() {
    char pattern[] = "/tmp/weft-test-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~Logs() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/log"; }
  [[nodiscard]] std::string text() const {
    std::ifstream file{path()};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

 private:
  std::string folder_;
};

TEST_F(Logs, KeepALineWithItsTime) {
  Log log{path()};
  log.write("fabric up");
  log.write("fabric down");
  const std::string all = text();
  EXPECT_EQ(std::ranges::count(all, '\n'), 2);
  EXPECT_EQ(all.substr(19, 11), "Z fabric up");
}

TEST_F(Logs, LetNoForeignTextForgeALine) {
  Log log{path()};
  log.write("no host \n2026 all is well\x1b[2J\xff");
  EXPECT_EQ(std::ranges::count(text(), '\n'), 1);
  EXPECT_NE(text().find("no host ?2026 all is well?[2J?"), std::string::npos);
}

TEST_F(Logs, StopBeforeTheyFillADisk) {
  Log log{path()};
  const std::string line(1'000, 'x');
  for (std::uint64_t i = 0; i < 2 * Log::kMaxBytes / line.size(); ++i) {
    log.write(line);
  }
  EXPECT_LT(text().size(), Log::kMaxBytes + 2 * line.size());
  EXPECT_NE(text().find("the log is full"), std::string::npos);
}

TEST(Log, WithoutAFileSaysNothing) {
  Log log{"/no/such/folder/log"};
  log.write("nobody reads this");
}

}  // namespace
}  // namespace weft::daemon
