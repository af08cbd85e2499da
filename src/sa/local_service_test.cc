#include "sa/local_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "mad/testing/network.h"
#include "sa/sa_client.h"
#include "wire/mad/component_mask.h"

namespace weft::sa {
namespace {

namespace local = wire::local_service;
using Format = LocalServiceOptions::Format;
using local::DataMessage;
using wire::PathRecord;

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
constexpr Lid kOwnLid{1};
constexpr Lid kSaLid{2};
constexpr Lid kLidOfSa{7};         // what SA says
constexpr Lid kLidOfResolver{70};  // what the resolver says
const Gid kOwn{kDefaultGidPrefix, Guid{0x11}};
const Gid kOther{kDefaultGidPrefix, Guid{0x22}};
constexpr std::uint32_t kGmp = local::flags_wanted(local::PathUse::Gmp);

/// A resolver that does what a test says.
class ScriptedLink final : public LocalServiceLink {
 public:
  bool has_listeners() const override { return is_there; }
  bool multicast(ByteSpan datagram) override {
    asked.emplace_back(datagram.begin(), datagram.end());
    return takes;
  }

  std::optional<PathRecord> published(const PathQuery& wanted, Instant) const override {
    looked_for.push_back(wanted);
    return shown;
  }

  bool is_there{true};
  bool takes{true};
  std::optional<PathRecord> shown;
  mutable std::vector<PathQuery> looked_for;
  std::vector<std::vector<std::byte>> asked;
};

struct Ended {
  Answer<PathRecord> path;
  Instant at;
};

class LocalServiceTest : public ::testing::Test {
 protected:
  explicit LocalServiceTest(const LocalServiceOptions& options = {}) : service(link, options) {
    network.attach(kOwnLid, own_gsi);
    network.attach(kSaLid, sa_gsi);
    EXPECT_TRUE(sa_gsi.register_agent(
        mad::registration_of(wire::ManagementClass::SubnAdm,
                             {wire::MadMethod::Get, wire::MadMethod::GetTable}),
        &server));
    LocalPort port;
    port.lid = kOwnLid;
    port.state = verbs::PortState::Active;
    port.sm_lid = kSaLid;
    port.gids = {kOwn};
    port.pkeys = {kDefaultPKey};
    client.set_port(port, network.now);
    client.set_path_source(&service, {.device = "weft0", .number = 1});
  }

  void run_for(Duration span) {
    const Instant end = network.now + span;
    while (network.now < end) {
      network.run(std::min(network.now + Duration::milliseconds(1), end));
      service.handle_timeout(network.now);
      client.handle_timeout(network.now);
    }
  }

  QueryId resolve(const QueryOptions& options = {}) {
    const auto id = client.resolve_path(
        {.sgid = kOwn, .dgid = kOther}, options,
        [this](QueryId, const Answer<PathRecord>& path, Instant at) {
          ended.push_back({path, at});
        },
        network.now);
    EXPECT_TRUE(id.has_value());
    return id.value_or(QueryId{});
  }

  [[nodiscard]] wire::netlink::Message last_request() const {
    ByteSpan datagram = link.asked.back();
    return wire::netlink::take_message(datagram).value();
  }
  [[nodiscard]] std::uint32_t last_sequence() const { return last_request().header.sequence; }

  int say(const std::vector<std::byte>& octets, bool is_privileged = true) {
    ByteSpan datagram = octets;
    return service.receive(is_privileged, wire::netlink::take_message(datagram).value(),
                           network.now);
  }
  [[nodiscard]] static PathRecord path_of_resolver() {
    return {
        .dgid = kOther, .sgid = kOwn, .dlid = kLidOfResolver, .slid = kOwnLid, .reversible = true};
  }
  [[nodiscard]] static std::vector<std::byte> answer(std::uint32_t sequence,
                                                     std::uint32_t flags = kGmp,
                                                     const PathRecord& path = path_of_resolver()) {
    std::vector<std::byte> octets;
    local::append(octets, {.sequence = sequence}, local::ResolveAnswer{{{flags, path}}});
    return octets;
  }
  [[nodiscard]] static std::vector<std::byte> data_answer(std::uint32_t sequence,
                                                          const DataMessage& said) {
    std::vector<std::byte> octets;
    local::append(octets, {.sequence = sequence}, said);
    return octets;
  }

