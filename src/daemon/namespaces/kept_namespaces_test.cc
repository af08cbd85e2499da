// What is kept of what a command hands over. hosts_as_namespaces_test.cc runs it in a daemon.

#include "daemon/namespaces/kept_namespaces.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "namespaces/host_namespaces.h"
#include "node/host_services.h"

namespace weft::daemon {
namespace {

namespace fs = std::filesystem;

class KeptNamespacesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/weft-kept-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    run_ = name;
    std::ofstream{run_ / "hosts"} << "127.0.0.1 localhost\n";
  }
  void TearDown() override { fs::remove_all(run_); }

  [[nodiscard]] static namespaces::FabricNamespaces make_fabric() {
    auto made = namespaces::make_fabric_namespaces();
    EXPECT_TRUE(made) << made.error().reason;
    return std::move(*made);
  }
  [[nodiscard]] std::array<os::UniqueFd, uabi::kKeepHostDescriptors> make_host(
      const namespaces::FabricNamespaces& fabric) const {
    auto made = namespaces::make_host_namespaces(fabric, {.name = "h1",
                                                          .addresses = {"127.77.0.1"},
                                                          .index = 1,
                                                          .hosts_file = run_ / "hosts",
                                                          .run_directory = run_,
                                                          .fabric_id = "x"});
    EXPECT_TRUE(made) << made.error().reason;
    return {
        std::move(made->mount),     std::move(made->network),        std::move(made->uts),
        std::move(made->sys_class), std::move(made->dev_infiniband), std::move(made->functions)};
  }
  [[nodiscard]] static os::UniqueFd copy(const os::UniqueFd& fd) {
    return os::UniqueFd{fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)};
  }
  [[nodiscard]] static host_view::HostView view(bool has_counters) {
    host_view::PortView port{.number = 1, .state = 4};
    if (has_counters) {
      port.counters = {
          {"port_xmit_data", 17}
      };
    }
    host_view::DeviceView device{.name = "weft0", .ports = {port}};
    return {
        .devices = {device},
        .character_devices = {{.type = "uverbs", .name = "uverbs0", .device = 0},
                    {.type = "issm", .name = "issm0", .device = 0, .port = 1}}
    };
  }

  fs::path run_;
  asio::io_context loop_;
  std::vector<std::string> log_;
  KeptNamespaces kept_{
      loop_,
      {.view = [](fabric::NodeIndex, bool has_counters) { return view(has_counters); },
        .is_sm_path =
           [](fabric::NodeIndex, const std::string& device, std::uint32_t port) {
             return "/fifo-" + device + "-" + std::to_string(port);
           }, .write_function_file = [](fabric::NodeIndex, const std::string&,
        std::string_view) { return EPERM; },
        .log = [this](std::string_view line) { log_.emplace_back(line); }}
  };
};

TEST_F(KeptNamespacesTest, RefusesDescriptorsOfAnythingElse) {
  namespaces::FabricNamespaces fabric = make_fabric();
  EXPECT_FALSE(kept_.keep_fabric({copy(fabric.hub), copy(fabric.user)})) << "the wrong way round";
  EXPECT_FALSE(kept_.keep_fabric({}));
  EXPECT_FALSE(kept_.user_namespace());
  ASSERT_TRUE(kept_.keep_fabric({copy(fabric.user), copy(fabric.hub)}));
  const namespaces::FabricNamespaces other = make_fabric();
  EXPECT_FALSE(kept_.keep_host(fabric::NodeIndex{0}, make_host(other))) << "another fabric's";
  auto wrong = make_host(fabric);
  std::swap(wrong[0], wrong[3]);
  EXPECT_FALSE(kept_.keep_host(fabric::NodeIndex{0}, std::move(wrong)));
  EXPECT_TRUE(kept_.host_descriptors(fabric::NodeIndex{0}).empty());
}

TEST_F(KeptNamespacesTest, KeepsWhatComesFirst) {
  const namespaces::FabricNamespaces fabric = make_fabric();
  ASSERT_TRUE(kept_.keep_fabric({copy(fabric.user), copy(fabric.hub)}));
  const auto first = *kept_.user_namespace();
  const namespaces::FabricNamespaces later = make_fabric();
  ASSERT_TRUE(kept_.keep_fabric({copy(later.user), copy(later.hub)}));
  EXPECT_EQ(*kept_.user_namespace(), first);
  ASSERT_TRUE(kept_.keep_host(fabric::NodeIndex{0}, make_host(fabric)));
  const auto host = kept_.host_descriptors(fabric::NodeIndex{0});
  ASSERT_EQ(host.size(), uabi::kHostKeptDescriptors);
  EXPECT_TRUE(os::identify_namespace(host.at(1)->get(), os::NamespaceKind::Mount));
}

TEST_F(KeptNamespacesTest, FillsTheHostsFolders) {
  const namespaces::FabricNamespaces fabric = make_fabric();
  ASSERT_TRUE(kept_.keep_fabric({copy(fabric.user), copy(fabric.hub)}));
  auto made = make_host(fabric);
  const os::UniqueFd sys = copy(made[3]);
  const os::UniqueFd dev = copy(made[4]);
  ASSERT_TRUE(kept_.keep_host(fabric::NodeIndex{0}, std::move(made)));
  EXPECT_TRUE(log_.empty()) << log_.front();
  const fs::path sys_class = "/proc/self/fd/" + std::to_string(sys.get());
  const fs::path devices = "/proc/self/fd/" + std::to_string(dev.get());
  std::string state;
  std::getline(std::ifstream{sys_class / "infiniband/weft0/ports/1/state"}, state);
  EXPECT_EQ(state, "4: ACTIVE");
  EXPECT_TRUE(fs::exists(sys_class / "infiniband/weft0/ports/1/counters/port_xmit_data"));
  EXPECT_TRUE(fs::exists(devices / "uverbs0"));
  EXPECT_EQ(fs::read_symlink(devices / "issm0"), "/fifo-weft0-1");
  const auto mounts = kept_.drop_host(fabric::NodeIndex{0});
  EXPECT_TRUE(mounts);
  EXPECT_TRUE(kept_.hosts().empty());
}

}  // namespace
}  // namespace weft::daemon
