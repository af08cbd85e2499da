#include "sa/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sa/testing/link.h"
#include "wire/ipoib/message.h"

namespace weft::sa {
namespace {

using ::testing::HasSubstr;
using testing::Host;
using testing::ip;
using testing::Link;
using testing::Reported;
using testing::with_prefix;

/// Answers by hand.
struct FakeSource final : AddressSource {
  std::optional<QuestionId> ask_address(std::uint32_t interface_index, const IpAddress& address,
                                        GidDone done, Instant /*now*/) override {
    EXPECT_EQ(interface_index, 0U);
    if (!is_there) {
      return std::nullopt;
    }
    asked.push_back(address);
    waiting.emplace(QuestionId{static_cast<std::uint32_t>(asked.size())}, std::move(done));
    return QuestionId{static_cast<std::uint32_t>(asked.size())};
  }
  void cancel(QuestionId question) override { EXPECT_EQ(waiting.erase(question), 1U); }
  void answer(const std::optional<Gid>& gid) {
    const auto next = waiting.extract(waiting.begin());
    next.mapped()(gid, Instant{});
  }

  bool is_there{true};
  std::vector<IpAddress> asked;
  std::map<QuestionId, GidDone> waiting;
};

class ResolverTest : public ::testing::Test {
 protected:
  ResolverTest() { link.run_for(Duration::milliseconds(20)); }