  mad::TestAgent server{[](mad::MadRequest& request) -> const mad::MadMessage* {
    auto path = *wire::parse<PathRecord>(ByteSpan{request.message.mad}.subspan(kHeaderBytes));
    path.dlid = kLidOfSa;
    copy_bytes(std::span{request.message.mad}.subspan(kHeaderBytes), wire::pack(path));
    return &request.message;
  }};
  mad::ManagementInterface own_gsi{mad::InterfaceKind::Gsi};
  mad::ManagementInterface sa_gsi{mad::InterfaceKind::Gsi};
  mad::TestNetwork network;
  ScriptedLink link;
  LocalService service;
  SaClient client{own_gsi};
  std::vector<Ended> ended;
};

struct LocalServiceInTheProposalsForm : LocalServiceTest {
  LocalServiceInTheProposalsForm() : LocalServiceTest({.format = Format::DataHeader}) {}
};

TEST_F(LocalServiceTest, IsAskedFirstAndSaIsNot) {  // R-SA-8, R-NL-1, R-NL-6
  resolve();
  ASSERT_EQ(link.asked.size(), 1U);
  EXPECT_TRUE(last_request().header.is_request());
  const auto request = local::parse_resolve_request(last_request().payload);
  ASSERT_TRUE(request.has_value()) << request.error().reason;
  EXPECT_EQ(request->device_name, "weft0");
  EXPECT_EQ(request->port, 1);
  EXPECT_EQ(request->use, local::PathUse::Gmp);
  EXPECT_EQ(request->dgid, kOther);
  EXPECT_EQ(request->sgid, kOwn);
  EXPECT_EQ(request->service_id, std::nullopt);
  EXPECT_EQ(request->pkey, std::nullopt);
  EXPECT_EQ(say(answer(last_sequence())), 0);
  run_for(Duration::milliseconds(2));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].path.value().dlid, kLidOfResolver);
  EXPECT_EQ(server.requests, 0);
  EXPECT_EQ(client.counters().local, 1U);
  EXPECT_EQ(service.counters().answered, 1U);
  EXPECT_EQ(service.questions(), 0U);
}

TEST_F(LocalServiceTest, TakesAPublishedPathWithoutAsking) {  // R-NL-1, R-NL-8
  link.shown = path_of_resolver();
  link.is_there = false;  // a table needs no listener
  int others = 0;
  resolve();
  const auto asked = client.resolve_path(
      {.sgid = kOwn, .dgid = kOther}, {}, [&](QueryId, const auto&, Instant) { ++others; },
      network.now);
  ASSERT_TRUE(asked.has_value());
  EXPECT_TRUE(ended.empty()) << "handlers are called from handle_timeout() alone";
  run_for(Duration::milliseconds(3));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(others, 1);
  EXPECT_EQ(ended[0].path.value().dlid, kLidOfResolver);
  EXPECT_TRUE(link.asked.empty());
  EXPECT_EQ(server.requests, 0);
  EXPECT_EQ(link.looked_for.size(), 1U) << "who waits for the same path looks with it";
  EXPECT_EQ(client.counters().local, 1U);
  EXPECT_EQ(service.counters().published, 1U);
  EXPECT_EQ(client.queries(), 0U);
  client.clear_paths();
  resolve({.asks_source = false});
  run_for(Duration::milliseconds(3));
  EXPECT_EQ(ended.back().path.value().dlid, kLidOfSa);
  EXPECT_EQ(link.looked_for.size(), 1U);
}

TEST_F(LocalServiceTest, AsksForWhatIsNotPublished) {  // R-NL-1
  resolve();
  EXPECT_EQ(link.looked_for.size(), 1U);
  ASSERT_EQ(link.asked.size(), 1U);
  EXPECT_EQ(say(answer(last_sequence())), 0);
  run_for(Duration::milliseconds(2));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].path.value().dlid, kLidOfResolver);
  EXPECT_EQ(service.counters().published, 0U);
}

TEST_F(LocalServiceTest, LooksForEveryComponentThatIsAskedFor) {  // R-NL-6
  const PathQuery wanted{.sgid = kOwn,
                         .dgid = kOther,
                         .pkey = PKey{0x8123},
                         .service_id = 0x0102030405060708,
                         .tclass = 9,
                         .qos_class = 0x123,
                         .is_reversible = false};
  ASSERT_TRUE(client.resolve_path(wanted, {}, [](QueryId, const auto&, Instant) {}, network.now));
  EXPECT_EQ(link.looked_for.back(), wanted);
}

