// RDMA-CM between hosts of a fabric: addresses and routes are resolved over the network, connection
// managers use QP1 (IBTA vol 1 annex A11).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "cm/rdma/port_table.h"
#include "cm/rdma/rdma_cm.h"
#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/host_services.h"
#include "node/testing/rdma_cm_hosts.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::node {
namespace {

using cm::ConnectionParameters;
using cm::PortSpace;
using cm::QpType;
using cm::RdmaCmEvent;
using cm::RdmaCmFailure;
using cm::RdmaCmId;
using enum cm::RdmaCmEventType;
using testing::address_of;
using testing::at;
using testing::Events;
using testing::first;
using ::testing::IsEmpty;
using testing::kPort;
using testing::kWaitLimit;
using testing::text;

struct RdmaCmTest : testing::RdmaCmHosts {};

TEST_F(RdmaCmTest, ConnectsHostsByIpAddressAndEndsBothSides) {
  listen(1, at(address_of(1)));
  const Connected ids = connect(2, 1, at(address_of(1)));
  const auto info = rdma(1).info(ids.server);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->device, "weft0");
  EXPECT_EQ(std::get<cm::IpEndpoint>(info->source), at(address_of(1)));
  EXPECT_EQ(std::get<cm::IpEndpoint>(info->destination).address, address_of(2));
  EXPECT_EQ(info->paths.size(), 1U);
  const auto rtr = rdma(2).qp_attributes(ids.client, verbs::QpState::Rtr);
  ASSERT_TRUE(rtr);
  EXPECT_EQ(rtr->attributes.dest_qpn, Qpn{0x222});
  const auto rts = rdma(1).qp_attributes(ids.server, verbs::QpState::Rts);
  ASSERT_TRUE(rts);
  EXPECT_EQ(rts->attributes.sq_psn, rtr->attributes.rq_psn);

  EXPECT_TRUE(rdma(2).disconnect(ids.client, now));
  expect(server, Disconnected);
  EXPECT_TRUE(rdma(1).disconnect(ids.server, now));  // the answer
  expect(client, Disconnected);
  expect(client, TimewaitExit);
}

