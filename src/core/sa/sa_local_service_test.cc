// Users of SA whose host has a resolver, which is asked for paths first (R-SA-8, R-NL-1).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/sa/sa_service.h"
#include "core/sa/sa_user.h"
#include "core/testing/fake_driver.h"
#include "core/testing/mad_network.h"
#include "core/testing/manual_environment.h"
#include "core/testing/sa_server.h"
#include "wire/local_service/messages.h"
#include "wire/mad/component_mask.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using testing::SaServer;
using wire::kComponent;
using wire::PathRecord;
namespace local = wire::local_service;

constexpr PortNumber kPort{1};
constexpr Gid kOwn{kDefaultGidPrefix, Guid{0x11}};
constexpr Gid kPeer{kDefaultGidPrefix, Guid{0x22}};
constexpr Lid kLidOfSa{7};  // as SaServer tells it
constexpr Lid kLidOfResolver{70};
constexpr std::uint32_t kGmp = local::flags_wanted(local::PathUse::Gmp);

/// A resolver that does what a test says.
class ScriptedLink final : public sa::LocalServiceLink {
 public:
  bool has_listeners() const override { return is_there; }
  bool multicast(ByteSpan datagram) override {
    asked.emplace_back(datagram.begin(), datagram.end());
    return true;
  }
  std::optional<PathRecord> published(const sa::PathQuery&, Instant) const override {
    return shown;
  }

  bool is_there{true};
  std::optional<PathRecord> shown;
  std::vector<std::vector<std::byte>> asked;
};

/// Hosts `a` and `b` of one kernel side, and `sm` where SA answers.
class SaUsersOfAResolver : public ::testing::Test {
 protected:
  SaUsersOfAResolver() {
    for (FakeDriver* const driver : {&a_, &b_, &sm_}) {
      driver->port.sm_lid = Lid{2};
      driver->gids = {kOwn};
    }
    sm_.port.lid = Lid{2};
    b_.port.lid = Lid{3};
    EXPECT_TRUE(a_.register_as("a"));
    EXPECT_TRUE(sm_.register_as("sm"));
    service_.use_local_service(link_);
    EXPECT_TRUE(b_.register_as("b"));  // a port that comes later asks as well
    for (FakeDriver* const driver : {&a_, &b_, &sm_}) {
      network_.attach(**mads_.port(driver->device(), kPort, mad::InterfaceKind::Gsi));
    }
    server_.emplace(mads_, sm_.device(), kPort);
    user_.emplace(service_);
  }
  ~SaUsersOfAResolver() override {
    user_.reset();
    server_.reset();
    unplug();
    registry_.unregister_device(b_.device());
    registry_.unregister_device(sm_.device());
  }

  void unplug() {
    if (!is_unplugged_) {
      is_unplugged_ = true;
      registry_.unregister_device(a_.device());
    }
  }
  Result<SaQueryId> resolve(FakeDriver& driver, Duration timeout = Duration::milliseconds(500)) {
    auto query = user_->resolve_path(
        {.device = driver.device(), .port = kPort, .timeout = timeout},
        {.sgid = kOwn, .dgid = kPeer}, [this](const Result<PathRecord>& path) {
          ended_.push_back(environment_.now());
          lids_.push_back(path ? path->dlid : Lid{});
          codes_.push_back(path ? std::nullopt : std::optional{path.error().code});
        });
    EXPECT_TRUE(query);
    environment_.run_all();
    return query;
  }
  Result<SaQueryId> resolve() { return resolve(a_); }

  /// As after another subnet manager.
  void forget_paths() {
    dispatch_event(
        {.device = &a_.device(), .type = verbs::AsyncEventType::ClientReregister, .port = kPort});
    environment_.run_all();
  }