  Link link;
  Host& h1{link.add_host()};
  Host& h2{link.add_host()};
};

TEST_F(ResolverTest, FindsAnIpv4NeighborByArp) {  // RFC 4391 §9.2
  const auto found = link.resolve(h2, "127.77.0.1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->source, ip("127.77.0.2"));
  EXPECT_EQ(found->destination, ip("127.77.0.1"));
  EXPECT_EQ(found->port, PortKey{2});
  EXPECT_EQ(found->pkey, kDefaultPKey);
  EXPECT_EQ(found->source_gid, h2.gid);
  EXPECT_EQ(found->destination_gid, h1.gid);
  EXPECT_FALSE(found->is_own_host);
  ASSERT_EQ(link.sent.size(), 2U);
  EXPECT_EQ(link.sent[0].datagram.to.lid, testing::kLinkMlid);
  EXPECT_EQ(link.sent[0].datagram.to.qkey, testing::kLinkQKey);
  EXPECT_EQ(link.sent[1].datagram.to.lid, h2.lid);  // the answer goes to who asked
  EXPECT_EQ(link.sent[1].datagram.to.qp, Qpn{0x102});
}

TEST_F(ResolverTest, FindsAnIpv6NeighborBySolicitation) {  // RFC 4391 §9.3
  const auto found = link.resolve(h2, "fd77::1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->source, ip("fd77::2"));
  EXPECT_EQ(found->destination_gid, h1.gid);
}

TEST_F(ResolverTest, TakesAMappedAddressForItsIpv4Address) {
  const auto found = link.resolve(h2, "::ffff:127.77.0.1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->destination, ip("::ffff:127.77.0.1"));
  EXPECT_EQ(found->destination_gid, h1.gid);
}

TEST_F(ResolverTest, AsksOnceForWhatItKnowsAndAgainWhenItIsOld) {
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  EXPECT_EQ(link.sent.size(), 2U);
  link.run_for(NeighborLimits{}.reachable);
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  EXPECT_EQ(link.sent.size(), 4U);
}

TEST_F(ResolverTest, AsksOnceForAllWhoWait) {
  std::vector<Reported> reported;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(h2.resolver.resolve({}, ip("127.77.0.1"), Duration::seconds(1),
                                    Link::into(reported), link.network.now));
  }
  link.run_for(Duration::milliseconds(5));
  EXPECT_EQ(reported.size(), 10U);
  EXPECT_EQ(link.sent.size(), 2U);
  EXPECT_EQ(h2.resolver.resolutions(), 0U);
}

constexpr InterfaceKey kCarried{.port = PortKey{1}};
constexpr Gid kNeighbor{0xFE80'0000'0000'0000, Guid{0x77}};

TEST_F(ResolverTest, HasAddressesThatAProgramCarries) {  // R-IPOIB-21
  const std::vector carried{with_prefix("10.77.0.1/16"), with_prefix("127.77.0.1/8")};
  h1.resolver.set_carried(kCarried, h1.sa, carried);
  ASSERT_TRUE(h1.resolver.find_own(ip("10.77.0.1")));
  EXPECT_EQ(h1.resolver.choose_source(ip("10.77.0.2"))->address, carried[0]);
  EXPECT_EQ(h1.resolver.own_addresses().size(), 3U);  // each once
  const auto own = link.resolve(h1, "10.77.0.1");
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->is_own_host);
  EXPECT_EQ(own->destination_gid, h1.gid);
  EXPECT_FALSE(link.resolve(h2, "10.77.0.1"));  // in no subnet of h2
  h1.resolver.set_carried(kCarried, h1.sa, {});
  EXPECT_FALSE(h1.resolver.find_own(ip("10.77.0.1")));
  EXPECT_TRUE(link.resolve(h1, "127.77.0.2"));  // its own it keeps
}

TEST_F(ResolverTest, AsksTheProgramForTheNeighborsOfItsInterfaces) {  // R-IPOIB-28
  const InterfaceKey child{.port = PortKey{1}, .pkey = PKey{0x8005}};
  h1.resolver.set_carried(kCarried, h1.sa, std::vector{with_prefix("10.77.0.1/16")});
  h1.resolver.set_carried(child, h1.sa, std::vector{with_prefix("10.85.0.1/16")});
  const auto until = link.network.now + Duration::seconds(1);
  std::vector<Reported> reported;
  for (const char* to : {"10.85.0.2", "10.85.0.2", "10.77.0.2"}) {
    ASSERT_TRUE(h1.resolver.resolve({}, ip(to), Duration::seconds(1), Link::into(reported),
                                    link.network.now));
  }
  const auto of_ib0 = h1.resolver.poll_question();
  ASSERT_TRUE(of_ib0);
  EXPECT_EQ(of_ib0->first, kCarried);
  EXPECT_EQ(of_ib0->second.address, ip("10.77.0.2"));
  const auto of_child = h1.resolver.poll_question();
  ASSERT_TRUE(of_child);
  EXPECT_EQ(of_child->first, child);
  EXPECT_EQ(of_child->second.address, ip("10.85.0.2"));
  EXPECT_EQ(of_child->second.until, until);
  EXPECT_FALSE(h1.resolver.poll_question());                     // one for both who wait
  h1.resolver.take_neighbor(child, ip("10.85.0.3"), kNeighbor);  // nobody has asked
  h1.resolver.take_neighbor(child, ip("10.85.0.2"), Gid{});
  h1.resolver.take_neighbor(child, ip("10.85.0.2"), kNeighbor);
  EXPECT_EQ(h1.resolver.deadline(), Instant{});
  link.run_for(Duration::milliseconds(1));
  ASSERT_EQ(reported.size(), 2U);
  for (const Reported& one : reported) {
    ASSERT_TRUE(one.outcome);
    EXPECT_EQ(one.outcome->pkey, PKey{0x8005});
    EXPECT_EQ(one.outcome->source, ip("10.85.0.1"));
    EXPECT_EQ(one.outcome->destination_gid, kNeighbor);
    EXPECT_FALSE(one.outcome->is_own_host);
  }
  // It is the program's to remember: whoever comes later asks it again.
  ASSERT_TRUE(h1.resolver.resolve({}, ip("10.85.0.2"), Duration::seconds(1), Link::into(reported),
                                  link.network.now));
  EXPECT_TRUE(h1.resolver.poll_question());
  EXPECT_TRUE(link.sent.empty());
}

TEST_F(ResolverTest, WaitsForAProgramNoLongerThanItIsThere) {  // R-IPOIB-28
  h1.resolver.set_carried(kCarried, h1.sa, std::vector{with_prefix("10.77.0.1/16")});
  const auto silent = link.resolve(h1, "10.77.0.2");
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().failure, ResolutionFailure::TimedOut);
  std::vector<Reported> reported;
  ASSERT_TRUE(h1.resolver.resolve({}, ip("10.77.0.2"), Duration::seconds(9), Link::into(reported),
                                  link.network.now));
  h1.resolver.set_carried(kCarried, h1.sa, {});
  link.run_for(Duration::milliseconds(1));
  ASSERT_EQ(reported.size(), 1U);
  ASSERT_FALSE(reported[0].outcome);
  EXPECT_EQ(reported[0].outcome.error().failure, ResolutionFailure::Down);
  h1.resolver.take_neighbor(kCarried, ip("10.77.0.2"), kNeighbor);  // too late
  EXPECT_FALSE(h1.resolver.poll_question());
}

TEST_F(ResolverTest, LeavesAnAddressToTheInterfaceThatHasIt) {  // R-IPOIB-21
  ASSERT_TRUE(h1.resolver.add_interface({.port = PortKey{9}}, Qpn{0x109}, h1.sa,
                                        {with_prefix("10.5.0.1/16")}, link.network.now));
  h1.resolver.set_carried(kCarried, h1.sa, std::vector{with_prefix("10.5.0.1/16")});
  EXPECT_EQ(h1.resolver.find_own(ip("10.5.0.1"))->interface.port, PortKey{9});
}

TEST_F(ResolverTest, GivesUpAnAddressThatNobodyHas) {
  const Instant start = link.network.now;
  const auto found = link.resolve(h2, "127.77.0.9", "0.0.0.0", Duration::seconds(2));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().failure, ResolutionFailure::TimedOut);
  EXPECT_THAT(found.error().reason, HasSubstr("127.77.0.9"));
  EXPECT_LE(link.network.now - start, Duration::milliseconds(2'010));
  EXPECT_GE(link.sent.size(), 3U);  // it was asked again
  EXPECT_LE(link.sent.size(), 8U);
  const std::size_t sent = link.sent.size();
  link.run_for(Duration::seconds(5));
  EXPECT_EQ(link.sent.size(), sent);  // and then no more
  EXPECT_EQ(h2.resolver.interface({.port = PortKey{2}})->neighbors().size(), 0U);
}

TEST_F(ResolverTest, FindsItsOwnHostWithoutAPacket) {
  for (const char* own : {"127.77.0.2", "127.0.0.1", "127.0.1.1"}) {
    const auto found = link.resolve(h2, own);
    ASSERT_TRUE(found) << found.error().reason;
    EXPECT_TRUE(found->is_own_host);
    EXPECT_EQ(found->source, ip("127.77.0.2"));
    EXPECT_EQ(found->destination, ip(own));
    EXPECT_EQ(found->destination_gid, h2.gid);
  }
  const auto found = link.resolve(h2, "::1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->source, ip("fd77::2"));
  EXPECT_TRUE(link.sent.empty());
}

TEST_F(ResolverTest, LoopbackMeansAnotherHostIfItIsToldSo) {  // WEFT_LOOPBACK
  h2.resolver.set_loopback_target(ip("127.77.0.1"));
  const auto found = link.resolve(h2, "127.0.0.1", "127.0.0.1");
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->destination_gid, h1.gid);
  EXPECT_EQ(found->source, ip("127.77.0.2"));
}

TEST_F(ResolverTest, SaysWhyThereIsNoWay) {
  const auto no_route = link.resolve(h2, "10.0.0.1");
  ASSERT_FALSE(no_route);
  EXPECT_EQ(no_route.error().failure, ResolutionFailure::NoRoute);
  const auto no_source = link.resolve(h2, "127.77.0.1", "127.77.0.1");
  ASSERT_FALSE(no_source);
  EXPECT_EQ(no_source.error().failure, ResolutionFailure::NoSuchSource);
  const auto mixed = link.resolve(h2, "127.77.0.1", "fd77::2");
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().failure, ResolutionFailure::NoSuchSource);
  for (const char* of_no_host : {"224.0.0.1", "0.0.0.0", "::", "ff02::1", "255.255.255.255"}) {
    const auto refused =
        h2.resolver.resolve({}, ip(of_no_host), Duration::seconds(1), {}, link.network.now);
    ASSERT_FALSE(refused) << of_no_host;
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  }
}

TEST_F(ResolverTest, AsksItsSourceForAddressesThatNoInterfaceLeadsTo) {  // RDMA_NL_LS IP_RESOLVE
  FakeSource source;
  h2.resolver.set_address_source(&source);
  std::vector<Reported> reported;
  const auto resolve = [&](const char* address) {
    return *h2.resolver.resolve({}, ip(address), Duration::seconds(1), Link::into(reported),
                                link.network.now);
  };
  const auto run = [&] { link.run_for(Duration::milliseconds(5)); };
  resolve("10.9.8.7");
  run();
  EXPECT_THAT(source.asked, ::testing::ElementsAre(ip("10.9.8.7")));
  EXPECT_TRUE(reported.empty());
  EXPECT_EQ(h2.resolver.resolutions(), 1U);
  source.answer(h1.gid);
  run();
  ASSERT_EQ(reported.size(), 1U);
  ASSERT_TRUE(reported[0].outcome);
  EXPECT_EQ(reported[0].outcome->destination, ip("10.9.8.7"));
  EXPECT_EQ(reported[0].outcome->destination_gid, h1.gid);
  EXPECT_EQ(reported[0].outcome->source, ip("127.77.0.2"));
  EXPECT_EQ(reported[0].outcome->source_gid, h2.gid);

  resolve("10.9.8.8");  // which it does not know
  source.answer(std::nullopt);
  run();
  EXPECT_EQ(reported.back().outcome.error().failure, ResolutionFailure::NoRoute);
  const ResolutionId cancelled = resolve("10.9.8.9");
  h2.resolver.cancel(cancelled, link.network.now);
  EXPECT_TRUE(source.waiting.empty());
  run();
  EXPECT_EQ(reported.back().outcome.error().failure, ResolutionFailure::Cancelled);
  source.is_there = false;
  resolve("10.9.8.7");
  run();
  EXPECT_EQ(reported.back().outcome.error().failure, ResolutionFailure::NoRoute);
  source.is_there = true;
  resolve("127.77.0.1");  // by ARP, as ever
  run();
  EXPECT_EQ(reported.back().outcome->destination_gid, h1.gid);
  resolve("10.9.8.7");
  h2.resolver.set_address_source(nullptr);  // it goes
  EXPECT_TRUE(source.waiting.empty());
  run();
  EXPECT_EQ(reported.back().outcome.error().failure, ResolutionFailure::NoRoute);
  EXPECT_EQ(source.asked.size(), 4U);
  EXPECT_EQ(h2.resolver.resolutions(), 0U);
}

TEST_F(ResolverTest, WaitsForItsPortAndSaysThatItIsDown) {
  link.set_active(h2, false);
  const auto down = link.resolve(h2, "127.77.0.1", "0.0.0.0", Duration::milliseconds(100));
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().failure, ResolutionFailure::Down);
  std::vector<Reported> reported;
  ASSERT_TRUE(h2.resolver.resolve({}, ip("127.77.0.1"), Duration::seconds(5), Link::into(reported),
                                  link.network.now));
  link.run_for(Duration::seconds(1));
  EXPECT_TRUE(reported.empty());
  link.set_active(h2, true);
  link.run_for(Duration::milliseconds(10));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_TRUE(reported[0].outcome.has_value());
}

TEST_F(ResolverTest, ForgetsItsNeighborsWhenItsPortGoesDown) {
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  link.set_active(h2, false);
  link.set_active(h2, true);
  link.run_for(Duration::milliseconds(10));
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  EXPECT_EQ(link.sent.size(), 4U);
}

TEST_F(ResolverTest, CallsEachHandlerOnceWhenCancelled) {
  std::vector<Reported> reported;
  const auto id = h2.resolver.resolve({}, ip("127.77.0.1"), Duration::seconds(1),
                                      Link::into(reported), link.network.now);
  h2.resolver.cancel(*id, link.network.now);
  h2.resolver.cancel(*id, link.network.now);
  EXPECT_TRUE(reported.empty());  // never from inside a call
  link.run_for(Duration::seconds(2));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].outcome.error().failure, ResolutionFailure::Cancelled);
  EXPECT_TRUE(link.sent.empty());
}

