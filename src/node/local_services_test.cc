// A host's kernel, and a resolver on that host that is a program with a netlink socket; SA is the
// fabric's own.

#include "node/local_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/host_services.h"
#include "node/testing/settle.h"
#include "sa/published_paths.h"
#include "wire/local_service/messages.h"

namespace weft::node {
namespace {

namespace local = wire::local_service;
using wire::PathRecord;

constexpr std::uint32_t kResolverPid = 77;
constexpr Lid kLidOfResolver{0x77};

class LocalServicesTest : public ::testing::Test {
 protected:
  LocalServicesTest() : fabric_(Fabric::create(fabric::generate_pair(), now, {}).value()) {
    run_for(Duration::seconds(3));
  }

  void run_for(Duration span) {
    testing::settle(*fabric_, now, span);
    now = now + span;
  }
  fabric::NodeIndex node(std::string_view name) const {
    return *fabric_->builder().find_node(name);
  }
  HostServices& host(std::string_view name) { return fabric_->hosts().host(node(name), now); }
  fabric::PortIndex port(std::string_view name) const {
    return fabric_->builder().node(node(name)).first_port;
  }
  Gid gid(std::string_view name) const { return fabric_->builder().gids(port(name)).front(); }

  void begin_query() {
    sa::SaClient& client = host("h1").sa(port("h1"));
    client.clear_paths();
    ended.clear();
    ASSERT_TRUE(client.resolve_path(
        {.sgid = gid("h1"), .dgid = gid("h2")}, {},
        [this](sa::QueryId, const sa::Answer<PathRecord>& path, Instant) { ended.push_back(path); },
        now));
  }
  NetlinkSockets::Id open_resolver(std::string_view name) {
    const auto socket = sockets.open(node(name), kResolverPid, 3);
    EXPECT_EQ(sockets.bind(*socket, 0, 1U << (local::kGroup - 1)), 0);
    return *socket;
  }
  /// Hands a message of the resolver to the kernel, as the daemon does.
  int say(NetlinkSockets::Id socket, const std::vector<std::byte>& octets) {
    ByteSpan rest = octets;
    const auto message = wire::netlink::take_message(rest);
    return sockets.service(host_view::Client::Ls)
        ->receive(sockets.sender(socket), host_view::operation_of(message->header.type), *message);
  }

  Instant now;
  std::unique_ptr<Fabric> fabric_;
  NetlinkSockets sockets;
  LocalServices services{sockets, fabric_->hosts(), [this] { return now; }};
  std::vector<sa::Answer<PathRecord>> ended;
};

TEST_F(LocalServicesTest, AskTheResolverOfThisHost) {  // part of T-NL-1
  const auto here = open_resolver("h1");
  const auto elsewhere = open_resolver("h2");
  begin_query();
  EXPECT_EQ(sockets.front(elsewhere), nullptr);
  const NetlinkDatagram* const asked = sockets.front(here);
  ASSERT_NE(asked, nullptr);
  EXPECT_EQ(asked->port, 0U);
  EXPECT_EQ(asked->group, local::kGroup);
  ByteSpan rest = asked->bytes;
  const auto message = wire::netlink::take_message(rest);
  const auto request = local::parse_resolve_request(message->payload);
  ASSERT_TRUE(request.has_value()) << request.error().reason;
  EXPECT_EQ(request->device_name, "weft0");
  EXPECT_EQ(request->port, 1);
  EXPECT_EQ(request->dgid, gid("h2"));
  std::vector<std::byte> answer;
  const PathRecord path{
      .dgid = gid("h2"), .sgid = gid("h1"), .dlid = kLidOfResolver, .reversible = true};
  local::append(answer, {.sequence = message->header.sequence},
                local::ResolveAnswer{{{local::flags_wanted(request->use), path}}});
  EXPECT_EQ(say(elsewhere, answer), 0);  // of another host: it asked nobody
  run_for(Duration::milliseconds(10));
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(say(here, answer), 0);
  run_for(Duration::milliseconds(10));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].value().dlid, kLidOfResolver);
}

