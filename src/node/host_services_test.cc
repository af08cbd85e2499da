// Hosts' kernel sides on whole fabrics with their own subnet manager: addresses are resolved over
// the fabric's own broadcast groups, paths come from its SA.

#include "node/host_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/faults.h"
#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/testing/settle.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/service_record.h"

namespace weft::node {
namespace {

using fabric::PortIndex;
using wire::kComponent;
using wire::PathRecord;
using Resolved = std::expected<sa::Resolution, sa::ResolutionError>;

IpAddress ip(std::string_view text) { return parse_ip_address(text).value(); }

class Hosts {
 public:
  explicit Hosts(const fabric::Topology& topology)
      : fabric_(Fabric::create(topology, now, {.faults = faults}).value()) {
    run_for(Duration::seconds(3));
  }

  void run_for(Duration span) {
    testing::settle(*fabric_, now, span);
    now = now + span;
  }
  Fabric& fabric() { return *fabric_; }
  fabric::NodeIndex node(std::string_view name) const {
    return *fabric_->builder().find_node(name);
  }
  HostServices& host(std::string_view name) { return fabric_->hosts().host(node(name), now); }
  PortIndex port(std::string_view name) const {
    return fabric_->builder().node(node(name)).first_port;
  }
  Gid gid(std::string_view name) const { return fabric_->builder().gids(port(name)).front(); }
  void set_plugged(std::string_view name, bool is_plugged) {
    EXPECT_TRUE(fabric_->change_port(port(name), {.is_plugged = is_plugged, .settings = {}}, now));
  }

  Resolved resolve(std::string_view from, std::string_view destination,
                   Duration timeout = Duration::seconds(2)) {
    std::optional<Resolved> told;
    const auto id = host(from).resolver().resolve(
        IpAddress{}, ip(destination), timeout,
        [&](sa::ResolutionId, const Resolved& outcome, Instant) { told = outcome; }, now);
    EXPECT_TRUE(id.has_value());
    for (int turn = 0; !told && turn < 1'000; ++turn) {
      run_for(Duration::milliseconds(20));
    }
    return told.value();
  }
  sa::Answer<PathRecord> path(std::string_view from, const Gid& to,
                              Duration timeout = Duration::seconds(4)) {
    std::optional<sa::Answer<PathRecord>> told;
    const auto id =
        host(from)
            .sa(port(from))
            .resolve_path(
                {.dgid = to}, {.timeout = timeout},
                [&](sa::QueryId, const sa::Answer<PathRecord>& answer, Instant) { told = answer; },
                now);
    EXPECT_TRUE(id.has_value()) << id.error().reason;
    for (int turn = 0; !told && turn < 1'000; ++turn) {
      run_for(Duration::milliseconds(20));
    }
    return told.value();
  }

  Instant now{Duration::seconds(1)};

 private:
  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> memory_{};

 public:
  fabric::FaultCounters faults{fabric::FaultCounters::open(memory_)};