TEST_F(ResolverTest, DoesNotBelieveAnAnswerToAQuestionThatItDidNotAsk) {
  const auto claim = [&](const wire::IpoibHardwareAddress& hardware) {
    link.deliver(h2, h1,
                 {
                     .source_qp = Qpn{0x101},
                     .to = {.lid = h2.lid, .qp = Qpn{0x102}, .qkey = testing::kLinkQKey},
                     .payload = to_payload(wire::ArpMessage{.operation = wire::ArpOperation::Reply,
                                      .sender_hardware = hardware,
                                      .sender = ip("127.77.0.3"),
                                      .target_hardware = {},
                                      .target = ip("127.77.0.2")}
                       )
    });
  };
  claim({.qpn = Qpn{0x101}, .gid = h1.gid});
  Host& h3 = link.add_host();
  link.run_for(Duration::milliseconds(20));
  EXPECT_EQ(link.resolve(h2, "127.77.0.3")->destination_gid, h3.gid);
  claim({.qpn = Qpn{0x101}, .gid = h1.gid});  // the first answer stays
  EXPECT_EQ(link.resolve(h2, "127.77.0.3")->destination_gid, h3.gid);
  EXPECT_EQ(h2.resolver.interface({.port = PortKey{2}})->counters().untrusted_answers, 2U);
}