TEST_F(LocalServiceTest, NamesEveryComponentThatIsAskedFor) {  // R-NL-6
  const auto id = client.resolve_path(
      {.sgid = kOwn,
       .dgid = kOther,
       .pkey = PKey{0x8123},
       .service_id = 0x0102030405060708,
       .tclass = 9,
       .qos_class = 0x123,
       .is_reversible = false},
      {}, [](QueryId, const auto&, Instant) {}, network.now);
  ASSERT_TRUE(id.has_value());
  const auto request = local::parse_resolve_request(last_request().payload);
  EXPECT_EQ(request->use, local::PathUse::Unidirectional);
  EXPECT_EQ(request->service_id, 0x0102030405060708U);
  EXPECT_EQ(request->tclass, 9);
  EXPECT_EQ(request->pkey, PKey{0x8123});
  EXPECT_EQ(request->qos_class, 0x123);
}

/// T-NL-2: what comes of an answer is what SA says; when depends on whether there was one.
struct Bad {
  const char* name;
  bool is_answer;  ///< to this question: SA is asked at once
  std::function<std::vector<std::byte>(std::uint32_t sequence)> said;
};

TEST_F(LocalServiceTest, WhatHasNoPathLeavesItToSa) {  // T-NL-2, R-NL-1, R-NL-7, R-SA-8
  const std::vector<Bad> all = {
      {"no data",                         true,
       [](std::uint32_t sequence) {
         std::vector<std::byte> octets;
         local::append_failure(octets, {.sequence = sequence}, local::Operation::Resolve);
         return octets;
       }                                                                                                    },
      {"no data, in the proposal's form", true,
       [](std::uint32_t sequence) {
         return data_answer(sequence, {.is_answer = true, .status = local::DataStatus::NoData});
       }                                                                                                    },
      {"garbage",                         true,
       [](std::uint32_t sequence) {
         auto octets = answer(sequence);
         octets[16] = std::byte{5};  // of the attribute's length
         return octets;
       }                                                                                                    },
      {"garbage in the proposal's form",  true,
       [](std::uint32_t sequence) {
         auto octets = data_answer(sequence, {.is_answer = true, .data = path_of_resolver()});
         octets[16] = std::byte{9};  // of the version
         return octets;
       }                                                                                                    },
      {"a record for another use",        true,
       [](std::uint32_t sequence) { return answer(sequence, local::kPathAlternate); }                       },
      {"a path to somebody else",         true,
       [](std::uint32_t sequence) {
         PathRecord path = path_of_resolver();
         path.dgid = kOwn;
         return answer(sequence, kGmp, path);
       }                                                                                                    },
      {"a wrong number",                  false, [](std::uint32_t sequence) { return answer(sequence + 1); }},
      {"nothing",                         false, {}                                                         },
  };
  for (const Bad& bad : all) {
    client.clear_paths();
    ended.clear();
    const Instant begin = network.now;
    const int mads = server.requests;
    resolve({.timeout = Duration::milliseconds(500)});  // shorter than the resolver's time
    if (bad.said) {
      EXPECT_EQ(say(bad.said(last_sequence())), 0) << bad.name;
    }
    run_for(Duration::seconds(3));
    ASSERT_EQ(ended.size(), 1U) << bad.name;
    EXPECT_EQ(ended[0].path.value().dlid, kLidOfSa) << bad.name;
    EXPECT_EQ(server.requests, mads + 1) << bad.name;
    const Duration took = ended[0].at - begin;
    const Duration least = bad.is_answer ? Duration{} : Duration::seconds(2);
    EXPECT_GE(took, least) << bad.name;
    EXPECT_LE(took, least + Duration::milliseconds(5)) << bad.name;
    EXPECT_EQ(service.questions(), 0U);
  }
  EXPECT_EQ(service.counters().no_data, 2U);
  EXPECT_EQ(service.counters().unusable, 4U);
  EXPECT_EQ(service.counters().timed_out, 2U);
  EXPECT_EQ(service.counters().strangers, 1U);
}

TEST_F(LocalServiceTest, WithoutListenersSaIsAskedAtOnce) {  // T-NL-3, R-NL-7
  for (const bool is_there : {false, true}) {
    link.is_there = is_there;
    link.takes = false;  // or it had no room
    client.clear_paths();
    const Instant begin = network.now;
    const std::size_t mads = network.sent.size();
    resolve();
    run_for(Duration::milliseconds(5));
    ASSERT_GT(network.sent.size(), mads);
    EXPECT_LT(network.sent[mads].at - begin, Duration::milliseconds(1));
    EXPECT_EQ(service.questions(), 0U);
  }
  EXPECT_EQ(ended.size(), 2U);
  EXPECT_EQ(link.asked.size(), 1U);
}