  [[nodiscard]] std::uint32_t last_sequence() const {
    ByteSpan datagram = link_.asked.back();
    return wire::netlink::take_message(datagram)->header.sequence;
  }
  int say(const std::vector<std::byte>& octets, bool is_privileged = true) {
    ByteSpan datagram = octets;
    const int error = service_.receive(is_privileged, *wire::netlink::take_message(datagram));
    environment_.run_all();
    return error;
  }
  [[nodiscard]] static PathRecord path_of_resolver() {
    return {.dgid = kPeer, .sgid = kOwn, .dlid = kLidOfResolver, .reversible = true};
  }
  [[nodiscard]] static std::vector<std::byte> answer(std::uint32_t sequence,
                                                     const PathRecord& path = path_of_resolver()) {
    std::vector<std::byte> octets;
    local::append(octets, {.sequence = sequence}, local::ResolveAnswer{{{kGmp, path}}});
    return octets;
  }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  testing::MadNetwork network_;
  MadService mads_{registry_, network_};
  ScriptedLink link_;
  SaService service_{mads_};
  FakeDriver a_{registry_};
  FakeDriver b_{registry_};
  FakeDriver sm_{registry_};
  std::optional<SaServer> server_;
  std::optional<SaUser> user_;
  std::vector<Instant> ended_;  // when paths' handlers were called, with what
  std::vector<Lid> lids_;
  std::vector<std::optional<ErrorCode>> codes_;
  bool is_unplugged_{};
};

TEST_F(SaUsersOfAResolver, HaveItsPathsAndAskNoSa) {  // R-SA-8, part of T-NL-1
  ASSERT_TRUE(resolve());
  ASSERT_EQ(link_.asked.size(), 1U);
  ByteSpan datagram = link_.asked.back();
  const auto request = local::parse_resolve_request(wire::netlink::take_message(datagram)->payload);
  ASSERT_TRUE(request) << request.error().reason;
  EXPECT_EQ(request->device_name, "a");
  EXPECT_EQ(request->port, kPort.value());
  EXPECT_EQ(request->dgid, kPeer);
  EXPECT_TRUE(ended_.empty());
  EXPECT_EQ(say(answer(last_sequence())), 0);
  EXPECT_THAT(lids_, ElementsAre(kLidOfResolver));
  EXPECT_TRUE(server_->methods.empty());
  EXPECT_EQ(user_->queries(), 0U);
  ASSERT_TRUE(resolve(b_));
  EXPECT_EQ(say(answer(last_sequence())), 0);
  EXPECT_THAT(lids_, ElementsAre(kLidOfResolver, kLidOfResolver));
}

TEST_F(SaUsersOfAResolver, AskNobodyForWhatItShows) {
  link_.shown = path_of_resolver();
  ASSERT_TRUE(resolve());
  EXPECT_THAT(lids_, ElementsAre(kLidOfResolver));
  EXPECT_TRUE(link_.asked.empty());
  EXPECT_TRUE(server_->methods.empty());
  EXPECT_EQ(service_.local_service_counters().published, 1U);
}

TEST_F(SaUsersOfAResolver, AskSaAtOnceWhereNobodyListens) {  // part of T-NL-3
  link_.is_there = false;
  const Instant begin = environment_.now();
  ASSERT_TRUE(resolve());
  ASSERT_THAT(lids_, ElementsAre(kLidOfSa));
  EXPECT_EQ(ended_.back(), begin);
  EXPECT_TRUE(link_.asked.empty());
}