TEST_F(ResolverTest, DoesNotBelieveWhoNamesAnothersGid) {
  std::vector<Reported> reported;
  ASSERT_TRUE(h2.resolver.resolve({}, ip("127.77.0.9"), Duration::milliseconds(500),
                                  Link::into(reported), link.network.now));
  link.deliver(
      h2, h1,
      {
          .source_qp = Qpn{0x101},
          .to = {.lid = h2.lid,
                           .qp = Qpn{0x102},
                           .qkey = testing::kLinkQKey,
                           .global = mad::GlobalRoute{.dgid = h2.gid}},
          .payload = to_payload(wire::ArpMessage{
                           .operation = wire::ArpOperation::Reply,
                           .sender_hardware = {.qpn = Qpn{0x101}, .gid = Gid{kDefaultGidPrefix, Guid{0x66}}},
                           .sender = ip("127.77.0.9"),
                           .target_hardware = {},
                           .target = ip("127.77.0.2")}
            )
  });
  link.run_for(Duration::seconds(1));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_FALSE(reported[0].outcome.has_value());
}

TEST_F(ResolverTest, AnnouncesAMoveTwiceAndOthersForgetTheirPaths) {  // RFC 5227 §3
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  link.sent.clear();
  link.set_active(h1, false);
  h1.resolver.announce(PortKey{1}, link.network.now);
  link.run_for(Duration::milliseconds(20));
  EXPECT_TRUE(link.sent.empty());  // once it is up
  link.set_active(h1, true);
  link.run_for(Duration::seconds(10));
  ASSERT_EQ(link.sent.size(), 4U);  // its IPv4 and its IPv6 address, twice
  EXPECT_TRUE(std::ranges::all_of(
      link.sent, [](const auto& each) { return each.datagram.to.lid == testing::kLinkMlid; }));
  EXPECT_EQ(h1.resolver.interface({.port = PortKey{1}})->counters().announcements, 4U);
  EXPECT_EQ(h2.resolver.interface({.port = PortKey{2}})->counters().moves, 4U);
  EXPECT_EQ(h2.resolver.interface({.port = PortKey{2}})->counters().answers, 0U);
  link.sent.clear();
  ASSERT_TRUE(link.resolve(h2, "127.77.0.1"));
  EXPECT_TRUE(link.sent.empty());  // an address is as known as before
}

