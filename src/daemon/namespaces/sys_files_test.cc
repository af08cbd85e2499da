#include "daemon/namespaces/sys_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace weft::daemon {
namespace {

namespace fs = std::filesystem;
using host_view::Freshness;
using Counters = SysFiles::Counters;

[[nodiscard]] std::string text_of(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

[[nodiscard]] host_view::SysTree tree(std::string state, std::string packets) {
  host_view::SysTree tree;
  tree.folders = {"class", "class/infiniband", "class/infiniband/counters", "class/scsi_host"};
  tree.files = {
      {"class/infiniband/counters/packets", packets + "\n", Freshness::WhenRead        },
      {"class/infiniband/state",            state + "\n",   Freshness::WhenTablesChange}
  };
  tree.links = {
      {"class/infiniband/device", "../device"}
  };
  return tree;
}

class SysFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/weft-sys-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    files_.emplace(os::UniqueFd{open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)});
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::optional<SysFiles> files_;
};

TEST_F(SysFilesTest, ShowTheTreeBelowClass) {
  ASSERT_TRUE(files_->show(tree("4: ACTIVE", "17"), Counters::Write));
  EXPECT_EQ(text_of(folder_ / "infiniband/state"), "4: ACTIVE\n");
  EXPECT_EQ(text_of(folder_ / "infiniband/counters/packets"), "17\n");
  EXPECT_TRUE(fs::is_directory(folder_ / "scsi_host"));
  EXPECT_EQ(fs::read_symlink(folder_ / "infiniband/device"), "../device");
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_ / "infiniband"}, {}), 3)
      << "nothing else is left there";
}

TEST_F(SysFilesTest, ReplaceAFileSoThatWhoReadsItSeesOneContent) {
  ASSERT_TRUE(files_->show(tree("4: ACTIVE", "17"), Counters::Write));
  const os::UniqueFd reader{open((folder_ / "infiniband/state").c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(files_->show(tree("1: DOWN", "17"), Counters::Leave));
  std::array<char, 32> text{};
  ASSERT_EQ(read(reader.get(), text.data(), text.size()), 10);
  EXPECT_STREQ(text.data(), "4: ACTIVE\n");
  EXPECT_EQ(text_of(folder_ / "infiniband/state"), "1: DOWN\n");
}

TEST_F(SysFilesTest, LeaveFilesThatOthersKeep) {
  ASSERT_TRUE(files_->show(tree("4: ACTIVE", "17"), Counters::Write));
  EXPECT_TRUE(files_->has_unkept_files());
  const auto live = files_->open_live_files();
  ASSERT_EQ(live.size(), 1U);
  EXPECT_EQ(live.front().path, "class/infiniband/counters/packets");
  EXPECT_FALSE(files_->has_unkept_files());
  ASSERT_EQ(pwrite(live.front().file.get(), "99\n", 3, 0), 3);
  ASSERT_TRUE(files_->show(tree("4: ACTIVE", "18"), Counters::Write));
  EXPECT_EQ(text_of(folder_ / "infiniband/counters/packets"), "99\n");
  EXPECT_TRUE(files_->open_live_files().empty()) << "once only";
  files_->take_back("class/infiniband/counters/packets");
  EXPECT_TRUE(files_->has_unkept_files());
  ASSERT_TRUE(files_->show(tree("4: ACTIVE", "19"), Counters::Write));
  EXPECT_EQ(text_of(folder_ / "infiniband/counters/packets"), "19\n");
}

TEST_F(SysFilesTest, RemoveWhatIsNoLongerThere) {
  ASSERT_TRUE(files_->show(tree("4: ACTIVE", "17"), Counters::Write));
  host_view::SysTree without = tree("4: ACTIVE", "17");
  without.files.clear();
  ASSERT_TRUE(files_->show(without, Counters::Leave));
  EXPECT_FALSE(fs::exists(folder_ / "infiniband/state"));
  EXPECT_TRUE(fs::exists(folder_ / "infiniband/counters/packets")) << "the tree has no counters";
  ASSERT_TRUE(files_->show(without, Counters::Write));
  EXPECT_FALSE(fs::exists(folder_ / "infiniband/counters/packets"));
}

TEST_F(SysFilesTest, SayWhichFileCouldNotBeWritten) {
  host_view::SysTree odd = tree("4: ACTIVE", "17");
  odd.files.push_back({"class/no/such/folder/file", "x\n", Freshness::WhenTablesChange});
  const auto shown = files_->show(odd, Counters::Write);
  ASSERT_FALSE(shown);
  EXPECT_NE(shown.error().reason.find("no/such/folder/file"), std::string::npos);
  EXPECT_EQ(text_of(folder_ / "infiniband/state"), "4: ACTIVE\n") << "the others are written";
}

}  // namespace
}  // namespace weft::daemon
