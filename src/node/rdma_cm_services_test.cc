// Services that users of RDMA-CM ask SA for (ServiceRecord, IBTA vol 1 §15.2.5.14), between hosts
// of a whole fabric.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "cm/rdma/rdma_cm.h"
#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/host_services.h"
#include "wire/mad/component_mask.h"

namespace weft::node {
namespace {

using cm::PortSpace;
using cm::QpType;
using cm::RdmaCmEvent;
using cm::RdmaCmFailure;
using cm::RdmaCmId;
using cm::ServicePlace;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum cm::RdmaCmEventType;
using Record = wire::ServiceRecord;

constexpr std::uint64_t kService = 0x10'0000'0000'1234;
constexpr Duration kWaitLimit = Duration::seconds(2);

struct Events final : cm::RdmaCmSink {
  bool take(const RdmaCmEvent& event) override {
    waiting.push_back(event);
    return true;
  }
  std::deque<RdmaCmEvent> waiting;
};

struct RdmaCmServices : ::testing::Test {
  void SetUp() override {
    auto made = Fabric::create(*fabric::generate_star(2), now);
    ASSERT_TRUE(made) << made.error().reason;
    fabric = std::move(*made);
  }
  [[nodiscard]] fabric::NodeIndex node(std::uint32_t host) const {
    return *fabric->builder().find_node("h" + std::to_string(host));
  }
  HostServices& host(std::uint32_t number) { return fabric->hosts().host(node(number), now); }
  cm::RdmaCm& rdma() { return host(2).rdma_cm(); }
  sa::SaClient& sa(std::uint32_t number) { return host(number).sa(host(number).ports().front()); }
  [[nodiscard]] Gid gid(std::uint32_t number) { return sa(number).port().gids.front(); }

  void run_for(Duration span) {
    for (const std::uint32_t number : {1U, 2U}) {
      static_cast<void>(host(number));
      fabric->hosts().wake(node(number));
    }
    const Instant end = now + span;
    while (now <= end) {
      while (fabric->run_management(now)) {
      }
      now = std::max(now, fabric->management_deadline());
    }
    now = end;
  }
  RdmaCmEvent next() {
    for (int i = 0; i < 200 && events.waiting.empty(); ++i) {
      run_for(Duration::milliseconds(50));
    }
    if (events.waiting.empty()) {
      ADD_FAILURE() << "no event";
      return {};
    }
    RdmaCmEvent event = std::move(events.waiting.front());
    events.waiting.pop_front();
    return event;
  }

  /// Host h1 offers a service.
  void offer(std::string_view name, std::uint64_t service_id) {
    run_for(Duration::seconds(1));
    Record record{.service_id = service_id, .service_gid = gid(1), .service_pkey = kDefaultPKey};
    copy_bytes(std::span{record.service_name}.first(name.size()), std::as_bytes(std::span{name}));
    constexpr std::uint64_t kMask =
        wire::kComponent<Record, "ServiceID"> | wire::kComponent<Record, "ServiceGID"> |
        wire::kComponent<Record, "ServiceP_Key"> | wire::kComponent<Record, "ServiceName">;
    bool is_known = false;
    ASSERT_TRUE(sa(1).query_service(
        wire::MadMethod::Set, record, kMask, {},
        [&](sa::QueryId, const auto& answer, Instant) { is_known = answer.has_value(); }, now));
    run_for(Duration::milliseconds(200));
    ASSERT_TRUE(is_known);
  }
  /// An id of h2, bound to its port.
  RdmaCmId bound() {
    run_for(Duration::seconds(1));
    const RdmaCmId id = *rdma().create(PortSpace::Ib, QpType::Rc, events, 5);
    EXPECT_TRUE(rdma().bind(id, cm::IbEndpoint{.gid = gid(2)}, now));
    return id;
  }

  Instant now{Duration::seconds(1)};
  std::unique_ptr<Fabric> fabric;
  Events events;
};

TEST_F(RdmaCmServices, AreFoundByNameAndByServiceId) {
  offer("echo", kService);
  const RdmaCmId id = bound();
  for (const cm::ServiceWish& wish : {cm::ServiceWish{.name = "echo"}, {.service_id = kService}}) {
    ASSERT_TRUE(rdma().resolve_service(id, wish, now));
    const RdmaCmEvent event = next();
    EXPECT_EQ(event.type, AddrinfoResolved);
    EXPECT_EQ(event.context, 5U);
    EXPECT_EQ(event.failure, RdmaCmFailure::None);
    EXPECT_THAT(
        *rdma().services(id),
        ElementsAre(ServicePlace{.service_id = kService, .gid = gid(1), .pkey = kDefaultPKey}));
  }
}

TEST_F(RdmaCmServices, ThatNobodyOffersAreAnErrorAndTheIdIsBoundAsBefore) {
  offer("echo", kService);
  const RdmaCmId id = bound();
  ASSERT_TRUE(rdma().resolve_service(id, {.name = "ech"}, now));
  const RdmaCmEvent event = next();
  EXPECT_EQ(event.type, AddrinfoError);
  EXPECT_EQ(event.failure, RdmaCmFailure::NoSuchService);
  EXPECT_THAT(*rdma().services(id), IsEmpty());
  EXPECT_TRUE(rdma().resolve_address(
      id, {.destination = cm::IbEndpoint{.gid = gid(1)}, .timeout = kWaitLimit}, now));
}

TEST_F(RdmaCmServices, AreAskedForOneAtATimeByAnIdThatIsBound) {
  const RdmaCmId unbound = *rdma().create(PortSpace::Ib, QpType::Rc, events, 1);
  EXPECT_FALSE(rdma().resolve_service(unbound, {.name = "echo"}, now));
  ASSERT_TRUE(rdma().bind(unbound, cm::IbEndpoint{}, now));  // to no port in particular
  EXPECT_FALSE(rdma().resolve_service(unbound, {.name = "echo"}, now));
  const RdmaCmId id = bound();
  EXPECT_FALSE(rdma().resolve_service(id, {.name = std::string(65, 'x')}, now));
  ASSERT_TRUE(rdma().resolve_service(id, {.name = std::string(64, 'x')}, now));
  const auto again = rdma().resolve_service(id, {.name = "echo"}, now);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().reason, "resolving a service is not for an id in ADDRINFO_QUERY");
  EXPECT_TRUE(rdma().destroy(id, now));
  run_for(Duration::seconds(1));
  EXPECT_THAT(events.waiting, IsEmpty());
}

}  // namespace
}  // namespace weft::node