TEST_F(SaUsersOfAResolver, AskSaForWhatItDoesNotTell) {  // part of T-NL-2
  struct Bad {
    const char* name;
    bool is_answer;  // to this question: SA is asked at once, otherwise after the resolver's time
    std::function<std::vector<std::byte>(std::uint32_t sequence)> said;
  };
  const std::vector<Bad> all = {
      {"no data",                 true,
       [](std::uint32_t sequence) {
         std::vector<std::byte> octets;
         local::append_failure(octets, {.sequence = sequence}, local::Operation::Resolve);
         return octets;
       }                                                                                            },
      {"garbage",                 true,
       [](std::uint32_t sequence) {
         auto octets = answer(sequence);
         octets[16] = std::byte{5};  // of the attribute's length
         return octets;
       }                                                                                            },
      {"a path to somebody else", true,
       [](std::uint32_t sequence) {
         PathRecord path = path_of_resolver();
         path.dgid = kOwn;
         return answer(sequence, path);
       }                                                                                            },
      {"a wrong number",          false, [](std::uint32_t sequence) { return answer(sequence + 1); }},
      {"silence",                 false, {}                                                         },
  };
  for (const Bad& bad : all) {
    lids_.clear();
    forget_paths();
    const Instant begin = environment_.now();
    ASSERT_TRUE(resolve());
    if (bad.said) {
      EXPECT_EQ(say(bad.said(last_sequence())), 0) << bad.name;
    }
    environment_.advance(Duration::milliseconds(1'999));
    EXPECT_EQ(lids_.size(), bad.is_answer ? 1U : 0U) << bad.name;
    environment_.advance(Duration::milliseconds(2));
    ASSERT_THAT(lids_, ElementsAre(kLidOfSa)) << bad.name;
    EXPECT_EQ(ended_.back() - begin, Duration::milliseconds(bad.is_answer ? 0 : 2'000)) << bad.name;
  }
}

TEST_F(SaUsersOfAResolver, AreCalledOnceIfTheyCancelWhileItIsAsked) {  // R-NL-7
  const auto query = resolve();
  user_->cancel(*query);
  environment_.run_all();
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::Interrupted));
  EXPECT_EQ(say(answer(last_sequence())), 0);
  environment_.advance(Duration::seconds(10));
  EXPECT_EQ(codes_.size(), 1U);
  EXPECT_EQ(service_.local_service_counters().strangers, 1U);
  EXPECT_TRUE(server_->methods.empty());
}

TEST_F(SaUsersOfAResolver, HearOnlyWhoIsPrivileged) {  // R-NL-7
  ASSERT_TRUE(resolve());
  EXPECT_EQ(say(answer(last_sequence()), false), -EPERM);
  EXPECT_TRUE(ended_.empty());
  std::vector<std::byte> timeout;
  local::append(timeout, {.flags = wire::netlink::kFlagRequest}, local::SetTimeout{100});
  const Instant begin = environment_.now();
  EXPECT_EQ(say(timeout), 0);  // T-NL-4: it is for those who wait, of all ports
  environment_.advance(Duration::milliseconds(200));
  ASSERT_THAT(lids_, ElementsAre(kLidOfSa));
  EXPECT_EQ(ended_.back() - begin, Duration::milliseconds(100));
}

TEST_F(SaUsersOfAResolver, OfAllPortsAreToldInTheResolversTime) {
  ASSERT_TRUE(resolve(a_));
  environment_.advance(Duration::milliseconds(500));
  ASSERT_TRUE(resolve(b_));
  const Instant begin = environment_.now();
  environment_.advance(Duration::seconds(5));
  EXPECT_THAT(lids_, ElementsAre(kLidOfSa, kLidOfSa));
  EXPECT_THAT(ended_, ElementsAre(begin + Duration::milliseconds(1'500),
                                  begin + Duration::milliseconds(2'000)));
}

TEST_F(SaUsersOfAResolver, AreToldThatTheDeviceWentWhileItWasAsked) {
  ASSERT_TRUE(resolve());
  const std::uint32_t sequence = last_sequence();
  unplug();
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::Io));
  EXPECT_EQ(say(answer(sequence)), 0);
  EXPECT_EQ(codes_.size(), 1U);
  ASSERT_TRUE(resolve(b_));
  EXPECT_EQ(say(answer(last_sequence())), 0);
  EXPECT_EQ(lids_.back(), kLidOfResolver);
}

}  // namespace
}  // namespace weft::core
