// Listeners (R-CML-1 to R-CML-5; T-CML-1 to T-CML-4), on the wire and in their table.

#include <gtest/gtest.h>

#include <set>

#include "cm/listeners.h"
#include "cm/testing/network.h"

namespace weft::cm {
namespace {

using wire::CmAttribute;
using wire::RejectReason;

/// Sends a REQ. Returns the reason of the REJ, or none if the server got the request.
std::optional<RejectReason> ask(TestCmNetwork& net, std::uint64_t service_id,
                                ByteSpan private_data = {}) {
  net.a().reported.clear();
  net.b().newest = {};
  const CmId id = net.a().make();
  auto request = net.request(service_id);
  request.private_data = private_data;
  EXPECT_TRUE(net.a().cm.send_req(id, request, net.now).has_value());
  net.run_shortly();
  std::optional<RejectReason> reason;
  if (const Reported* const reported = net.a().last(CmEventType::RejReceived)) {
    reason = std::get<RejReceived>(reported->event.details).reason;
  }
  EXPECT_EQ(reason.has_value(), net.b().newest == kNoCmId);
  EXPECT_TRUE(net.a().cm.destroy(id, net.now).has_value());
  net.run_shortly();
  return reason;
}

TEST(Listen, RefusesASecondListenerForTheSameServiceId) {  // T-CML-1
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const CmId second = net.b().make();
  const auto refused = net.b().cm.listen(second, {.service_id = 0x1000});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::Busy);
  EXPECT_EQ(net.b().state(second), State::Idle);  // and may be used again
  EXPECT_TRUE(net.b().cm.listen(second, {.service_id = 0x1001}).has_value());
  // Of two CAs each may have its own.
  const CmId other = net.b().make();
  EXPECT_FALSE(net.b().cm.listen(other, {.service_id = 0x1000, .ca_guid = Guid{7}}).has_value());
  EXPECT_TRUE(net.b().cm.listen(other, {.service_id = 0x2000, .ca_guid = Guid{7}}).has_value());
  EXPECT_TRUE(net.b()
                  .cm.listen(net.b().make(), {.service_id = 0x2000, .ca_guid = net.b().ca()})
                  .has_value());
  EXPECT_EQ(ask(net, 0x2000), std::nullopt);
}

TEST(Listen, TakesWhatItsMaskLetsThrough) {  // T-CML-2
  TestCmNetwork net;
  (void)net.b().listener(0x1000, 0xF000);
  EXPECT_EQ(ask(net, 0x1FFF), std::nullopt);
  EXPECT_EQ(ask(net, 0x2000), RejectReason::InvalidServiceId);
  const auto rej = message_of<wire::Rej>(net.last(CmAttribute::Rej)->mad);
  EXPECT_EQ(rej.reason, RejectReason::InvalidServiceId);
  EXPECT_EQ(rej.local_communication_id, 0U);
  const auto refused =
      net.b().cm.listen(net.b().make(), {.service_id = 0x1234, .service_mask = 0x0FFF});
  ASSERT_FALSE(refused.has_value());  // 0x1234 would be both's
  EXPECT_EQ(refused.error().code, ErrorCode::Busy);
}

TEST(Listen, AssignsServiceIdsOfItsOwn) {  // T-CML-3
  TestCmNetwork net;
  std::set<std::uint64_t> given;
  for (int i = 0; i < 10; ++i) {
    const auto service_id = net.b().cm.listen(net.b().make(), {.service_mask = 0xF0});
    ASSERT_TRUE(service_id.has_value());
    EXPECT_EQ(*service_id >> 56, 0x02U);
    EXPECT_TRUE(given.insert(*service_id).second);
    EXPECT_EQ(ask(net, *service_id), std::nullopt);
  }
  const auto refused = net.b().cm.listen(net.b().make(), {.service_id = 0x0200'0000'0000'0007});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
}

TEST(Listen, IsSharedByInsertListenUntilTheLastDestroy) {  // T-CML-4, R-CML-3
  TestCmNetwork net;
  TestHost& b = net.b();
  const auto first = b.cm.insert_listen(b, 0x3000);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(b.cm.insert_listen(b, 0x3000), *first);
  EXPECT_EQ(b.cm.insert_listen(net.a(), 0x3000).error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(b.cm.destroy(*first, net.now).has_value());
  EXPECT_EQ(ask(net, 0x3000), std::nullopt);
  EXPECT_TRUE(b.cm.destroy(*first, net.now).has_value());
  EXPECT_EQ(ask(net, 0x3000), RejectReason::InvalidServiceId);
  EXPECT_EQ(b.cm.destroy(*first, net.now).error().code, ErrorCode::NotFound);
  (void)b.listener(0x4000);
  EXPECT_FALSE(b.cm.insert_listen(b, 0x4000).has_value());
}

std::vector<std::byte> octets(std::initializer_list<unsigned> values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

TEST(Listen, TellsListenersOfOneServiceIdApartByPrivateData) {
  TestCmNetwork net;
  TestHost& b = net.b();
  std::uint64_t context = 0;
  const auto listen = [&](std::vector<std::byte> value, std::vector<std::byte> mask) {
    const CmId id = b.make(++context);
    return b.cm.listen(id, {
                               .service_id = 0x1000, .match = {std::move(value), std::move(mask)}
    });
  };
  ASSERT_TRUE(listen({}, {}).has_value());
  ASSERT_TRUE(listen(octets({4, 10}), octets({0xFF, 0xFF})).has_value());
  ASSERT_TRUE(listen(octets({4, 11}), octets({0xFF, 0xFF})).has_value());
  EXPECT_EQ(listen(octets({0, 10}), octets({0, 0xFF})).error().code, ErrorCode::Busy);
  EXPECT_EQ(listen(octets({0}), octets({0})).error().code, ErrorCode::Busy);
  EXPECT_EQ(listen(octets({0}), octets({})).error().code, ErrorCode::InvalidArgument);
  const auto taker = [&](std::initializer_list<unsigned> data) {
    EXPECT_EQ(ask(net, 0x1000, octets(data)), std::nullopt);
    return b.last(CmEventType::ReqReceived)->event.context;
  };
  EXPECT_EQ(taker({4, 10, 1}), 2U);
  EXPECT_EQ(taker({4, 11, 2}), 3U);
  EXPECT_EQ(taker({4, 12}), 1U);
}

TEST(Listen, RejectsForWantOfResourcesAboveTheBacklog) {
  TestCmNetwork net;
  TestHost& b = net.b();
  const CmId listener = b.make();
  ASSERT_TRUE(b.cm.listen(listener, {.service_id = 0x1000, .backlog = 2}).has_value());
  for (unsigned i = 0; i < 3; ++i) {
    auto request = net.request();
    request.qpn = Qpn{100 + i};
    ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  }
  net.run_shortly();
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 2U);
  ASSERT_EQ(net.a().count(CmEventType::RejReceived), 1U);
  EXPECT_EQ(std::get<RejReceived>(net.a().last(CmEventType::RejReceived)->event.details).reason,
            RejectReason::NoResources);
  // One that is brought to an end makes room.
  ASSERT_TRUE(b.cm.destroy(b.newest, net.now).has_value());
  net.run_shortly();
  auto request = net.request();
  request.qpn = Qpn{200};
  ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 3U);
}

TEST(Listen, LeavesWhatIsAboveTheBacklogUnansweredWhereThatIsWanted) {
  TestCmNetwork net;
  TestHost& b = net.b();
  ASSERT_TRUE(
      b.cm.listen(b.make(), {.service_id = 0x1000, .backlog = 1, .drops_excess_requests = true})
          .has_value());
  for (unsigned i = 0; i < 2; ++i) {
    auto request = net.request();
    request.qpn = Qpn{100 + i};
    ASSERT_TRUE(net.a().cm.send_req(net.a().make(), request, net.now).has_value());
  }
  net.run_shortly();
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 1U);
  EXPECT_EQ(net.count(CmAttribute::Rej), 0U);
  // Once there is room, the peer's next retry succeeds.
  ASSERT_TRUE(b.cm.destroy(b.newest, net.now).has_value());
  net.run_for(Duration::milliseconds(100));
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 2U);
}

TEST(Listen, DestroysItsUnreportedRequestsWithIt) {
  TestCmNetwork net;
  TestHost& b = net.b();
  const CmId doomed = b.listener(0x1000);
  (void)b.listener(0x2000);
  // The second request arrives while the first event is delivered; the handler then destroys the
  // listener.
  b.on_event = [&](CmId, const CmEvent& event, Instant now) {
    if (event.type == CmEventType::ReqReceived &&
        std::get<ReqReceived>(event.details).service_id == 0x2000) {
      for (const auto& sent : net.sent) {
        auto req = message_of<wire::Req>(sent.mad);
        req.service_id = 0x1000;
        req.local_qpn = Qpn{77};
        ++req.local_communication_id;
        b.gsi.handle_mad({.lid = sent.from}, make_mad(CmAttribute::Req, 1, req), now);
      }
      EXPECT_TRUE(b.cm.destroy(doomed, now).has_value());
    }
    return Handled::Keep;
  };
  EXPECT_EQ(ask(net, 0x2000), std::nullopt);
  EXPECT_EQ(b.count(CmEventType::ReqReceived), 1U);
  EXPECT_NE(net.last(CmAttribute::Rej), nullptr);
}

TEST(Listen, AsksEachListenerWhileRequestsToOthersAreUnanswered) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  (void)net.b().listener(0x2000);
  (void)net.b().listener(0x3000);
  EXPECT_EQ(ask(net, 0x1000), std::nullopt);
  EXPECT_EQ(ask(net, 0x2000), std::nullopt);
  EXPECT_EQ(ask(net, 0x3000), std::nullopt);
}

