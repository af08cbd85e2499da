#include "daemon/function_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "node/fabric.h"
#include "wire/mad/mad.h"

namespace weft::daemon {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class FunctionReport : public ::testing::Test {
 protected:
  void SetUp() override {
    fabric::Topology topology = *fabric::generate_star(2);
    topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8005}};
    fabric_ = std::move(*node::Fabric::create(topology, now_));
    settle();
    change("add vf v1 of=h1 pkeys=0x8005 mads=9");
    change("add vf v2 of=h1 groups=3");
  }
  void change(std::string_view text) {
    ASSERT_TRUE(fabric_->change_node(*node::read_node_change(text), now_)) << text;
    settle();
  }
  void settle() {
    const Instant end = now_ + Duration::seconds(3);
    while (now_ < end) {
      while (fabric_->run_management(now_)) {
      }
      now_ =
          std::min(end, std::max(fabric_->management_deadline(), now_ + Duration::nanoseconds(1)));
    }
    image_ = fabric_->next_tables();
  }
  [[nodiscard]] fabric::TablesView view() const { return *fabric::TablesView::open(image_); }
  [[nodiscard]] const node::SharedPorts& shared() const {
    return std::as_const(fabric_->management()).shared_ports();
  }
  /// What the function of a host sends by QP0, which goes nowhere.
  void send_smp(std::string_view host) {
    const fabric::PortIndex port = view().node(*view().find_node(host)).first_port;
    mad::MadPacket smp{};
    const wire::MadHeader header{.mgmt_class = wire::ManagementClass::SubnLidRouted,
                                 .method = wire::MadMethod::Get,
                                 .transaction_id = 0x1234,
                                 .attribute_id = 0x11};
    std::ranges::copy(wire::pack(header), smp.bytes.begin());
    EXPECT_TRUE(
        fabric_->management().shared_ports().send(port, mad::InterfaceKind::Smi, smp, now_));
  }

  Instant now_{Duration::seconds(1)};
  std::unique_ptr<node::Fabric> fabric_;
  std::vector<std::byte> image_;
};

TEST_F(FunctionReport, SaysWhatEachFunctionHas) {
  const fabric::NodeIndex v2 = *view().find_node("v2");
  const json ports =
      json::parse(functions_json(view(), shared(),
                                 {
                                     {v2, {.programs = 2, .qps = 5, .packets_on_vl15 = 7}}
  }));
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0]["port"], "h1:1");
  EXPECT_EQ(ports[0]["pkeys"], json::array({"0xffff", "0x8005"}));
  const json& functions = ports[0]["functions"];
  ASSERT_EQ(functions.size(), 3U);
  EXPECT_EQ(functions[0]["host"], "h1");
  EXPECT_FALSE(functions[0].contains("quotas"));
  EXPECT_EQ(functions[1]["host"], "v1");
  EXPECT_EQ(functions[1]["number"], 1);
  EXPECT_EQ(functions[1]["state"], "Active");
  EXPECT_EQ(functions[1]["lid"], ports[0]["lid"]);
  ASSERT_EQ(functions[1]["pkeys"].size(), 1U);
  EXPECT_EQ(functions[1]["pkeys"][0]["index"], 0);
  EXPECT_EQ(functions[1]["pkeys"][0]["physical"], 1);
  EXPECT_EQ(functions[1]["pkeys"][0]["pkey"], "0x8005");
  EXPECT_EQ(functions[1]["quotas"]["mads_per_second"], 9);
  EXPECT_EQ(functions[1]["quotas"]["groups"], 0);
  EXPECT_EQ(functions[2]["quotas"]["groups"], 3);
  EXPECT_EQ(functions[2]["most_groups"], 3);
  EXPECT_EQ(functions[2]["programs"], 2);
  EXPECT_EQ(functions[2]["qps"], 5);
  EXPECT_EQ(functions[1]["qps"], 0);
  EXPECT_TRUE(functions[1]["dropped_packets"].empty());
  ASSERT_EQ(functions[2]["dropped_packets"].size(), 1U);
  EXPECT_EQ(functions[2]["dropped_packets"][0]["count"], 7);
  EXPECT_EQ(functions[2]["dropped_packets"][0]["reason"], "VL15 belongs to QP0");
  EXPECT_THAT(functions[1]["gid"].get<std::string>(), HasSubstr("fe80::"));
}

TEST_F(FunctionReport, SaysWhatBecameOfMads) {
  send_smp("v2");
  send_smp("v2");
  const json functions = json::parse(functions_json(view(), shared(), {}))[0]["functions"];
  EXPECT_EQ(functions[2]["mads"]["discarded"], 2);
  EXPECT_EQ(functions[1]["mads"]["discarded"], 0);
  ASSERT_EQ(functions[2]["counters"].size(), 1U);
  EXPECT_EQ(functions[2]["counters"][0]["action"], "discarded");
  EXPECT_EQ(functions[2]["counters"][0]["reason"], "a virtual QP0 sends nothing");
  EXPECT_EQ(functions[2]["counters"][0]["count"], 2);

  const json all = shared_ports_json(view(), shared());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["functions"], json::array({"v1", "v2"}));
  EXPECT_EQ(all[0]["mads"]["discarded"], 2);
  EXPECT_GT(all[0]["mads"]["handled"], 0);  // SA's answers about GUIDs

  const json decisions =
      json::parse(decisions_json(view(), shared(), now_ + Duration::milliseconds(5)));
  ASSERT_FALSE(decisions.empty());
  const json& last = decisions.back();
  EXPECT_EQ(last["port"], "h1:1");
  EXPECT_EQ(last["host"], "v2");
  EXPECT_EQ(last["is_outbound"], true);
  EXPECT_EQ(last["transaction_id"], "0x0000000000001234");
  EXPECT_EQ(last["microseconds_ago"], 5'000);
  EXPECT_THAT(last["text"].get<std::string>(), HasSubstr("a virtual QP0 sends nothing"));
}

}  // namespace
}  // namespace weft::daemon