TEST_F(LocalServiceTest, ANewTimeoutIsForThoseWhoWait) {  // T-NL-4, R-NL-6
  const Instant begin = network.now;
  resolve();
  run_for(Duration::milliseconds(90));
  std::vector<std::byte> octets;
  local::append(octets, {.flags = wire::netlink::kFlagRequest}, local::SetTimeout{100});
  EXPECT_EQ(say(octets), 0);
  EXPECT_EQ(service.deadline(), begin + Duration::milliseconds(100));
  run_for(Duration::milliseconds(9));
  EXPECT_EQ(server.requests, 0);
  run_for(Duration::milliseconds(3));
  EXPECT_EQ(server.requests, 1);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].path.value().dlid, kLidOfSa);
}

TEST_F(LocalServiceTest, TimeoutsHaveLimitsAndAreRequests) {  // R-NL-6
  const auto set = [this](std::uint32_t milliseconds, std::uint16_t flags) {
    std::vector<std::byte> octets;
    local::append(octets, {.flags = flags}, local::SetTimeout{milliseconds});
    return say(octets);
  };
  EXPECT_EQ(service.timeout(), Duration::seconds(2));
  EXPECT_EQ(set(1, wire::netlink::kFlagRequest), 0);
  EXPECT_EQ(service.timeout(), Duration::milliseconds(100));
  EXPECT_EQ(set(0xFFFF'FFFF, wire::netlink::kFlagRequest), 0);
  EXPECT_EQ(service.timeout(), Duration::seconds(200));
  EXPECT_EQ(set(300, 0), -EPERM);
  EXPECT_EQ(say(data_answer(
                0, {.opcode = local::DataOpcode::SetTimeout, .data = local::TimeoutData{400}})),
            0);
  EXPECT_EQ(service.timeout(), Duration::milliseconds(400));
  std::vector<std::byte> octets;
  local::append_failure(octets, {.flags = wire::netlink::kFlagRequest}, local::Operation{1});
  EXPECT_EQ(say(octets), -EINVAL);  // no timeout
}

TEST_F(LocalServiceTest, CancelledWhileItWaitsEndsOnce) {  // T-NL-5, R-NL-7
  const QueryId query = resolve();
  const std::uint32_t sequence = last_sequence();
  run_for(Duration::milliseconds(10));
  client.cancel(query, network.now);
  EXPECT_EQ(service.questions(), 0U);
  client.cancel(query, network.now);
  run_for(Duration::milliseconds(2));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].path.error().failure, QueryFailure::Cancelled);
  EXPECT_EQ(say(answer(sequence)), 0);  // too late
  run_for(Duration::seconds(10));
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_EQ(server.requests, 0);
  EXPECT_EQ(client.queries(), 0U);
}

TEST_F(LocalServiceTest, OnlyThePrivilegedAnswerAndOnlyAnswers) {  // R-NL-7
  resolve();
  EXPECT_EQ(say(answer(last_sequence()), false), -EPERM);
  auto request = answer(last_sequence());
  request[6] = std::byte{1};  // NLM_F_REQUEST
  EXPECT_EQ(say(request), -EPERM);
  std::vector<std::byte> unknown = answer(last_sequence());
  unknown[4] = std::byte{9};  // an operation
  EXPECT_EQ(say(unknown), -EINVAL);
  EXPECT_EQ(service.questions(), 1U);
  EXPECT_EQ(say(answer(last_sequence())), 0);
  EXPECT_EQ(say(answer(last_sequence())), 0);  // once is enough
  run_for(Duration::milliseconds(2));
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_EQ(service.counters().strangers, 2U);
}

TEST_F(LocalServiceTest, EndsWithThePortAndTheClient) {
  resolve();
  LocalPort down = client.port();
  down.state = verbs::PortState::Down;
  const LocalPort up = client.port();
  client.set_port(down, network.now);
  run_for(Duration::milliseconds(2));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].path.error().failure, QueryFailure::NotSent);
  EXPECT_EQ(service.questions(), 0U);
  client.set_port(up, network.now);
  resolve();
  client.set_path_source(nullptr, {});
  run_for(Duration::milliseconds(2));
  EXPECT_EQ(ended.size(), 2U);
  EXPECT_EQ(service.questions(), 0U);
  {
    SaClient second{own_gsi};
    second.set_port(up, network.now);
    second.set_path_source(&service, {.device = "weft0", .number = 1});
    EXPECT_TRUE(second.resolve_path(
        {.sgid = kOwn, .dgid = kOther}, {}, [](QueryId, const auto&, Instant) { FAIL(); },
        network.now));
    EXPECT_EQ(service.questions(), 1U);
  }
  EXPECT_EQ(service.questions(), 0U);
}

