#include "host/run_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

namespace weft::host {
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

TEST(FabricName, HasNoSlashesAndNoLeadingDot) {
  EXPECT_TRUE(check_fabric_name("run-17"));
  for (const char* name : {"", ".", "../x", "a/b", "a b", ".hidden"}) {
    EXPECT_FALSE(check_fabric_name(name)) << name;
  }
  EXPECT_FALSE(check_fabric_name(std::string(33, 'a')));
}

}  // namespace
}  // namespace weft::host
