#include "mad/management_interface.h"

#include <gtest/gtest.h>

#include "mad/testing/network.h"

namespace weft::mad {
namespace {

using wire::MadMethod;
using wire::ManagementClass;

TEST(ManagementInterface, ShowsASnooperWhatComesAndGoes) {
  ManagementInterface gsi{InterfaceKind::Gsi};
  TestAgent agent{[](MadRequest& request) { return &request.message; }};
  ASSERT_TRUE(gsi.register_agent(registration_of(ManagementClass::Perf, {MadMethod::Get}), &agent));
  std::vector<std::pair<ManagementInterface::Direction, std::size_t>> seen;
  const auto snooper = gsi.add_snooper(
      [&](ManagementInterface::Direction way, const MadAddress& address, ByteSpan bytes) {
        EXPECT_EQ(address.lid, Lid{5});
        seen.emplace_back(way, bytes.size());
      });
  const MadMessage request = request_of(ManagementClass::Perf, MadMethod::Get);
  gsi.handle_mad({.lid = Lid{5}}, request.mad, {});
  (void)gsi.poll_transmit({});
  gsi.handle_mad({.lid = Lid{5}}, ByteSpan{request.mad}.first(10), {});  // malformed ones too
  using Direction = ManagementInterface::Direction;
  const std::vector<std::pair<Direction, std::size_t>> expected = {
      {Direction::Received, 256},
      {Direction::Sent,     256},
      {Direction::Received, 10 }
  };
  EXPECT_EQ(seen, expected);
  gsi.remove_snooper(snooper);
  gsi.handle_mad({.lid = Lid{5}}, request.mad, {});
  EXPECT_EQ(seen.size(), 3U);
}

TEST(ManagementInterface, SendsNoFasterThanItsRate) {
  ManagementInterface gsi{
      InterfaceKind::Gsi, {.mad_interval = Duration::milliseconds(1), .burst = 2}
  };
  const auto agent = gsi.register_agent(registration_of(ManagementClass::Perf, {}), nullptr);
  Instant now{Duration::seconds(1)};
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(
        gsi.post(*agent, {.lid = Lid{5}}, request_of(ManagementClass::Perf, MadMethod::Send), now));
  }
  std::vector<std::int64_t> at;
  while (gsi.deadline() != Instant::never()) {
    now = std::max(now, gsi.deadline());
    ASSERT_TRUE(gsi.poll_transmit(now));
    at.push_back((now - Instant{Duration::seconds(1)}).milliseconds());
  }
  EXPECT_EQ(at, (std::vector<std::int64_t>{0, 0, 1, 2, 3}));
}

TEST(ManagementInterface, PostsWithoutWaitingForAnything) {
  ManagementInterface gsi{InterfaceKind::Gsi};
  const auto agent = gsi.register_agent(registration_of(ManagementClass::Perf, {}), nullptr);
  ASSERT_TRUE(
      gsi.post(*agent, {.lid = Lid{5}}, request_of(ManagementClass::Perf, MadMethod::Send), {}));
  const auto packet = gsi.poll_transmit({});
  ASSERT_TRUE(packet);
  EXPECT_EQ(MadMessage{.mad = packet->bytes}.header().transaction_id >> 32, agent->value());
  EXPECT_EQ(gsi.deadline(), Instant::never());
  MadMessage answer = request_of(ManagementClass::Perf, MadMethod::GetResp);
  wire::MadHeader header = answer.header();
  header.transaction_id = 77;
  answer.set_header(header);
  ASSERT_TRUE(gsi.post(*agent, {.lid = Lid{5}}, answer, {}));
  EXPECT_EQ(MadMessage{.mad = gsi.poll_transmit({})->bytes}.header().transaction_id, 77U);
  EXPECT_FALSE(
      gsi.post(*agent, {.lid = Lid{5}}, request_of(ManagementClass::SubnAdm, MadMethod::Send), {}));
}

TEST(ManagementInterface, TellsItsLimits) {  // docs/ARCHITECTURE.md, decision 15
  const ManagementInterface gsi{InterfaceKind::Gsi, {.in_flight = 12}};
  EXPECT_EQ(gsi.limits().in_flight, 12U);
}

}  // namespace
}  // namespace weft::mad
