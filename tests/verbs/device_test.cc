// What decides whether programs use a device: its node, and what it says of atomics.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>

#include "forked_program.h"
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

[[nodiscard]] std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"},
                       std::filesystem::directory_iterator{});
}

TEST_F(Verbs, ClosingADeviceGivesUpItsDescriptorsBeforeItReturns) {
  // In a program of its own, since the daemon's descriptors of it are in this one.
  const ForkedProgram other{[](const Conversation&) {
    ibv_device** const devices = ibv_get_device_list(nullptr);
    ASSERT_NE(devices, nullptr);
    std::ptrdiff_t first = 0;
    std::ptrdiff_t most = 0;
    for (int i = 0; i < 200; ++i) {
      ibv_context* const context = ibv_open_device(devices[0]);
      ASSERT_NE(context, nullptr);
      ASSERT_EQ(ibv_close_device(context), 0);
      most = std::max(most, open_descriptors());
      first = i == 0 ? most : first;
    }
    EXPECT_EQ(most, first);
    ibv_free_device_list(devices);
  }};
}

TEST_F(Verbs, NoDeviceHasAnIndexWhereNoNetlinkAnswers) {
  // ibv_get_device_index(3): -1 where the kernel does not tell it (rdma netlink,
  // RDMA_NLDEV_CMD_GET), as in this program, which has not loaded libweft-netlink.so.
  EXPECT_EQ(ibv_get_device_index(list_[0]), -1);
}

}  // namespace
