#include "programs/srp/target_node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "ulp/srp/testing/bench_channel.h"

namespace weft::programs::srp {
namespace {

using scsi::testing::bytes;
using scsi::testing::cdb10;
using weft::srp::testing::InitiatorMemory;
using weft::srp::testing::ManualConnection;
using weft::srp::testing::TargetBench;

constexpr Guid kGuid{0x0002'C903'0000'0001};
constexpr Guid kOtherGuid{0x0002'C903'0000'0002};
constexpr std::uint64_t kExtension = 5;

class SrpTargetNode : public ::testing::Test {
 protected:
  SrpTargetNode() {
    auto made = TargetNode::create(loop, workers,
                                   {.name = "5", .units = {{.lun = 0, .ram_bytes = 1 << 20}}});
    EXPECT_TRUE(made) << made.error().reason;
    node = *std::move(made);
  }
  ~SrpTargetNode() override {
    leave();
    leave(kOtherGuid);
  }

  /// A login by that name; its unit attention is cleared. False: refused.
  [[nodiscard]] bool log_in(const wire::SrpPortId& name, Guid device = kGuid) {
    auto request = TargetBench::login_req();
    request.target_port_id = name;
    const auto octets = wire::pack(request);
    connection = std::make_shared<ManualConnection>(memory);
    const auto logged_in =
        node->target().log_in(TargetNode::port_of(device), {.private_data = octets}, connection);
    if (!logged_in) {
      return false;
    }
    id = *logged_in;
    channel().handle_rtu();
    run(TargetBench::command(0, bytes({0, 0, 0, 0, 0, 0})));
    return true;
  }
  [[nodiscard]] weft::srp::Channel& channel() { return *node->target().channel(id); }

  void run(const wire::SrpCommandUnit& unit) {
    channel().handle_receive(wire::to_unit(unit, wire::kSrpDefaultImmediateOffset));
    report_all();
  }
  /// What a command with 512 octets for the initiator gives it.
  [[nodiscard]] std::vector<std::byte> read(const weft::srp::testing::Octets& cdb) {
    const auto buffer = memory.allocate(512);
    auto unit = TargetBench::command(1, cdb);
    unit.data_in = {
        .format = wire::SrpBufferFormat::Direct, .descriptors = {buffer}, .length = 512};
    run(unit);
    const auto octets = memory.at(buffer);
    return {octets.begin(), octets.end()};
  }
  void write(std::byte value) {
    const auto buffer = memory.allocate(512);
    std::ranges::fill(memory.at(buffer), value);
    auto unit = TargetBench::command(2, cdb10(0x2A, 0, 1));
    unit.data_out = {
        .format = wire::SrpBufferFormat::Direct, .descriptors = {buffer}, .length = 512};
    run(unit);
  }
  /// Whatever is posted is reported, as flushed where the QP has failed.
  void report_all() {
    while (connection != nullptr && !connection->posted.empty() &&
           node->target().channel(id) != nullptr) {
      const auto work = connection->posted.front();
      connection->posted.pop_front();
      const bool succeeds = !connection->has_failed;
      if (work.kind == weft::srp::testing::Posted::Kind::Send) {
        channel().handle_send_done(work.slot, succeeds);
      } else if (work.kind == weft::srp::testing::Posted::Kind::Read) {
        channel().handle_read_done(work.slot, succeeds);
      } else {
        channel().handle_marker_done(succeeds);
      }
    }
  }
  /// True once all sessions have ended.
  bool leave(Guid device = kGuid) {
    bool is_done = false;
    node->leave(device, [&] { is_done = true; });
    report_all();
    node->target().collect();
    return is_done;
  }

  asio::io_context loop;
  iscsi::WorkerPool workers{1};
  InitiatorMemory memory;
  std::unique_ptr<TargetNode> node;
  std::shared_ptr<ManualConnection> connection;
  weft::srp::ChannelId id{};
};

TEST_F(SrpTargetNode, TakesLoginsWhileThereIsADevice) {  // R-SRPT-2
  EXPECT_FALSE(log_in(port_id_of(kExtension, kGuid)));
  ASSERT_TRUE(node->come_to(kGuid));
  EXPECT_EQ(node->port_id(kGuid), port_id_of(kExtension, kGuid));
  ASSERT_TRUE(log_in(node->port_id(kGuid)));
  EXPECT_TRUE(leave());
  EXPECT_EQ(node->target().channels(), 0U);
  EXPECT_FALSE(log_in(node->port_id(kGuid)));
  ASSERT_TRUE(node->come_to(kGuid)) << "the same device has come again";
  EXPECT_TRUE(log_in(node->port_id(kGuid)));
}

TEST_F(SrpTargetNode, AtAnotherDeviceItHasAnotherNameAndTheSameUnits) {  // R-SRPT-2
  ASSERT_TRUE(node->come_to(kGuid));
  ASSERT_TRUE(log_in(port_id_of(kExtension, kGuid)));
  write(std::byte{0x5A});
  const auto serial = read(bytes({0x12, 1, 0x80, 2, 0, 0}));
  EXPECT_TRUE(leave());
  ASSERT_TRUE(node->come_to(kOtherGuid));
  EXPECT_FALSE(log_in(port_id_of(kExtension, kGuid), kOtherGuid));
  ASSERT_TRUE(log_in(port_id_of(kExtension, kOtherGuid), kOtherGuid));
  EXPECT_EQ(read(cdb10(0x28, 0, 1)), std::vector<std::byte>(512, std::byte{0x5A}));
  EXPECT_GT(std::to_integer<int>(serial[3]), 0);
  EXPECT_EQ(read(bytes({0x12, 1, 0x80, 2, 0, 0})), serial) << "it is known as the same disk";
}

TEST_F(SrpTargetNode, AtTwoDevicesItHasTwoPortsThatGoByThemselves) {  // R-SRPT-2
  ASSERT_TRUE(node->come_to(kGuid));
  ASSERT_TRUE(node->come_to(kOtherGuid));
  ASSERT_TRUE(log_in(port_id_of(kExtension, kGuid)));
  const auto serial = read(bytes({0x12, 1, 0x80, 2, 0, 0}));
  write(std::byte{0x5A});
  const auto first = std::pair{connection, id};
  EXPECT_FALSE(log_in(port_id_of(kExtension, kGuid), kOtherGuid)) << "its name at the other device";
  ASSERT_TRUE(log_in(port_id_of(kExtension, kOtherGuid), kOtherGuid));
  const auto second = std::pair{connection, id};
  EXPECT_EQ(node->target().channels(), 2U) << "the first session has not ended";
  EXPECT_EQ(read(bytes({0x12, 1, 0x80, 2, 0, 0})), serial) << "it is the same disk";
  std::tie(connection, id) = first;
  EXPECT_TRUE(leave(kGuid));
  EXPECT_EQ(node->target().channels(), 1U);
  EXPECT_FALSE(log_in(port_id_of(kExtension, kGuid)));
  std::tie(connection, id) = second;
  EXPECT_EQ(read(cdb10(0x28, 0, 1)), std::vector<std::byte>(512, std::byte{0x5A}));
}

TEST_F(SrpTargetNode, AListThatChangesWhileThereIsNoDeviceHoldsWhenOneComes) {
  ASSERT_TRUE(node->come_to(kGuid));
  EXPECT_TRUE(leave());
  iscsi::TargetConfiguration changed = node->configuration();
  changed.initiators = {"0x77"};
  ASSERT_TRUE(node->change(changed));
  ASSERT_TRUE(node->come_to(kGuid));
  EXPECT_FALSE(log_in(node->port_id(kGuid))) << "initiator 1 is not on the list";
  ASSERT_TRUE(node->come_to(kOtherGuid));
  EXPECT_FALSE(log_in(node->port_id(kOtherGuid), kOtherGuid));
  changed.initiators = {"0x01"};
  ASSERT_TRUE(node->change(changed));
  EXPECT_TRUE(log_in(node->port_id(kOtherGuid), kOtherGuid));
}

}  // namespace
}  // namespace weft::programs::srp
