#include "os/run_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>

namespace weft::os {
namespace {

class RunDirectory : public ::testing::Test {
 protected:
  RunDirectory() {
    char pattern[] = "/tmp/weft-run-XXXXXX";
    base_ = mkdtemp(pattern);
    setenv("WEFT_RUN", (base_ + "/run").c_str(), 1);
  }
  ~RunDirectory() override {
    unsetenv("WEFT_RUN");
    std::filesystem::remove_all(base_);
  }
  std::string base_;
};

TEST_F(RunDirectory, IsMadePrivate) {
  const auto run = run_directory();
  ASSERT_TRUE(run) << run.error().reason;
  struct stat status{};
  ASSERT_EQ(stat(run->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_TRUE(run_directory()) << "a second time as well";
}

TEST_F(RunDirectory, IsRefusedWhenOthersMayEnter) {
  ASSERT_EQ(mkdir((base_ + "/run").c_str(), 0755), 0);
  const auto run = run_directory();
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::PermissionDenied);
}

TEST_F(RunDirectory, ListsFabrics) {
  const auto run = run_directory();
  ASSERT_TRUE(run);
  std::filesystem::create_directory(*run + "/b");
  std::filesystem::create_directory(*run + "/a");
  EXPECT_EQ(list_fabrics(*run), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(control_path(*run, "a"), *run + "/a/control");
}

TEST_F(RunDirectory, LosesWhatDeadDaemonsLeftAndNothingElse) {
  const std::string run = *run_directory();
  const auto make = [&](const std::string& fabric, std::initializer_list<const char*> files) {
    std::filesystem::create_directory(run + "/" + fabric);
    for (const char* file : files) {
      std::ofstream{run + "/" + fabric + "/" + file};
    }
  };
  make("dead", {"control", "lock"});
  std::filesystem::create_directories(run + "/dead/sys/h1");
  make("unlocked", {"control"});
  make("alive", {"control", "lock"});
  make("starting", {});
  make("letters", {"lock", "diary"});
  const UniqueFd daemon{open(lock_path(run, "alive").c_str(), O_RDWR | O_CLOEXEC)};
  ASSERT_EQ(flock(daemon.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(clear_dead_fabrics(run), (std::vector<std::string>{"dead", "unlocked"}));
  EXPECT_EQ(list_fabrics(run), (std::vector<std::string>{"alive", "letters", "starting"}));
  EXPECT_TRUE(clear_dead_fabrics(run).empty());
}

TEST_F(RunDirectory, IsNotMadeByClearing) {
  EXPECT_TRUE(clear_dead_fabrics(base_ + "/none").empty());
  EXPECT_FALSE(std::filesystem::exists(base_ + "/none"));
}

TEST(FabricName, HasNoSlashesAndNoLeadingDot) {
  EXPECT_TRUE(check_fabric_name("run-17"));
  for (const char* name : {"", ".", "../x", "a/b", "a b", ".hidden"}) {
    EXPECT_FALSE(check_fabric_name(name)) << name;
  }
  EXPECT_FALSE(check_fabric_name(std::string(33, 'a')));
}

}  // namespace
}  // namespace weft::os
