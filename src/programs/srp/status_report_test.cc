#include "programs/srp/status_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/ip_address.h"

namespace weft::programs::srp {
namespace {

using weft::srp::ChannelId;
using weft::srp::ChannelState;
using weft::srp::ChannelStatus;
using weft::srp::PathState;

[[nodiscard]] wire::SrpPortId port_id(std::uint8_t last) {
  wire::SrpPortId id{};
  id[15] = std::byte{last};
  return id;
}

[[nodiscard]] ChannelStatus channel(std::uint64_t id, std::uint8_t initiator) {
  ChannelStatus status{.id = ChannelId{id},
                       .port = "1",
                       .initiator = {.port_id = port_id(initiator)},
                       .state = ChannelState::Live,
                       .limit = 128,
                       .credits = 120,
                       .outstanding = 8};
  status.counters = {.commands = 10, .reads = 3, .read_bytes = 1536, .resets = 1};
  return status;
}

[[nodiscard]] TargetReport report() {
  TargetStatus target{
      .ports = {{.id = port_id(0xAA), .name = "1", .device = "weft0"}},
      .units = {{.lun = 0, .disk = "ram", .bytes = 1 << 20, .block_bytes = 512},
                {.lun = 1, .disk = "/a\"b", .bytes = 4096, .block_bytes = 4096, .read_only = true}},
      .channels = {channel(1, 7), channel(2, 8), channel(3, 7)},
      .counters = {.logins = 3,
                .refusals = {{wire::SrpLoginRejReason::ChannelLimitReached, 2}},
                .channels = {.commands = 30, .violations = 1}}
  };
  target.channels[1].initiator.ip = *parse_ip_address("127.77.0.2");
  target.channels[0].initiator.gid = Gid{kDefaultGidPrefix, Guid{0xABCD}};
  return {
      .pid = 42,
      .devices = {{.name = "weft0"}},
      .service_id = 0x13F'15B3,
      .portals = {"127.77.0.1:5555", "127.77.0.1:5556"},
      .targets = {std::move(target)}
  };
}

TEST(SrpStatusReport, ChannelsOfOneInitiatorAreOneSession) {
  const auto json = nlohmann::json::parse(to_json(report()));
  EXPECT_EQ(json["role"], "target");
  EXPECT_TRUE(json["devices"][0]["srq"].is_null());
  EXPECT_EQ(json["pid"], 42);
  EXPECT_EQ(json["service_id"], "00000000013f15b3");
  const auto& target = json["targets"][0];
  ASSERT_EQ(target["sessions"].size(), 2U);
  const auto& session = target["sessions"][0];
  EXPECT_EQ(session["initiator"], "0x00000000000000000000000000000007");
  EXPECT_EQ(session["gid"], "fe80::abcd");
  EXPECT_FALSE(session.contains("ip"));
  ASSERT_EQ(session["channels"].size(), 2U);
  EXPECT_EQ(session["channels"][1]["channel"], 3);
  EXPECT_EQ(session["channels"][1]["counters"]["read_bytes"], 1536);
  EXPECT_EQ(target["sessions"][1]["ip"], "127.77.0.2");
  EXPECT_EQ(target["refusals"]["RDMA channel limit reached"], 2);
  EXPECT_EQ(target["units"][1]["disk"], "/a\"b");
}

TEST(SrpStatusReport, IsReadByPeople) {
  EXPECT_EQ(*status_text(to_json(report())),
            "target 0x000000000000000000000000000000aa of process 42 on weft0\n"
            "  listens on 127.77.0.1:5555, 127.77.0.1:5556, and by service ID 00000000013f15b3\n"
            "  LUN 0: ram, 1048576 octets in blocks of 512\n"
            "  LUN 1: /a\"b, 4096 octets in blocks of 4096, read-only\n"
            "  session of 0x00000000000000000000000000000007 from fe80::abcd\n"
            "    channel 1: LIVE, 120 credits of 128, 8 commands under way\n"
            "      10 commands, 3 reads of 1536 octets, 0 writes of 0 octets, 0 aborts, 1 resets\n"
            "    channel 3: LIVE, 120 credits of 128, 8 commands under way\n"
            "      10 commands, 3 reads of 1536 octets, 0 writes of 0 octets, 0 aborts, 1 resets\n"
            "  session of 0x00000000000000000000000000000008 from 127.77.0.2\n"
            "    channel 2: LIVE, 120 credits of 128, 8 commands under way\n"
            "      10 commands, 3 reads of 1536 octets, 0 writes of 0 octets, 0 aborts, 1 resets\n"
            "  in all: 3 logins, 30 commands, 0 reads of 0 octets, 0 writes of 0 octets, 0 aborts, "
            "0 resets, 1 violations of the protocol\n"
            "  refused: 2 logins: RDMA channel limit reached\n");
  TargetReport shares = report();
  shares.devices[0].shared =
      weft::iser::SharedReceiveCounters{.buffers = 512, .posted = 500, .limit_events = 1};
  EXPECT_NE(status_text(to_json(shares))
                ->find("\n  shared receives: 512 buffers, 500 posted, few were left 1 times\n"),
            std::string::npos);
  TargetReport two = report();
  two.devices.push_back({.name = "weft1", .shared = shares.devices[0].shared});
  two.targets[0].ports.push_back({.id = port_id(0xBB), .name = "2", .device = "weft1"});
  two.targets[0].channels[2].port = "2";
  const std::string of_two = *status_text(to_json(two));
  EXPECT_TRUE(of_two.starts_with(
      "target 0x000000000000000000000000000000aa of process 42 on weft0\n"
      "target 0x000000000000000000000000000000bb of process 42 on weft1\n"
      "  listens on 127.77.0.1:5555, 127.77.0.1:5556, and by service ID 00000000013f15b3\n"
      "  shared receives of weft1: 512 buffers, 500 posted, few were left 1 times\n"))
      << of_two;
  EXPECT_NE(of_two.find("00007 from fe80::abcd on weft0\n    channel 1"), std::string::npos);
  EXPECT_NE(of_two.find("00007 from an unknown port on weft1\n    channel 3"), std::string::npos)
      << "a session of its own: " << of_two;
  TargetReport waits = report();
  waits.devices.clear();
  waits.targets[0].ports[0].device.clear();
  const std::string waiting = *status_text(to_json(waits));
  EXPECT_NE(waiting.find("of process 42 waits for an RDMA device\n  LUN 0: ram"), std::string::npos)
      << waiting;
  const AttachReport attached{.pid = 9,
                              .lun = 1,
                              .initiators = {port_id(7)},
                              .commands = 5,
                              .paths = {{.where = "127.77.0.1:5555",
                                         .target = port_id(0xAA),
                                         .state = PathState::Blocked,
                                         .queued = 2,
                                         .logins = 1,
                                         .losses = 1,
                                         .last_failure = "the target has disconnected"}}};
  EXPECT_EQ(*status_text(to_json(attached)),
            "attached LUN 1 by process 9: 5 commands\n"
            "  path to 0x000000000000000000000000000000aa of 127.77.0.1:5555, as "
            "0x00000000000000000000000000000007\n"
            "    blocked, 0 credits, 0 commands under way, 2 waiting, 1 logins, 1 lost\n"
            "    last failure: the target has disconnected\n");
}

TEST(SrpStatusReport, TellsTheNumberOfChannelsThatAreTooMany) {
  TargetReport crowded = report();
  const std::size_t before = crowded.targets[0].channels.size();
  crowded.targets.push_back(crowded.targets[0]);
  crowded.targets[1].channels.assign(kMostChannels, channel(9, 9));
  const auto json = nlohmann::json::parse(to_json(crowded));
  EXPECT_EQ(json["left_out"], before);
  EXPECT_EQ(json["targets"][1]["sessions"][0]["channels"].size(), kMostChannels - before);
  EXPECT_NE(status_text(to_json(crowded))->find("  3 channels of this process are not shown\n"),
            std::string::npos);
  EXPECT_LT(to_json(crowded).size(), 200'000U) << "a socket's buffer";
}

TEST(SrpStatusReport, RefusesWhatIsNoReport) {
  for (const char* wrong : {"", "this is asked for json\n", "{}", "[]", R"({"role": 1})",
                            R"({"role": "target", "targets": [{}]})"}) {
    EXPECT_FALSE(status_text(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace weft::programs::srp
