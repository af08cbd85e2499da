// What decides whether programs use a device: its node, and what it says of atomics.

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

TEST_F(Verbs, AtomicsAreOfTheHcaAndTheCpuSeesThem) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attributes.pci_atomic_caps.fetch_add, IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
  EXPECT_EQ(attributes.pci_atomic_caps.swap, 0);
  EXPECT_EQ(attributes.pci_atomic_caps.compare_swap, IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
}

}  // namespace