TEST_F(ResolverTest, ForgetsNoPathForWhoNamesAnothersGid) {
  link.deliver(
      h2, h1,
      {
          .source_qp = Qpn{0x101},
          .to = {.lid = testing::kLinkMlid,
                           .qp = kMulticastQpn,
                           .qkey = testing::kLinkQKey,
                           .global = mad::GlobalRoute{.dgid = wire::ipoib_broadcast_group(kDefaultPKey)}},
          .payload = to_payload(wire::ArpMessage{
                           .operation = wire::ArpOperation::Request,
                           .sender_hardware = {.qpn = Qpn{0x101}, .gid = Gid{kDefaultGidPrefix, Guid{0x66}}},
                           .sender = ip("127.77.0.9"),
                           .target_hardware = {},
                           .target = ip("127.77.0.9")}
            )
  });
  EXPECT_EQ(h2.resolver.interface({.port = PortKey{2}})->counters().moves, 0U);
}

TEST_F(ResolverTest, HearsOnlyItsOwnPartitionQueuePairGroupAndQKey) {
  const mad::Datagram good{
      .source_qp = Qpn{0x101},
      .to = {.lid = h2.lid, .qp = Qpn{0x102}, .qkey = testing::kLinkQKey},
      .payload = to_payload(wire::ArpMessage{.operation = wire::ArpOperation::Request,
                       .sender_hardware = {.gid = h1.gid},
                       .sender = ip("127.77.0.1"),
                       .target_hardware = {},
                       .target = ip("127.77.0.2")}
        )
  };
  const auto is_answered = [&](const mad::Datagram& datagram) {
    link.sent.clear();
    link.deliver(h2, h1, datagram);
    link.run_for(Duration::milliseconds(2));
    return !link.sent.empty();
  };
  EXPECT_TRUE(is_answered(good));
  mad::Datagram changed = good;
  changed.to.qkey = QKey{0x0B1C};
  EXPECT_FALSE(is_answered(changed));
  changed = good;
  changed.to.qp = Qpn{0x103};
  EXPECT_FALSE(is_answered(changed));
  changed = good;
  changed.to.pkey = PKey{0x8001};
  EXPECT_FALSE(is_answered(changed));
  changed = good;
  changed.to.qp = kMulticastQpn;
  changed.to.global = mad::GlobalRoute{
      .dgid = Gid{0xFF12'401B'FFFF'0000, Guid{1}}
  };
  EXPECT_FALSE(is_answered(changed));
  changed = good;
  changed.payload.resize(20);
  EXPECT_FALSE(is_answered(changed));
  EXPECT_EQ(h2.resolver.interface({.port = PortKey{2}})->counters().malformed, 1U);
}

TEST_F(ResolverTest, SaysToAProbeForDuplicatesThatTheAddressIsTaken) {  // RFC 4862 §5.4.4
  link.deliver(h2, h1,
               {
                   .source_qp = Qpn{0x101},
                   .to = {.lid = h2.lid, .qp = Qpn{0x102}, .qkey = testing::kLinkQKey},
                   .payload = to_payload(
                       wire::NeighborMessage{.type = wire::NeighborMessageType::Solicitation,
                                    .source = ip("::"),
                                    .destination = ip("ff02::1:ff00:2"),
                                    .target = ip("fd77::2"),
                                    .flags = {},
                                    .hardware = {}}
                     )
  });
  link.run_for(Duration::milliseconds(2));
  ASSERT_EQ(link.sent.size(), 1U);
  EXPECT_EQ(link.sent[0].datagram.to.qp, kMulticastQpn);
  const auto answer =
      std::get<wire::NeighborMessage>(wire::parse_ipoib(link.sent[0].datagram.payload).value());
  EXPECT_EQ(answer.destination, ip("ff02::1"));
  EXPECT_FALSE(answer.flags.has(wire::NeighborFlag::Solicited));
}

TEST(Resolver, MakesTheBroadcastGroupThatNobodyHasMade) {
  Link link;
  link.has_group = false;
  link.add_host();
  Host& h2 = link.add_host();
  EXPECT_TRUE(link.resolve(h2, "127.77.0.1"));
  EXPECT_TRUE(link.has_group);
}

TEST(Resolver, TriesAgainWhenItIsNotLetIn) {
  Link link;
  link.accepts_joins = false;
  link.add_host();
  Host& h2 = link.add_host();
  EXPECT_EQ(link.resolve(h2, "127.77.0.1").error().failure, ResolutionFailure::Down);
  link.accepts_joins = true;
  EXPECT_TRUE(link.resolve(h2, "127.77.0.1", "0.0.0.0", Duration::seconds(15)));
}

TEST(Resolver, AsksUntilItIsAnsweredOverALossyLink) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Link link{seed, 30};
    link.add_host();
    Host& h2 = link.add_host();
    EXPECT_TRUE(link.resolve(h2, "127.77.0.1", "0.0.0.0", Duration::seconds(30))) << seed;
  }
}