TEST_F(LocalServiceTest, UsersOfOnePathShareTheQuestionAndThenTheTimeAtSa) {
  resolve({.timeout = Duration::milliseconds(100)});
  run_for(Duration::milliseconds(50));
  resolve({.timeout = Duration::milliseconds(300)});
  EXPECT_EQ(link.asked.size(), 1U);
  network.attach(kSaLid, own_gsi);  // SA is not there
  const Instant begin = network.now;
  run_for(Duration::seconds(3));
  ASSERT_EQ(ended.size(), 2U);
  const Duration left = Duration::milliseconds(1'950);
  EXPECT_EQ(ended[0].path.error().failure, QueryFailure::TimedOut);
  EXPECT_LE(ended[0].at - begin, left + Duration::milliseconds(105));
  EXPECT_GE(ended[1].at - begin, left + Duration::milliseconds(295));
  EXPECT_EQ(client.queries(), 0U);
  EXPECT_EQ(client.deadline(), Instant::never());
}

TEST_F(LocalServiceInTheProposalsForm, AsksWithAPathAndTakesThreeKindsOfAnswers) {
  // R-NL-1a, R-NL-2, R-NL-3, R-NL-4
  local::MadData mad;
  wire::SaHeader header;
  header.header.method = wire::MadMethod::GetResp;
  header.header.attribute_id = static_cast<std::uint16_t>(wire::SaAttribute::PathRecord);
  wire::pack(header, std::span{mad.mad}.first<kHeaderBytes>());
  copy_bytes(std::span{mad.mad}.subspan(kHeaderBytes), wire::pack(path_of_resolver()));
  for (const local::Data& data :
       {local::Data{path_of_resolver()}, local::Data{local::UserPathData{path_of_resolver()}},
        local::Data{mad}}) {
    client.clear_paths();
    ended.clear();
    resolve();
    EXPECT_EQ(last_request().header.type, local::kDataMessageType);
    const auto asked = local::parse_data_message(last_request().payload);
    ASSERT_TRUE(asked.has_value()) << asked.error().reason;
    EXPECT_EQ(asked->opcode, local::DataOpcode::QueryPath);
    EXPECT_FALSE(asked->is_answer);
    EXPECT_EQ(asked->flags, kGmp);
    EXPECT_EQ(std::get<PathRecord>(asked->data).dgid, kOther);
    EXPECT_EQ(say(data_answer(last_sequence(), {.is_answer = true, .flags = kGmp, .data = data})),
              0);
    run_for(Duration::milliseconds(2));
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].path.value().dlid, kLidOfResolver);
  }
  EXPECT_EQ(server.requests, 0);
}

TEST_F(LocalServiceTest, AsksForAddresses) {  // R-NL-6
  std::vector<std::optional<Gid>> told;
  const auto into = [&told](const std::optional<Gid>& dgid, Instant) { told.push_back(dgid); };
  ASSERT_TRUE(service.ask_address(4, IpAddress::v4(0x7F4D'0002), into, network.now));
  const auto request = local::parse_ip_resolve_request(last_request().payload);
  EXPECT_EQ(request->interface_index, 4U);
  EXPECT_EQ(request->address, IpAddress::v4(0x7F4D'0002));
  std::vector<std::byte> octets;
  local::append(octets, {.sequence = last_sequence()}, local::IpResolveAnswer{kOther});
  EXPECT_EQ(say(octets), 0);
  EXPECT_THAT(told, ::testing::ElementsAre(kOther));
  // A path is no answer to this; neither is a GID of zero.
  ASSERT_TRUE(service.ask_address(4, IpAddress::v4(1), into, network.now));
  EXPECT_EQ(say(answer(last_sequence())), 0);
  ASSERT_TRUE(service.ask_address(4, IpAddress::v4(1), into, network.now));
  octets.clear();
  local::append(octets, {.sequence = last_sequence()}, local::IpResolveAnswer{});
  EXPECT_EQ(say(octets), 0);
  ASSERT_TRUE(service.ask_address(4, IpAddress::v4(1), into, network.now));
  run_for(Duration::seconds(3));
  EXPECT_THAT(told, ::testing::ElementsAre(kOther, std::nullopt, std::nullopt, std::nullopt));
  link.is_there = false;
  EXPECT_FALSE(service.ask_address(4, IpAddress::v4(1), into, network.now));
}

TEST_F(LocalServiceTest, HasALimitOfQuestions) {
  LocalService narrow{link, {.questions = 1}};
  const auto nothing = [](const std::optional<PathRecord>&, Instant) {};
  EXPECT_TRUE(narrow.ask({}, {}, 0, nothing, network.now));
  EXPECT_FALSE(narrow.ask({}, {}, 0, nothing, network.now));
}

}  // namespace
}  // namespace weft::sa
