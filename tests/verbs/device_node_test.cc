// What a program learns about the device nodes of the devices that it was given.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "verbs_fixture.h"

namespace {

TEST_F(Verbs, DevicesHaveNodesForWhoAsksForTheList) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  const std::string node = std::string{"/dev/infiniband/"} + devices[0]->dev_name;
  struct stat status{};
  EXPECT_EQ(stat(node.c_str(), &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(access(node.c_str(), R_OK | W_OK), 0);
  ibv_free_device_list(devices);
}

TEST_F(Verbs, OnlyNodesOfDevicesAreAnsweredFor) {
  struct stat status{};
  EXPECT_NE(stat("/dev/infiniband/uverbs77", &status), 0);
  EXPECT_NE(access("/dev/infiniband/", R_OK), 0);
  EXPECT_NE(access("/dev/infinibanduverbs0", R_OK), 0);
  EXPECT_EQ(stat("/dev", &status), 0);
  EXPECT_TRUE(S_ISDIR(status.st_mode));
}

}  // namespace