 private:
  std::unique_ptr<Fabric> fabric_;
};

fabric::Topology star(std::uint32_t hosts) { return *fabric::generate_star(hosts); }

TEST(HostServices, FindAnAddressByArpAndThePathToItBySa) {  // T-SA-1
  Hosts hosts{star(3)};
  const auto found = hosts.resolve("h2", "127.77.0.1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->destination_gid, hosts.gid("h1"));
  EXPECT_EQ(found->source_gid, hosts.gid("h2"));
  EXPECT_EQ(port_of(found->port), hosts.port("h2"));
  const auto path = hosts.path("h2", found->destination_gid);
  ASSERT_TRUE(path) << path.error().reason;
  EXPECT_EQ(path->dlid, hosts.fabric().builder().port(hosts.port("h1")).lid);
  EXPECT_EQ(path->slid, hosts.fabric().builder().port(hosts.port("h2")).lid);
  EXPECT_EQ(hosts.fabric().hosts().size(), 2U);  // h3 was not asked for
  const auto ipv6 = hosts.resolve("h2", "fd77::3");
  ASSERT_TRUE(ipv6) << ipv6.error().reason;
  EXPECT_EQ(ipv6->destination_gid, hosts.gid("h3"));
  const auto link_local =
      hosts.resolve("h2", to_string(fabric::link_local_of(hosts.gid("h1").interface_id())));
  ASSERT_TRUE(link_local) << link_local.error().reason;
  EXPECT_EQ(link_local->destination_gid, hosts.gid("h1"));
}

TEST(HostServices, FindAddressesAcrossSwitchesAndBackToBack) {
  for (const char* shape : {"pair", "fat-tree:4", "torus:3x3"}) {
    Hosts hosts{*fabric::generate(shape)};
    const auto found = hosts.resolve("h2", "127.77.0.1");
    ASSERT_TRUE(found) << shape << ": " << found.error().reason;
    EXPECT_EQ(found->destination_gid, hosts.gid("h1"));
    EXPECT_TRUE(hosts.path("h2", found->destination_gid));
  }
}

TEST(HostServices, TimeOutWhileALinkIsDownAndFindAgainWhenItIsUp) {
  Hosts hosts{star(3)};  // h1 has the subnet manager
  hosts.set_plugged("h3", false);
  const auto other_down = hosts.resolve("h2", "127.77.0.3");
  ASSERT_FALSE(other_down);
  EXPECT_EQ(other_down.error().failure, sa::ResolutionFailure::TimedOut);
  hosts.set_plugged("h3", true);
  const auto up = hosts.resolve("h2", "127.77.0.3", Duration::seconds(10));
  ASSERT_TRUE(up) << up.error().reason;
  hosts.set_plugged("h2", false);
  hosts.run_for(Duration::milliseconds(1));
  const auto own_down = hosts.resolve("h2", "127.77.0.1");
  ASSERT_FALSE(own_down);
  EXPECT_EQ(own_down.error().failure, sa::ResolutionFailure::Down);
  hosts.set_plugged("h2", true);
  EXPECT_TRUE(hosts.resolve("h2", "127.77.0.1", Duration::seconds(10)));
  EXPECT_TRUE(hosts.path("h2", hosts.gid("h1")));
}

TEST(HostServices, FindWhatTheyAskForThoughLinksLosePackets) {
  Hosts hosts{star(4)};
  ASSERT_TRUE(hosts.fabric().add_fault(*fabric::read_fault("drop p=0.1"), hosts.now));
  for (const char* from : {"h2", "h3", "h4"}) {
    for (const char* to : {"127.77.0.1", "127.77.0.2", "fd77::3", "127.77.0.4"}) {
      const auto found = hosts.resolve(from, to, Duration::seconds(20));
      ASSERT_TRUE(found) << from << " " << to << ": " << found.error().reason;
      EXPECT_TRUE(hosts.path(from, found->destination_gid, Duration::seconds(20)));
    }
  }
}

TEST(HostServices, KeepCarriedAddressesWhileTheirPortChanges) {  // R-IPOIB-21
  Hosts hosts{star(2)};
  const InterfaceAddress carried{ip("10.77.0.2"), 16};
  HostServices& h2 = hosts.host("h2");
  ASSERT_TRUE(h2.set_carried(
      {.port = hosts.port("h2"), .pkey = kDefaultPKey, .addresses = {carried}, .ask = {}}));
  ASSERT_TRUE(h2.resolver().find_own(carried.address));
  EXPECT_EQ(h2.resolver().find_own(carried.address)->interface.pkey, kDefaultPKey);
  hosts.set_plugged("h2", false);
  hosts.run_for(Duration::seconds(1));
  hosts.set_plugged("h2", true);
  hosts.run_for(Duration::seconds(3));
  EXPECT_TRUE(h2.resolver().find_own(carried.address));
  EXPECT_FALSE(hosts.resolve("h1", "10.77.0.2"));  // of no subnet of h1
  EXPECT_TRUE(hosts.resolve("h2", "10.77.0.2")->is_own_host);
  const auto other = h2.set_carried(
      {.port = hosts.port("h2"), .pkey = PKey{0x8005}, .addresses = {carried}, .ask = {}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::InvalidArgument);
  h2.drop_carried(hosts.port("h2"), kDefaultPKey, hosts.now);
  EXPECT_FALSE(h2.resolver().find_own(carried.address));
}

TEST(HostServices, AskTheProgramThatCarriesAnInterfaceForItsNeighbors) {  // R-IPOIB-28
  fabric::Topology topology = star(2);
  for (auto& host : topology.hosts) {
    host.hcas[0].ports[0].pkeys = {kDefaultPKey, PKey{0x8005}};
  }
  Hosts hosts{topology};
  HostServices& h1 = hosts.host("h1");
  const fabric::PortIndex port = hosts.port("h1");
  const Gid gid{kDefaultGidPrefix, Guid{0x55}};
  std::vector<std::string> asked;
  for (const auto& [pkey, address] : {
           std::pair{kDefaultPKey, "10.77.0.1"},
           std::pair{PKey{0x8005}, "10.85.0.1"}
  }) {
    ASSERT_TRUE(h1.set_carried({.port = port,
                                .pkey = pkey,
                                .addresses = {{ip(address), 16}},
                                .ask = [&, pkey](const IpAddress& neighbor, Duration within) {
                                  asked.push_back(to_string(neighbor));
                                  EXPECT_GT(within, Duration{});
                                  h1.take_neighbor(port, pkey, neighbor, gid);
                                }}));
  }
  const auto of_child = hosts.resolve("h1", "10.85.0.2");
  ASSERT_TRUE(of_child) << of_child.error().reason;
  EXPECT_EQ(of_child->pkey, PKey{0x8005});
  EXPECT_EQ(of_child->destination_gid, gid);
  ASSERT_TRUE(hosts.resolve("h1", "10.77.0.2"));
  EXPECT_EQ(asked, (std::vector<std::string>{"10.85.0.2", "10.77.0.2"}));
}

TEST(HostServices, DoNotReachAHostOfAnotherPartition) {
  fabric::Topology topology = star(4);
  for (const unsigned host : {2U, 3U}) {
    topology.hosts[host].hcas[0].ports[0].pkeys = {PKey{0x8001}, PKey{0x7FFF}};
  }
  Hosts hosts{topology};
  const auto other = hosts.resolve("h2", "127.77.0.3");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().failure, sa::ResolutionFailure::TimedOut);
  const auto same = hosts.resolve("h4", "127.77.0.3", Duration::seconds(20));
  ASSERT_TRUE(same) << same.error().reason;
  EXPECT_EQ(same->pkey, PKey{0x8001});
  EXPECT_EQ(same->destination_gid, hosts.gid("h3"));
}

TEST(HostServices, OfAHostWithTwoPortsSpeakFromTheOneWhoseAddressIsNearer) {
  fabric::Topology topology;
  topology.hosts = {fabric::make_host("h1", 1, 2), fabric::make_host("h2", 2, 1)};
  topology.switches = {
      {.name = "s1", .port_count = 4}
  };
  for (std::uint8_t i = 0; i < 4; ++i) {
    const bool is_first = i < 2;
    const fabric::EndPoint end{fabric::NodeKind::Host, is_first ? 0U : 1U,
                               static_cast<std::uint8_t>(i == 3 ? 1 : 0),
                               PortNumber{static_cast<std::uint8_t>(i == 1 ? 2 : 1)}};
    topology.links.push_back({
        .a = end,
        .b = {fabric::NodeKind::Switch, 0, 0, PortNumber{static_cast<std::uint8_t>(i + 1)}},
        .rate_gbps = {},
        .delay = {}
    });
  }
  Hosts hosts{topology};
  const auto first = hosts.resolve("h2", "127.77.0.1");
  ASSERT_TRUE(first) << first.error().reason;
  EXPECT_EQ(first->source, ip("127.77.0.2"));
  const auto second = hosts.resolve("h2", "127.78.0.1");
  ASSERT_TRUE(second) << second.error().reason;
  EXPECT_EQ(second->source, ip("127.78.0.2"));
  EXPECT_EQ(port_of(second->port).value(), hosts.port("h2").value() + 1);
  EXPECT_NE(second->destination_gid, first->destination_gid);
}

TEST(HostServices, ReachHostsBehindSlowLinks) {
  fabric::Topology topology = star(2);
  ASSERT_TRUE(fabric::apply({.rate_gbps = 1, .delay = {}}, topology));
  Hosts hosts{topology};
  const auto found = hosts.resolve("h2", "127.77.0.1", Duration::seconds(5));
  EXPECT_TRUE(found) << found.error().reason;
}

TEST(HostServices, KnowTheAddressesThatTheTopologyGives) {
  fabric::Topology topology = star(2);
  topology.hosts[0].addresses = {*parse_interface_address("10.0.0.1/24")};
  topology.hosts[1].addresses = {*parse_interface_address("10.0.0.2/24")};
  Hosts hosts{topology};
  const auto found = hosts.resolve("h2", "10.0.0.1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->source, ip("10.0.0.2"));
}

TEST(HostServices, OfHostsThatComeAndGoComeAndGo) {
  Hosts hosts{star(3)};
  ASSERT_TRUE(hosts.resolve("h2", "127.77.0.3"));
  ASSERT_TRUE(hosts.fabric().change_node(
      {.action = NodeChange::Action::Remove, .name = "h3", .links = {}}, hosts.now));
  hosts.run_for(Duration::seconds(31));  // until it is asked again
  EXPECT_EQ(hosts.fabric().hosts().size(), 1U);
  EXPECT_FALSE(hosts.resolve("h2", "127.77.0.3"));
}

TEST(HostServices, RegisterServicesAndFindThem) {  // T-SA-5
  Hosts hosts{star(2)};
  wire::ServiceRecord record{.service_id = 0x1234,
                             .service_gid = hosts.gid("h1"),
                             .service_pkey = kDefaultPKey,
                             .service_lease = 2};
  constexpr std::uint64_t kKey = kComponent<wire::ServiceRecord, "ServiceID"> |
                                 kComponent<wire::ServiceRecord, "ServiceGID"> |
                                 kComponent<wire::ServiceRecord, "ServiceP_Key">;
  const auto ask = [&](std::string_view from, wire::MadMethod method, std::uint64_t mask) {
    std::optional<sa::Answer<std::vector<wire::ServiceRecord>>> told;
    const auto id =
        hosts.host(from)
            .sa(hosts.port(from))
            .query_service(
                method, record, mask, {},
                [&](sa::QueryId, const auto& answer, Instant) { told = answer; }, hosts.now);
    EXPECT_TRUE(id.has_value());
    hosts.run_for(Duration::milliseconds(50));
    return told.value();
  };
  EXPECT_TRUE(
      ask("h1", wire::MadMethod::Set, kKey | kComponent<wire::ServiceRecord, "ServiceLease">));
  constexpr std::uint64_t kId = kComponent<wire::ServiceRecord, "ServiceID">;
  const auto found = ask("h2", wire::MadMethod::Get, kId);
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->front().service_gid, hosts.gid("h1"));
  hosts.run_for(Duration::seconds(3));
  const auto over = ask("h2", wire::MadMethod::Get, kId);
  ASSERT_FALSE(over);
  EXPECT_TRUE(over.error().is_no_records());
  EXPECT_TRUE(ask("h1", wire::MadMethod::Set, kKey));
  EXPECT_TRUE(ask("h1", wire::MadMethod::Delete, kKey));
  const auto deleted = ask("h2", wire::MadMethod::Get, kId);
  ASSERT_FALSE(deleted);
  EXPECT_TRUE(deleted.error().is_no_records());
}

/// The kernel side of h2 listens for ports that go out of service.
class OutOfService : public ::testing::Test {
 protected:
  OutOfService() {
    EXPECT_TRUE(hosts.host("h2")
                    .sa(hosts.port("h2"))
                    .subscribe(
                        wanted,
                        [this](sa::SubscriptionId, const wire::SaNotice& notice, Instant) {
                          traps.push_back(notice.notice.trap_number);
                        },
                        hosts.now));
    hosts.run_for(Duration::seconds(1));
  }

  void unplug_h3() {
    hosts.set_plugged("h3", false);
    hosts.run_for(Duration::seconds(5));
  }

  Hosts hosts{star(3)};
  wire::InformInfo wanted{
      .lid_range_begin = kPermissiveLid,
      .is_generic = 1,
      .type = 0xFFFF,
      .trap_number = static_cast<std::uint16_t>(wire::Trap::GidOutOfService),
      .qpn = kQp1,
      .producer_type = 0xFF'FFFF,
  };
  std::vector<std::uint16_t> traps;
};

TEST_F(OutOfService, IsHeardOfPorts) {
  unplug_h3();
  EXPECT_EQ(traps, std::vector<std::uint16_t>{65});
}

/// Part of R-NL-8: SA knows subscriptions by the port, and takes a program's end as all agents'.
TEST_F(OutOfService, IsHeardOfAlthoughAProgramWantsToHearNoMore) {
  mad::ManagementInterface& gsi = hosts.host("h2").gsi(hosts.port("h2"));
  const auto program = gsi.register_agent({.mgmt_class = wire::ManagementClass::SubnAdm,
                                           .class_version = wire::kSaClassVersion,
                                           .name = "program"},
                                          nullptr);
  ASSERT_TRUE(program);
  mad::MadMessage message;
  wire::SaHeader header;
  header.header.method = wire::MadMethod::Set;
  header.header.attribute_id = static_cast<std::uint16_t>(wire::SaAttribute::InformInfo);
  constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  wire::pack(header, std::span{message.mad}.first<kHeaderBytes>());
  copy_bytes(std::span{message.mad}.subspan(kHeaderBytes), wire::pack(wanted));  // subscribe: 0
  std::optional<std::uint16_t> status;
  const sa::LocalPort port = hosts.host("h2").local_port(hosts.port("h2"));
  ASSERT_TRUE(gsi.send(
      *program, {.lid = port.sm_lid, .sl = port.sm_sl, .pkey = port.management_pkey()}, message,
      {.timeout = Duration::milliseconds(500), .retries = 0},
      [&](const mad::Completion& done) {
        status = done.answer ? std::optional{done.answer->status()} : std::nullopt;
      },
      hosts.now));
  hosts.run_for(Duration::seconds(2));
  ASSERT_EQ(status, 0) << "SA has taken it back";
  unplug_h3();
  EXPECT_EQ(traps, std::vector<std::uint16_t>{65});
  EXPECT_TRUE(gsi.unregister_agent(*program, hosts.now));
}

/// Of h1's port in a group, by verbs and by its SA client.
class SharedGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    process_ = fabric().attach("h1", hosts_.now).value();
    using Record = wire::McMemberRecord;
    const Record wanted{.mgid = kMgid,
                        .qkey = QKey{1},
                        .pkey = kDefaultPKey,
                        .join_state = wire::JoinState::FullMember};
    constexpr std::uint64_t kMakes = kComponent<Record, "Q_Key"> | kComponent<Record, "TClass"> |
                                     kComponent<Record, "P_Key"> | kComponent<Record, "SL"> |
                                     kComponent<Record, "FlowLabel">;
    membership_ = sa().join(
                          wanted, kMakes,
                          [this](sa::MembershipId, const sa::Answer<Record>& told, Instant) {
                            ASSERT_TRUE(told);
                            mlid_ = told->mlid;
                          },
                          hosts_.now)
                      .value();
    hosts_.run_for(Duration::seconds(1));
    ASSERT_TRUE(fabric().join_group(process_, port(), kMgid, mlid_, hosts_.now));
    hosts_.run_for(Duration::seconds(1));
    ASSERT_TRUE(is_member());
  }