TEST(Resolver, ChoosesTheInterfaceThatSharesMostWithTheDestination) {
  Link link;
  Host& h1 = link.add_host({with_prefix("127.77.0.1/8"), with_prefix("10.0.0.1/16")});
  ASSERT_TRUE(h1.resolver.add_interface({.port = PortKey{9}}, Qpn{0x109}, h1.sa,
                                        {with_prefix("127.78.0.1/8"), with_prefix("10.0.5.1/24")},
                                        link.network.now));
  link.run_for(Duration::milliseconds(20));
  const auto source_for = [&](std::string_view destination) {
    const auto own = h1.resolver.choose_source(ip(destination));
    return own ? to_string(own->address.address) : "none";
  };
  EXPECT_EQ(source_for("127.77.0.2"), "127.77.0.1");
  EXPECT_EQ(source_for("127.78.0.2"), "127.78.0.1");
  EXPECT_EQ(source_for("10.0.5.9"), "10.0.5.1");
  EXPECT_EQ(source_for("10.0.4.9"), "10.0.0.1");
  EXPECT_EQ(source_for("10.1.0.1"), "none");
  EXPECT_EQ(h1.resolver.find_own(ip("::ffff:127.78.0.1"))->interface.port, PortKey{9});
  EXPECT_EQ(h1.resolver.own_addresses().size(), 4U);
  const auto between = link.resolve(h1, "127.78.0.1", "127.77.0.1");
  ASSERT_TRUE(between) << between.error().reason;
  EXPECT_EQ(between->port, PortKey{1});
  EXPECT_TRUE(between->is_own_host);
}