TEST_F(LocalServicesTest, AskSaWithoutAResolverOrAfterItsTime) {  // part of T-NL-2, part of T-NL-3
  begin_query();
  run_for(Duration::milliseconds(10));
  ASSERT_EQ(ended.size(), 1U);
  const Lid by_sa = ended[0].value().dlid;
  EXPECT_EQ(by_sa, host("h2").local_port(port("h2")).lid);
  open_resolver("h1");
  begin_query();
  run_for(Duration::milliseconds(1'990));
  EXPECT_TRUE(ended.empty());
  run_for(Duration::milliseconds(30));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].value().dlid, by_sa);
}

TEST_F(LocalServicesTest, LookWhereAResolverShowsItsPathsFirst) {  // R-NL-1, R-NL-8
  std::vector<std::uint64_t> words(sa::PublishedLayout::kBytes / sizeof(std::uint64_t) + 1);
  const MutableByteSpan memory =
      std::as_writable_bytes(std::span{words}).first(sa::PublishedLayout::kBytes);
  sa::set_live(memory, true);
  sa::PathPublisher publisher{memory};
  const auto here = open_resolver("h1");
  services.publish(node("h1"), sa::PublishedPaths{memory});
  begin_query();
  EXPECT_NE(sockets.front(here), nullptr) << "it shows none yet";
  sockets.pop(here);
  run_for(Duration::seconds(3));
  const PathRecord path{
      .dgid = gid("h2"), .sgid = gid("h1"), .dlid = kLidOfResolver, .reversible = true};
  publisher.put({.sgid = gid("h1"), .dgid = gid("h2")}, path, now + Duration::seconds(1));
  begin_query();
  run_for(Duration::milliseconds(1));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].value(), path);
  EXPECT_EQ(sockets.front(here), nullptr);
  EXPECT_EQ(host("h1").local_service()->counters().published, 1U);
  services.publish(node("h1"), std::nullopt);
  begin_query();
  EXPECT_NE(sockets.front(here), nullptr) << "whose resolver is gone asks again";
}

TEST_F(LocalServicesTest, WhoIsNotPrivilegedIsNeitherAskedNorHeard) {  // R-NL-7
  const auto stranger = *sockets.open(node("h1"), kResolverPid + 1, 3, false);
  ASSERT_EQ(sockets.bind(stranger, 0, 1U << (local::kGroup - 1)), 0);
  begin_query();
  run_for(Duration::milliseconds(10));
  ASSERT_EQ(ended.size(), 1U) << "nobody is waited for";
  const Lid by_sa = ended[0].value().dlid;
  EXPECT_EQ(sockets.front(stranger), nullptr);
  // Nor does it answer what another is asked.
  const auto silent = open_resolver("h1");
  begin_query();
  ByteSpan rest = sockets.front(silent)->bytes;
  const auto asked = wire::netlink::take_message(rest);
  const auto request = local::parse_resolve_request(asked->payload);
  std::vector<std::byte> answer;
  const PathRecord path{
      .dgid = gid("h2"), .sgid = gid("h1"), .dlid = kLidOfResolver, .reversible = true};
  local::append(answer, {.sequence = asked->header.sequence},
                local::ResolveAnswer{{{local::flags_wanted(request->use), path}}});
  EXPECT_EQ(say(stranger, answer), -EPERM);
  std::vector<std::byte> timeout;
  local::append(timeout, {.flags = wire::netlink::kFlagRequest}, local::SetTimeout{100});
  EXPECT_EQ(say(stranger, timeout), -EPERM);
  run_for(Duration::milliseconds(1'900));
  EXPECT_TRUE(ended.empty());
  run_for(Duration::milliseconds(200));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].value().dlid, by_sa);
}

TEST_F(LocalServicesTest, AResolverSetsTheTimeOfItsHost) {  // part of T-NL-4
  const auto here = open_resolver("h1");
  begin_query();
  std::vector<std::byte> octets;
  local::append(octets, {.flags = wire::netlink::kFlagRequest}, local::SetTimeout{100});
  EXPECT_EQ(say(here, octets), 0);
  run_for(Duration::milliseconds(120));
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_EQ(host("h2").local_service()->timeout(), Duration::seconds(2));
}

}  // namespace
}  // namespace weft::node