  Fabric& fabric() { return hosts_.fabric(); }
  PortIndex port() { return hosts_.port("h1"); }
  sa::SaClient& sa() { return hosts_.host("h1").sa(port()); }
  void leave_by_verbs() {
    EXPECT_TRUE(fabric().leave_group(process_, port(), kMgid, mlid_, hosts_.now));
    hosts_.run_for(Duration::seconds(1));
  }
  void leave_by_sa_client() {
    sa().leave(membership_, hosts_.now);
    hosts_.run_for(Duration::seconds(1));
  }
  /// The switch sends there what goes to the group.
  bool is_member() { return fabric().builder().multicast_mask(hosts_.node("s1"), mlid_, 0) != 0; }

  static constexpr Gid kMgid{0xFF12'401B'FFFF'0000, Guid{0xE601'0101}};
  Hosts hosts_{star(2)};
  ProcessId process_{};
  sa::MembershipId membership_{};
  Lid mlid_{};
};

TEST_F(SharedGroup, AQpThatLeavesIsNotTheLastWhileTheSaClientHoldsTheMembership) {
  leave_by_verbs();
  EXPECT_TRUE(is_member());
  leave_by_sa_client();
  EXPECT_FALSE(is_member());
}

TEST_F(SharedGroup, IsHeldForAProgramThatSendsToItUntilThatIsGone) {  // R-IPOIB-29
  HostServices& h2 = hosts_.host("h2");
  const PortIndex of_h2 = hosts_.port("h2");
  const auto states = [&] {
    hosts_.run_for(Duration::seconds(1));
    return h2.sa(of_h2).join_states_of(kMgid);
  };
  ASSERT_TRUE(h2.set_carried(
      {.port = of_h2, .pkey = kDefaultPKey, .addresses = {{ip("10.77.0.2"), 16}}, .ask = {}}));
  const std::vector<Gid> groups{kMgid};
  h2.hold_groups(of_h2, kDefaultPKey, groups, hosts_.now);
  EXPECT_EQ(states(), Flags{wire::JoinState::SendOnlyFullMember});
  const std::size_t memberships = h2.sa(of_h2).memberships();
  h2.hold_groups(of_h2, kDefaultPKey, groups, hosts_.now);
  EXPECT_EQ(h2.sa(of_h2).memberships(), memberships);
  h2.hold_groups(of_h2, kDefaultPKey, {}, hosts_.now);
  EXPECT_TRUE(states().empty());
  h2.hold_groups(of_h2, kDefaultPKey, groups, hosts_.now);
  EXPECT_FALSE(states().empty());
  h2.drop_carried(of_h2, kDefaultPKey, hosts_.now);
  EXPECT_TRUE(states().empty());
  h2.hold_groups(of_h2, kDefaultPKey, groups, hosts_.now);  // nobody carries anything
  EXPECT_TRUE(states().empty());
}

TEST_F(SharedGroup, AnSaClientThatLeavesIsNotTheLastWhileAQpIsAttached) {
  leave_by_sa_client();
  EXPECT_TRUE(is_member());
  leave_by_verbs();
  EXPECT_FALSE(is_member());
}

}  // namespace
}  // namespace weft::node