TEST(Resolver, RefusesInterfacesThatShareAnAddress) {
  Link link;
  Host& h1 = link.add_host();
  EXPECT_EQ(h1.resolver
                .add_interface({.port = PortKey{9}}, Qpn{1}, h1.sa, {with_prefix("127.77.0.1/8")},
                               link.network.now)
                .error()
                .code,
            ErrorCode::Exists);
  EXPECT_EQ(h1.resolver.add_interface({.port = PortKey{1}}, Qpn{1}, h1.sa, {}, link.network.now)
                .error()
                .code,
            ErrorCode::Exists);
}

TEST(Resolver, EndsWhatWaitsForAnInterfaceThatGoes) {
  Link link;
  Host& h1 = link.add_host();
  std::vector<Reported> reported;
  ASSERT_TRUE(h1.resolver.resolve({}, ip("127.77.0.9"), Duration::seconds(5), Link::into(reported),
                                  link.network.now));
  h1.resolver.remove_interface({.port = PortKey{1}}, link.network.now);
  link.run_for(Duration::milliseconds(5));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].outcome.error().failure, ResolutionFailure::Down);
  EXPECT_FALSE(h1.resolver.find_own(ip("127.77.0.1")).has_value());
}

TEST(Resolver, HoldsNoMoreThanItsLimits) {
  Link link;
  Host& h1 = link.add_host(
      {
  },
      {.limits = {.resolutions = 3, .interface = {.neighbors = {.neighbors = 2}}}});
  const auto ask = [&](std::uint32_t host) {
    return h1.resolver.resolve(
        {}, IpAddress::v4(0x7F4D'0000 + host), Duration::seconds(1), [](auto&&...) {},
        link.network.now);
  };
  EXPECT_TRUE(ask(2));
  EXPECT_TRUE(ask(3));
  EXPECT_EQ(ask(4).error().code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(ask(3));
  EXPECT_EQ(ask(3).error().code, ErrorCode::OutOfMemory);
  link.run_for(Duration::seconds(2));
  EXPECT_TRUE(ask(4));
}

}  // namespace
}  // namespace weft::sa
