// /sys/class of a host, in the forms of Linux 6.1
// (Documentation/ABI/stable/sysfs-class-infiniband).

#include "host_view/sysfs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace weft::host_view {
namespace {

[[nodiscard]] HostView host() {
  PortView port{.number = 1,
                .capability_mask = 0x02510868,
                .lid = Lid{0x17},
                .sm_lid = Lid{1},
                .sm_sl = ServiceLevel{0},
                .lmc = 1,
                .state = 4,
                .physical_state = 5,
                .active_width = 2,
                .active_speed = 32,
                .link_layer = "InfiniBand"};
  port.gids = {
      Gid{0xFE80'0000'0000'0000, Guid{0x0002'C903'0000'0001}},
      Gid{}
  };
  port.pkeys = {PKey{0xFFFF}, PKey{0}};
  port.counters = {
      {"port_xmit_data", 1234}
  };
  port.hardware_counters = {
      {"out_of_sequence", 3}
  };
  DeviceView device{.index = 1,
                    .name = "weft0",
                    .firmware_version = "1.2.3",
                    .hardware_revision = "0",
                    .board_id = "WEFT0001",
                    .type = "WEFT",
                    .description = "h1 weft0",
                    .node_guid = Guid{0x0002'C903'0000'0000},
                    .system_image_guid = Guid{0x0002'C903'0000'0003}};
  device.ports = {port};
  HostView view;
  view.devices = {device};
  view.character_devices = {
      {.type = "uverbs", .name = "uverbs0", .abi = 1, .number = 0xE7C0, .device = 1, .port = {}},
      {.type = "umad", .name = "umad0", .number = 0xE700, .device = 1, .port = 1},
      {.type = "issm", .name = "issm0", .number = 0xE740, .device = 1, .port = 1},
      {.type = "rdma_cm", .name = "rdma_cm", .number = 0x0A7A}
  };
  return view;
}

[[nodiscard]] std::map<std::string, std::string> contents() {
  std::map<std::string, std::string> files;
  for (const SysFile& file : sys_tree(host()).files) {
    EXPECT_TRUE(files.emplace(file.path, file.content).second) << file.path;
  }
  return files;
}

TEST(SysTree, SaysWhatThePortIs) {
  auto files = contents();
  const std::string port = "class/infiniband/weft0/ports/1/";
  EXPECT_EQ(files[port + "state"], "4: ACTIVE\n");
  EXPECT_EQ(files[port + "phys_state"], "5: LinkUp\n");
  EXPECT_EQ(files[port + "lid"], "0x17\n");
  EXPECT_EQ(files[port + "lid_mask_count"], "1\n");
  EXPECT_EQ(files[port + "sm_lid"], "0x1\n");
  EXPECT_EQ(files[port + "sm_sl"], "0\n");
  EXPECT_EQ(files[port + "cap_mask"], "0x02510868\n");
  EXPECT_EQ(files[port + "rate"], "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(files[port + "link_layer"], "InfiniBand\n");
  EXPECT_EQ(files[port + "gids/0"], "fe80:0000:0000:0000:0002:c903:0000:0001\n");
  EXPECT_EQ(files[port + "gids/1"], "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(files[port + "gid_attrs/types/0"], "IB/RoCE v1\n");
  EXPECT_EQ(files[port + "pkeys/0"], "0xffff\n");
  EXPECT_EQ(files[port + "pkeys/1"], "0x0000\n");
  EXPECT_EQ(files[port + "counters/port_xmit_data"], "1234\n");
  EXPECT_EQ(files[port + "hw_counters/out_of_sequence"], "3\n");
}

TEST(SysTree, SaysWhatTheDeviceIs) {
  auto files = contents();
  const std::string device = "class/infiniband/weft0/";
  EXPECT_EQ(files[device + "node_type"], "1: CA\n");
  EXPECT_EQ(files[device + "node_guid"], "0002:c903:0000:0000\n");
  EXPECT_EQ(files[device + "sys_image_guid"], "0002:c903:0000:0003\n");
  EXPECT_EQ(files[device + "node_desc"], "h1 weft0\n");
  EXPECT_EQ(files[device + "fw_ver"], "1.2.3\n");
  EXPECT_EQ(files[device + "board_id"], "WEFT0001\n");
  EXPECT_EQ(files[device + "device/numa_node"], "-1\n");
}

TEST(SysTree, NamesTheCharacterDevices) {
  auto files = contents();
  EXPECT_EQ(files["class/infiniband_verbs/abi_version"], "6\n");
  EXPECT_EQ(files["class/infiniband_verbs/uverbs0/dev"], "231:192\n");
  EXPECT_EQ(files["class/infiniband_verbs/uverbs0/ibdev"], "weft0\n");
  EXPECT_EQ(files["class/infiniband_verbs/uverbs0/abi_version"], "1\n");
  EXPECT_EQ(files["class/infiniband_mad/abi_version"], "5\n");
  EXPECT_EQ(files["class/infiniband_mad/umad0/port"], "1\n");
  EXPECT_EQ(files["class/infiniband_mad/issm0/dev"], "231:64\n");
  EXPECT_EQ(files["class/misc/rdma_cm/dev"], "10:122\n");
}

TEST(SysTree, HasFoldersOfWhatIsEmpty) {
  const SysTree tree = sys_tree(host());
  EXPECT_THAT(tree.folders, ::testing::Contains("class/scsi_host"));
  EXPECT_TRUE(std::ranges::is_sorted(tree.folders));
  for (const SysFile& file : tree.files) {
    const std::string parent = file.path.substr(0, file.path.rfind('/'));
    EXPECT_TRUE(std::ranges::binary_search(tree.folders, parent)) << parent;
  }
}

TEST(SysTree, OnlyCountersChangeWithoutATable) {
  for (const SysFile& file : sys_tree(host()).files) {
    EXPECT_EQ(file.freshness == Freshness::WhenRead, file.path.contains("counters/")) << file.path;
  }
}

TEST(SysTexts, FollowTheKernelsForms) {
  EXPECT_EQ(port_state_text(1), "1: DOWN");
  EXPECT_EQ(port_state_text(2), "2: INIT");
  EXPECT_EQ(physical_state_text(3), "3: Disabled");
  EXPECT_EQ(physical_state_text(2), "2: Polling");
  EXPECT_EQ(rate_text(1, 1), "2.5 Gb/sec (1X SDR)");
  EXPECT_EQ(rate_text(2, 4), "40 Gb/sec (4X QDR)");
  EXPECT_EQ(rate_text(8, 128), "1200 Gb/sec (12X NDR)");
}

}  // namespace
}  // namespace weft::host_view
