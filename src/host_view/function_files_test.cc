// Files of virtual functions: Linux's sriov_numvfs (Documentation/ABI/testing/sysfs-bus-pci), and
// mlx5's node, port and policy of each function.

#include "host_view/function_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "host_view/sysfs.h"

namespace weft::host_view {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using What = FunctionWrite::What;

constexpr Guid kNode{0x0002'C903'0000'0011};
constexpr Guid kPort{0x0002'C903'0000'0012};

[[nodiscard]] HostView host(std::size_t functions) {
  SriovView sriov{.total = 8};
  for (std::size_t i = 0; i < functions; ++i) {
    sriov.functions.push_back({.node_guid = Guid{kNode.value() + (i << 8)},
                               .port_guid = Guid{kPort.value() + (i << 8)},
                               .policy = verbs::PortPolicy::Follow});
  }
  return {
      .devices = {{.index = 0, .name = "weft0", .sriov = std::nullopt},
                  {.index = 1, .name = "weft1", .sriov = sriov}}
  };
}

[[nodiscard]] std::expected<FunctionWrite, WriteFault> write(std::string_view file,
                                                             std::string_view text,
                                                             std::size_t functions = 0) {
  return read_write(host(functions), std::string{"weft1/"} + std::string{file}, text);
}

[[nodiscard]] WriteFault fault(std::string_view file, std::string_view text,
                               std::size_t functions = 0) {
  const auto read = write(file, text, functions);
  EXPECT_FALSE(read) << file << ": " << text;
  return read ? WriteFault::NoSuchFile : read.error();
}

TEST(FunctionFiles, SayWhatThereIs) {
  std::map<std::string, std::string> contents;
  std::map<std::string, bool> writable;
  const FunctionTree tree = function_tree(host(2));
  for (const FunctionFile& file : tree.files) {
    contents[file.path] = file.content;
    writable[file.path] = file.is_writable;
  }
  EXPECT_THAT(tree.folders, ElementsAre("weft1", "weft1/sriov", "weft1/sriov/0", "weft1/sriov/1"));
  EXPECT_EQ(contents.size(), 8U);
  EXPECT_EQ(contents["weft1/sriov_numvfs"], "2\n");
  EXPECT_EQ(contents["weft1/sriov_totalvfs"], "8\n");
  EXPECT_EQ(contents["weft1/sriov/0/node"], "00:02:c9:03:00:00:00:11\n");
  EXPECT_EQ(contents["weft1/sriov/1/port"], "00:02:c9:03:00:00:01:12\n");
  EXPECT_EQ(contents["weft1/sriov/1/policy"], "Follow\n");
  EXPECT_TRUE(writable["weft1/sriov_numvfs"]);
  EXPECT_FALSE(writable["weft1/sriov_totalvfs"]);
  EXPECT_TRUE(writable["weft1/sriov/0/policy"]);
}

TEST(FunctionFiles, AreLinkedFromTheDevicesThatHaveThem) {
  const SysTree tree = sys_tree(host(0));
  for (const std::string_view name : function_file_names()) {
    EXPECT_THAT(
        tree.links,
        Contains(SysLink{.path = std::string{"class/infiniband/weft1/device/"} + std::string{name},
                         .target = std::string{"../../../weft/weft1/"} + std::string{name}}));
  }
  EXPECT_EQ(tree.links.size(), function_file_names().size()) << "weft0 can have none";
}

TEST(FunctionFiles, TakeANumberAsTheKernelDoes) {
  for (const std::string_view text : {"4", "4\n", "+4\n", "0x4", "0X4\n", "04\n"}) {
    EXPECT_EQ(write("sriov_numvfs", text),
              (FunctionWrite{.what = What::Count, .device = 1, .count = 4}))
        << text;
  }
  EXPECT_EQ(write("sriov_numvfs", "8\n")->count, 8U);
  EXPECT_EQ(write("sriov_numvfs", "010\n")->count, 8U) << "octal";
  EXPECT_EQ(write("sriov_numvfs", "0\n", 3)->count, 0U);
  EXPECT_EQ(write("sriov_numvfs", "3\n", 3)->count, 3U) << "as many as there are";
  for (const std::string_view text :
       {"", "\n", "-1\n", "four\n", "4 \n", " 4\n", "4\n\n", "4x", "0x\n", "09\n", "65536\n"}) {
    EXPECT_EQ(fault("sriov_numvfs", text), WriteFault::BadText) << text;
  }
  EXPECT_EQ(fault("sriov_numvfs", "9\n"), WriteFault::TooMany);
  EXPECT_EQ(fault("sriov_numvfs", "9\n", 3), WriteFault::TooMany) << "first of all";
  EXPECT_EQ(fault("sriov_numvfs", "4\n", 3), WriteFault::HasOthers);
  EXPECT_EQ(fault("sriov_totalvfs", "4\n"), WriteFault::ReadOnly);
}

TEST(FunctionFiles, TakeGuidsAsOctets) {
  const Guid guid{0x1122'3344'5566'770A};
  EXPECT_EQ(write("sriov/1/node", "11:22:33:44:55:66:77:0a\n", 2),
            (FunctionWrite{.what = What::NodeGuid, .device = 1, .function = 1, .guid = guid}));
  EXPECT_EQ(write("sriov/0/port", "11:22:33:44:55:66:77:A", 2),
            (FunctionWrite{.what = What::PortGuid, .device = 1, .function = 0, .guid = guid}));
  for (const std::string_view text :
       {"", "11:22:33:44:55:66:77\n", "11:22:33:44:55:66:77:\n", "11:22:33:44:55:66:77:0a:0b\n",
        "11:22:33:44:55:66:77:0a \n", "11:22:33:44:55:66:77:111\n", "1122334455667788\n",
        "0x11:22:33:44:55:66:77:0a\n", "11:22:33:44:55:66:77:-1\n", "g1:22:33:44:55:66:77:0a\n",
        "11::33:44:55:66:77:0a\n", "00:00:00:00:00:00:00:00\n", "ff:ff:ff:ff:ff:ff:ff:ff\n"}) {
    EXPECT_EQ(fault("sriov/0/node", text, 2), WriteFault::BadText) << text;
    EXPECT_EQ(fault("sriov/0/port", text, 2), WriteFault::BadText) << text;
  }
}

TEST(FunctionFiles, TakeAPolicyByItsName) {
  for (const verbs::PortPolicy policy : verbs::kPortPolicies) {
    EXPECT_EQ(write("sriov/0/policy", std::string{name_of(policy)} + "\n", 1),
              (FunctionWrite{.what = What::Policy, .device = 1, .policy = policy}));
  }
  for (const std::string_view text : {"", "up\n", "Up \n", "Auto\n", "Follow\n\n"}) {
    EXPECT_EQ(fault("sriov/0/policy", text, 1), WriteFault::BadText) << text;
  }
}

TEST(FunctionFiles, AreThoseOfFunctionsThatAreThere) {
  for (const std::string_view file :
       {"sriov/2/node", "sriov/9/port", "sriov/x/policy", "sriov/0/guid", "sriov/0/", "sriov/0",
        "sriov/", "sriov", "sriovx", "numa_node", ""}) {
    EXPECT_EQ(fault(file, "Up\n", 2), WriteFault::NoSuchFile) << file;
  }
  EXPECT_EQ(read_write(host(1), "weft0/sriov_numvfs", "1\n").error(), WriteFault::NoSuchFile);
  EXPECT_EQ(read_write(host(1), "weft9/sriov_numvfs", "1\n").error(), WriteFault::NoSuchFile);
  EXPECT_EQ(read_write(host(1), "weft1", "1\n").error(), WriteFault::NoSuchFile);
}

}  // namespace
}  // namespace weft::host_view