TEST(ListenerTable, FindsTheExactOneBeforeAMaskedOne) {  // R-CML-4
  // Their ids must not overlap, so each is found by its own; the order counts for CAs and data.
  ListenerTable table{4};
  ASSERT_TRUE(table.add({.id = CmId{1}, .service_id = 0x1000, .mask = 0xF000}).has_value());
  ASSERT_TRUE(table
                  .add({
                      .id = CmId{2},
                      .service_id = 0x1234,
                      .ca_guid = Guid{5},
                      .match = {octets({1}), octets({0xFF})}
  })
                  .has_value());
  const auto data = octets({1});
  EXPECT_EQ(table.find(0x1234, Guid{5}, data, QpType::Rc), CmId{2});
  EXPECT_EQ(table.find(0x1234, Guid{6}, data, QpType::Rc), CmId{1});
  EXPECT_EQ(table.find(0x1234, Guid{5}, {}, QpType::Rc), CmId{1});
  EXPECT_EQ(table.find(0x2234, Guid{5}, data, QpType::Rc), kNoCmId);
}

TEST(ListenerTable, HasOneForEachTypeOfQp) {  // RFC 4755 §3.5: one service ID for RC and UC
  ListenerTable table{4};
  ASSERT_TRUE(table.add({.id = CmId{1}, .service_id = 7, .qp_type = QpType::Rc}).has_value());
  ASSERT_TRUE(table.add({.id = CmId{2}, .service_id = 7, .qp_type = QpType::Uc}).has_value());
  EXPECT_EQ(table.find(7, {}, {}, QpType::Rc), CmId{1});
  EXPECT_EQ(table.find(7, {}, {}, QpType::Uc), CmId{2});
  EXPECT_EQ(table.find(7, {}, {}, QpType::Ud), kNoCmId);
  EXPECT_EQ(table.add({.id = CmId{3}, .service_id = 7, .qp_type = QpType::Uc}).error().code,
            ErrorCode::Busy);
  EXPECT_EQ(table.add({.id = CmId{3}, .service_id = 7}).error().code, ErrorCode::Busy);
  table.remove({.id = CmId{1}, .service_id = 7});
  EXPECT_EQ(table.find(7, {}, {}, QpType::Uc), CmId{2});
}

TEST(ListenerTable, HasRoomForManyAndALimitForMasks) {
  ListenerTable table{2};
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(table.add({.id = CmId{i + 1}, .service_id = i}).has_value());
  }
  EXPECT_EQ(table.find(77'777, {}, {}, QpType::Rc), CmId{77'778});
  const std::uint64_t high = std::uint64_t{1} << 40;
  ASSERT_TRUE(table.add({.id = CmId{200'000}, .service_id = high, .mask = ~std::uint64_t{0xFF}})
                  .has_value());
  EXPECT_EQ(table.add({.id = CmId{200'001}, .service_id = high * 2, .mask = ~std::uint64_t{0xF}})
                .error()
                .code,
            ErrorCode::OutOfMemory);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    table.remove({.id = CmId{i + 1}, .service_id = i});
  }
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.find(high + 3, {}, {}, QpType::Rc), CmId{200'000});
}

}  // namespace
}  // namespace weft::cm