TEST_F(RdmaCmTest, ReachesAListenerOnEveryAddressByIPv6Too) {
  listen(1, at(IpAddress::v6(0, 0)));
  connect(2, 1, at(address_of(1)));
  connect(3, 1, at(IpAddress::v6(0xFD77'0000'0000'0000, 1)));
}

TEST_F(RdmaCmTest, TheLoopbackAddressIsTheOwnHost) {
  listen(1, at(IpAddress::v4(0x7F00'0001)));
  connect(1, 1, at(IpAddress::v4(0x7F00'0001)));
  connect(2, 1, at(address_of(1)));  // which others know it by
}

/// As in a kernel: binding to "localhost" selects no device (libfabric relies on it).
TEST_F(RdmaCmTest, ALoopbackAddressNamesNoPortAndTheHostsOwnDoes) {
  for (const IpAddress& address : {IpAddress::v4(0x7F00'0001), IpAddress::v6(0, 1)}) {
    EXPECT_EQ(rdma(1).info(listen(1, at(address)))->device, "") << to_string(address);
  }
  EXPECT_EQ(rdma(1).info(listen(1, at(address_of(1), kPort + 1)))->device, "weft0");
}

TEST_F(RdmaCmTest, IsRejectedWhereNobodyListens) {
  make(1, server);
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  EXPECT_EQ(expect(client, Rejected).status, 8);  // invalid service id
}

TEST_F(RdmaCmTest, TellsAConsumersRejectWithItsPrivateData) {
  listen(1, at(address_of(1)));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  const RdmaCmEvent request = expect(server, ConnectRequest);
  EXPECT_TRUE(rdma(1).reject(request.id, 0, text("no"), now));
  const RdmaCmEvent rejected = expect(client, Rejected);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(first(rejected.parameters.private_data, 2), text("no"));
}

TEST_F(RdmaCmTest, AnAddressThatNobodyHasEndsInATimeout) {
  const RdmaCmId id = make(2, client);
  EXPECT_TRUE(
      rdma(2).resolve_address(id, {.destination = at(address_of(99)), .timeout = kWaitLimit}, now));
  EXPECT_EQ(expect(client, AddressError).failure, RdmaCmFailure::TimedOut);
}

TEST_F(RdmaCmTest, AListenersIdThatIsDestroyedTellsItsPeers) {
  const RdmaCmId listener = listen(1, at(address_of(1)));
  const Connected ids = connect(2, 1, at(address_of(1)));
  EXPECT_TRUE(rdma(1).destroy(ids.server, now));
  expect(client, Disconnected);
  EXPECT_TRUE(rdma(1).destroy(listener, now));
  EXPECT_EQ(rdma(1).size(), 0U);
}

/// Of a host that is removed: what a kernel tells of a device that goes.
TEST_F(RdmaCmTest, AHostThatGoesTellsItsProgramsAndThePeersOfTheirConnections) {
  const RdmaCmId listener = listen(3, at(IpAddress::v4(0)));
  const Connected ids = connect(2, 3, at(address_of(3)));
  make(3, server);  // bound to nothing: hears nothing
  ASSERT_TRUE(fabric->change_node(*read_node_change("remove h3 force"), now));
  ASSERT_EQ(server.waiting.size(), 2U);
  EXPECT_EQ(server.waiting[0].type, DeviceRemoval);
  EXPECT_EQ(server.waiting[0].id, listener);
  EXPECT_EQ(server.waiting[1].type, DeviceRemoval);
  EXPECT_EQ(server.waiting[1].id, ids.server);
  EXPECT_EQ(server.waiting[1].context, 77U);
  ASSERT_EQ(client.waiting.size(), 1U);
  EXPECT_EQ(client.waiting[0].type, Disconnected);
  EXPECT_EQ(client.waiting[0].id, ids.client);
}

TEST_F(RdmaCmTest, ResolvesADatagramService) {
  listen(1, at(address_of(1)), PortSpace::Udp, QpType::Ud);
  const RdmaCmId id = resolve(2, at(address_of(1)), PortSpace::Udp, QpType::Ud);
  const auto init = rdma(2).qp_attributes(id, verbs::QpState::Init);
  ASSERT_TRUE(init);
  EXPECT_EQ(init->attributes.qkey, QKey{0x0123'4567});
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}, .private_data = text("who")}, now));
  const RdmaCmEvent request = expect(server, ConnectRequest);
  EXPECT_EQ(first(request.parameters.private_data, 3), text("who"));
  const ConnectionParameters reply{.qpn = Qpn{0x333}};
  EXPECT_TRUE(rdma(1).accept(request.id, &reply, now));
  const RdmaCmEvent established = expect(client, Established);
  EXPECT_EQ(established.parameters.qpn, Qpn{0x333});
  EXPECT_EQ(established.parameters.qkey, QKey{0x0123'4567});
  EXPECT_NE(established.address.dlid, Lid{});
}

TEST_F(RdmaCmTest, ADatagramServiceThatNobodyOffersIsUnreachable) {
  make(1, server);
  const RdmaCmId id = resolve(2, at(address_of(1)), PortSpace::Udp, QpType::Ud);
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  EXPECT_EQ(expect(client, Unreachable).status, 1);  // SIDR: not supported
}

/// perftest's UD connections: their first is of TCP's port space.
TEST_F(RdmaCmTest, ADatagramServiceOnThePortOfAListenerThatClosedIsWaitedFor) {
  const RdmaCmId listener = listen(1, at(address_of(1)));
  const RdmaCmId id = resolve(2, at(address_of(1)), PortSpace::Udp, QpType::Ud);
  EXPECT_TRUE(rdma(1).destroy(listener, now));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  run_for(Duration::milliseconds(500));
  EXPECT_THAT(client.waiting, IsEmpty());
  listen(1, at(address_of(1)), PortSpace::Udp, QpType::Ud);
  expect(server, ConnectRequest);
}

TEST_F(RdmaCmTest, MembersOfAnIpGroupGetOneMlid) {
  const auto join = [this](std::uint32_t host) {
    const RdmaCmId id = make(host, client, PortSpace::Udp, QpType::Ud);
    EXPECT_TRUE(rdma(host).bind(id, at(address_of(host), 0), now));
    const auto group = rdma(host).join(id, at(IpAddress::v4(0xEF01'0101), 0), false, 9, now);
    EXPECT_TRUE(group) << group.error().reason;
    const RdmaCmEvent joined = expect(client, MulticastJoin);
    EXPECT_EQ(joined.context, 9U);
    EXPECT_EQ(joined.parameters.qpn, kMulticastQpn);
    return joined.address.dlid;
  };
  const Lid mlid = join(1);
  EXPECT_TRUE(mlid.is_multicast());
  EXPECT_EQ(join(2), mlid);
}

TEST_F(RdmaCmTest, AFirstPacketStandsForTheRtuThatItOvertook) {  // R-RVT-16, T-CM-12
  listen(1, at(address_of(1)));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  const RdmaCmEvent request = expect(server, ConnectRequest);
  const ConnectionParameters reply{.qpn = Qpn{0x222}};
  EXPECT_TRUE(rdma(1).accept(request.id, &reply, now));
  EXPECT_TRUE(rdma(1).set_context(request.id, 1));
  rdma(1).communication_established(Qpn{0x222}, now);
  expect(server, Established);
}

TEST_F(RdmaCmTest, ARequestThatItsListenerHasNoRoomForComesAgain) {
  listen(1, at(address_of(1)));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  server.is_full = true;
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  expect(server, ConnectRequest);
  server.is_full = false;
  expect(server, ConnectRequest);
  EXPECT_THAT(client.waiting, IsEmpty());
}

/// As perftest -R does between its two connections.
TEST_F(RdmaCmTest, WhoListensAnewIsAskedWhatCameMeanwhile) {
  const RdmaCmId listener = listen(1, at(address_of(1)));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(1).destroy(listener, now));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  run_for(Duration::milliseconds(10));
  EXPECT_THAT(client.waiting, IsEmpty());
  listen(1, at(address_of(1)));
  expect(server, ConnectRequest);
}

TEST_F(RdmaCmTest, WhoDoesNotComeBackToListenIsNotWaitedForLong) {
  const RdmaCmId listener = listen(1, at(address_of(1)));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(1).destroy(listener, now));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  run_for(Duration::milliseconds(501));
  EXPECT_EQ(expect(client, Rejected).status, 8);
}

TEST_F(RdmaCmTest, WhoAsksForAPortThatWasJustBoundWaitsUntilItListens) {
  const RdmaCmId listener = make(1, server);
  EXPECT_TRUE(rdma(1).bind(listener, at(IpAddress::v4(0)), now));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  run_for(Duration::milliseconds(1));
  EXPECT_THAT(client.waiting, IsEmpty());
  EXPECT_TRUE(rdma(1).listen(listener, 0, now));
  expect(server, ConnectRequest);
}

TEST_F(RdmaCmTest, WhoAsksForAPortThatIsOnlyBoundHearsSoInTheEnd) {
  const RdmaCmId bound = make(1, server);
  EXPECT_TRUE(rdma(1).bind(bound, at(IpAddress::v4(0)), now));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{5}}, now));
  EXPECT_EQ(expect(client, Rejected).status, 8);  // invalid service id
}

TEST_F(RdmaCmTest, CallsInAWrongStateChangeNothing) {
  const RdmaCmId id = make(1, client);
  EXPECT_FALSE(rdma(1).resolve_route(id, kWaitLimit, now));
  EXPECT_FALSE(rdma(1).connect(id, {}, now));
  EXPECT_FALSE(rdma(1).accept(id, nullptr, now));
  EXPECT_FALSE(rdma(1).disconnect(id, now));
  EXPECT_FALSE(rdma(1).bind(id, at(address_of(2)), now));  // another host's
  EXPECT_TRUE(rdma(1).bind(id, at(address_of(1)), now));
  EXPECT_FALSE(rdma(1).bind(id, at(address_of(1)), now));
  EXPECT_THAT(client.waiting, IsEmpty());
}

/// Path queries that SA receives from host 2.
struct QualityOfService : RdmaCmTest {
  struct Wish {
    std::uint32_t qos_class{};
    std::uint32_t traffic_class{};
    bool operator==(const Wish&) const = default;
  };
  std::uint64_t service_asked{};  // by the last query; 0: by no service
  [[nodiscard]] Wish wish(const IpAddress& destination, std::uint8_t type_of_service,
                          const cm::SocketAddress& source = {}) {
    Wish asked;
    auto& gsi = fabric->hosts().host(node(2), now).gsi(fabric->builder().node(node(2)).first_port);
    const auto snooper = gsi.add_snooper([&](auto, const mad::MadAddress&, ByteSpan mad) {
      const auto header = wire::parse<wire::SaHeader>(mad);
      if (header && header->header.method == wire::MadMethod::Get &&
          header->header.attribute_id ==
              static_cast<std::uint16_t>(wire::SaAttribute::PathRecord)) {
        constexpr std::uint64_t kQosClass = wire::kComponent<wire::PathRecord, "QoSClass">;
        constexpr std::uint64_t kTClass = wire::kComponent<wire::PathRecord, "TClass">;
        const auto path = wire::parse<wire::PathRecord>(mad.subspan(wire::kSizeOf<wire::SaHeader>));
        asked.qos_class = (header->component_mask & kQosClass) != 0 ? path->qos_class : 0;
        asked.traffic_class = (header->component_mask & kTClass) != 0 ? path->tclass : 0;
        constexpr std::uint64_t kServiceId = wire::kComponent<wire::PathRecord, "ServiceID8MSB"> |
                                             wire::kComponent<wire::PathRecord, "ServiceID56LSB">;
        service_asked =
            (header->component_mask & kServiceId) == kServiceId ? path->service_id() : 0;
      }
    });
    const RdmaCmId id = make(2, client);
    EXPECT_TRUE(rdma(2).set_option(id, cm::RdmaCmOption::TypeOfService, type_of_service));
    EXPECT_TRUE(rdma(2).resolve_address(
        id, {.source = source, .destination = at(destination), .timeout = kWaitLimit}, now));
    expect(client, AddressResolved);
    EXPECT_TRUE(rdma(2).resolve_route(id, kWaitLimit, now));
    expect(client, RouteResolved);
    EXPECT_EQ(rdma(2).info(id)->paths.at(0).traffic_class, asked.traffic_class);
    gsi.remove_snooper(snooper);
    return asked;
  }
};

TEST_F(QualityOfService, TheQueryNamesTheServiceOfTheDestinationsPort) {  // annex A11
  static_cast<void>(wish(address_of(1), 0));
  EXPECT_EQ(service_asked, cm::service_id_of(cm::PortSpace::Tcp, at(address_of(1))));
}

TEST_F(QualityOfService, OfIPv4IsTheQosClassThatSaIsAskedFor) {
  EXPECT_EQ(wish(address_of(1), 0), Wish{});
  EXPECT_EQ(wish(address_of(1), 0x28), (Wish{.qos_class = 0x28}));
}

TEST_F(QualityOfService, OfIPv6IsTheTrafficClassThatSaIsAskedFor) {
  const IpAddress destination = IpAddress::v6(0xFD77'0000'0000'0000, 1);
  const cm::IpEndpoint source{.address = IpAddress::v6(0, 0), .flow_info = 0x0481'2345};
  EXPECT_EQ(wish(destination, 0), Wish{});
  EXPECT_EQ(wish(destination, 0x28), (Wish{.traffic_class = 0x28}));
  EXPECT_EQ(wish(destination, 0x28, source), (Wish{.traffic_class = 0x48}));  // the source's counts
}

/// Rejects every request for a service with a redirection.
class Redirector final : public cm::CmObserver {
 public:
  Redirector(cm::ConnectionManager& manager, wire::RejectReason reason,
             std::vector<std::byte> words)
      : manager_(manager), reason_(reason), words_(std::move(words)) {}
  ~Redirector() override { EXPECT_TRUE(manager_.destroy(listener_, Instant{})); }
  void listen(std::uint64_t service_id) {
    listener_ = manager_.create(*this).value();
    ASSERT_TRUE(manager_.listen(listener_, {.service_id = service_id}));
  }
  cm::Handled handle(cm::CmId id, const cm::CmEvent& event, Instant now) override {
    if (event.type == cm::CmEventType::ReqReceived) {
      paths.push_back(std::get<cm::ReqReceived>(event.details).primary);
      EXPECT_TRUE(
          manager_.send_rej(id, {.reason = reason_, .additional_information = words_}, now));
    }
    return cm::Handled::Keep;
  }
  std::vector<cm::Path> paths;  // requested paths

 private:
  cm::ConnectionManager& manager_;
  wire::RejectReason reason_;
  std::vector<std::byte> words_;
  cm::CmId listener_{};
};

struct Redirection : RdmaCmTest {
  [[nodiscard]] Gid gid(std::uint32_t host) const {
    return fabric->builder().gids(fabric->builder().node(node(host)).first_port).front();
  }
  [[nodiscard]] Lid lid(std::uint32_t host) const {
    return fabric->builder().port(fabric->builder().node(node(host)).first_port).lid;
  }
  static std::vector<std::byte> words(const wire::ClassPortInfo& info) {
    const auto octets = wire::pack(info);
    return {octets.begin(), octets.end()};
  }
  /// At h1, on the port of listen().
  Redirector& redirector(wire::RejectReason reason, const std::vector<std::byte>& words) {
    redirectors_.push_back(std::make_unique<Redirector>(
        fabric->hosts().host(node(1), now).connections(), reason, words));
    redirectors_.back()->listen(cm::service_id_of(PortSpace::Tcp, at(address_of(1))));
    return *redirectors_.back();
  }
  /// From h2 to h1, which sends it to h3.
  void expect_connection_to_h3() {
    listen(3, at(IpAddress::v4(0)));
    const RdmaCmId id = resolve(2, at(address_of(1)));
    EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{0x111}, .private_data = text("hello")}, now));
    const RdmaCmEvent request = expect(server, ConnectRequest);
    EXPECT_EQ(first(request.parameters.private_data, 5), text("hello"));
    const ConnectionParameters reply{.qpn = Qpn{0x222}};
    EXPECT_TRUE(rdma(3).accept(request.id, &reply, now));
    EXPECT_TRUE(rdma(3).set_context(request.id, 77));
    expect(client, ConnectResponse);
    EXPECT_TRUE(rdma(2).accept(id, nullptr, now));
    expect(server, Established);
    EXPECT_EQ(rdma(2).qp_attributes(id, verbs::QpState::Rtr)->attributes.address.dlid, lid(3));
    EXPECT_EQ(rdma(2).info(id)->dgid, gid(3));
  }

  void TearDown() override { redirectors_.clear(); }

  std::vector<std::unique_ptr<Redirector>> redirectors_;
};

TEST_F(Redirection, ToAnotherPortAndItsCmIsFollowedByTheActiveSide) {  // REJ 24
  redirector(wire::RejectReason::PortAndCmRedirection,
             words({.redirect_gid = gid(3), .redirect_lid = lid(3), .redirect_qp = kQp1}));
  expect_connection_to_h3();
}

TEST_F(Redirection, ByLidAloneKeepsTheGid) {
  redirector(wire::RejectReason::PortAndCmRedirection, words({.redirect_lid = lid(3)}));
  listen(3, at(IpAddress::v4(0)));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{0x111}}, now));
  // h3 does not have the GID of h1, which the request contains.
  EXPECT_EQ(expect(client, Rejected).status,
            static_cast<std::uint8_t>(wire::RejectReason::InvalidGid));
}

TEST_F(Redirection, ToAnotherPortAsksTheSameCm) {  // REJ 25
  const auto octets = gid(3).octets();
  const std::vector<std::byte> gid_alone{octets.begin(), octets.end()};
  for (const auto& told : {words({.redirect_gid = gid(3)}), gid_alone}) {
    Redirector& asked = redirector(wire::RejectReason::PortRedirection, told);
    const RdmaCmId id = resolve(2, at(address_of(1)));
    EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{0x111}}, now));
    // h1 does not have the GID of h3, which the request contains.
    EXPECT_EQ(expect(client, Rejected).status,
              static_cast<std::uint8_t>(wire::RejectReason::InvalidGid));
    EXPECT_EQ(asked.paths.size(), 1U);
    redirectors_.clear();
  }
}

TEST_F(Redirection, RoundAndRoundEndsInTheReject) {
  Redirector& here = redirector(wire::RejectReason::PortAndCmRedirection,
                                words({.redirect_gid = gid(1), .redirect_lid = lid(1)}));
  const RdmaCmId id = resolve(2, at(address_of(1)));
  EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{0x111}}, now));
  EXPECT_EQ(expect(client, Rejected).status, 24);
  EXPECT_EQ(here.paths.size(), 4U);  // the limit is three
}

TEST_F(Redirection, ToNowhereIsTheReject) {
  const std::vector<std::vector<std::byte>> bad{
      {},
      std::vector<std::byte>(71),
      words({}
      ),
      words({.redirect_gid = Gid{0xFF12'0000'0000'0000, Guid{1}}, .redirect_lid = lid(3)}
      ),
      words({.redirect_gid = Gid{kDefaultGidPrefix, Guid{0x9999}}}
      ),
  };
  for (const auto& each : bad) {
    redirector(wire::RejectReason::PortAndCmRedirection, each);
    const RdmaCmId id = resolve(2, at(address_of(1)));
    EXPECT_TRUE(rdma(2).connect(id, {.qpn = Qpn{0x111}}, now));
    EXPECT_EQ(expect(client, Rejected).status, 24) << each.size();
    redirectors_.clear();
  }
}

}  // namespace
}  // namespace weft::node
