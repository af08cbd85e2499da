#include "core/sa/sa_user.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/sa/sa_port.h"
#include "core/sa/sa_service.h"
#include "core/testing/fake_driver.h"
#include "core/testing/mad_network.h"
#include "core/testing/manual_environment.h"
#include "core/testing/sa_server.h"
#include "wire/mad/component_mask.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;
using testing::SaServer;
using wire::kComponent;
using wire::MadMethod;
using wire::McMemberRecord;
using wire::PathRecord;

constexpr PortNumber kPort{1};
constexpr Gid kOwn{kDefaultGidPrefix, Guid{0x11}};
constexpr Gid kPeer{kDefaultGidPrefix, Guid{0x22}};
constexpr Gid kGroup{0xFF12'401B'FFFF'0000, Guid{5}};
constexpr std::uint64_t kGids = kComponent<PathRecord, "DGID"> | kComponent<PathRecord, "SGID">;

/// A host `a` that asks, and `sm` where SA answers.
class SaUsers : public ::testing::Test {
 protected:
  SaUsers() {
    for (FakeDriver* const driver : {&a_, &sm_}) {
      driver->port.sm_lid = Lid{2};
      driver->gids = {kOwn};
    }
    sm_.port.lid = Lid{2};
    EXPECT_TRUE(a_.register_as("a"));
    EXPECT_TRUE(sm_.register_as("sm"));
    network_.attach(**mads_.port(a_.device(), kPort, mad::InterfaceKind::Gsi));
    network_.attach(**mads_.port(sm_.device(), kPort, mad::InterfaceKind::Gsi));
    server_.emplace(mads_, sm_.device(), kPort);
    user_.emplace(service_);
  }
  ~SaUsers() override {
    user_.reset();
    server_.reset();
    unplug();
    registry_.unregister_device(sm_.device());
  }

  void unplug() {
    if (!is_unplugged_) {
      is_unplugged_ = true;
      registry_.unregister_device(a_.device());
    }
  }
  [[nodiscard]] SaAsk ask(Duration timeout = Duration::seconds(4)) {
    return {.device = a_.device(), .port = kPort, .timeout = timeout};
  }
  [[nodiscard]] SaHandler<PathRecord> note() {
    return [this](const Result<PathRecord>& path) {
      codes_.push_back(path ? std::nullopt : std::optional{path.error().code});
    };
  }
  [[nodiscard]] Result<SaQueryId> get(Duration timeout = Duration::seconds(4)) {
    return user_->get_path(ask(timeout), {.dgid = kPeer, .sgid = kOwn}, kGids, note());
  }
  void tell_event(verbs::AsyncEventType type) {
    dispatch_event({.device = &a_.device(), .type = type, .port = kPort});
    environment_.run_all();
  }
  [[nodiscard]] SaMulticast* join(std::vector<Result<McMemberRecord>>& told) {
    auto joined = user_->join(
        a_.device(), kPort, {.mgid = kGroup, .join_state = wire::JoinState::FullMember}, 0,
        [&told](SaMulticast&, const Result<McMemberRecord>& member) { told.push_back(member); });
    EXPECT_TRUE(joined);
    return *joined;
  }
  [[nodiscard]] long requests(MadMethod method) const {
    return std::ranges::count(server_->methods, method);
  }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  testing::MadNetwork network_;
  MadService mads_{registry_, network_};
  SaService service_{mads_};
  FakeDriver a_{registry_};
  FakeDriver sm_{registry_};
  std::optional<SaServer> server_;
  std::optional<SaUser> user_;
  std::vector<std::optional<ErrorCode>> codes_;  // of paths' handlers; none: success
  bool is_unplugged_{};
};

TEST_F(SaUsers, AreToldThePathThatSaTells) {
  std::vector<PathRecord> paths;
  const auto query =
      user_->get_path(ask(), {.dgid = kPeer, .sgid = kOwn}, kGids,
                      [&](const Result<PathRecord>& path) { paths.push_back(path.value()); });
  ASSERT_TRUE(query);
  EXPECT_TRUE(paths.empty());  // never inside the call
  EXPECT_EQ(user_->queries(), 1U);
  environment_.run_all();
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_EQ(paths[0].dgid, kPeer);
  EXPECT_EQ(paths[0].dlid, Lid{7});
  EXPECT_EQ(user_->queries(), 0U);
}

TEST_F(SaUsers, AreAnsweredFromThePortsCacheUntilTheSubnetManagerChanges) {
  const sa::PathQuery wanted{.sgid = kOwn, .dgid = kPeer};
  const auto resolve = [&] {
    EXPECT_TRUE(user_->resolve_path(ask(), wanted, note()));
    environment_.run_all();
  };
  resolve();
  resolve();
  EXPECT_THAT(codes_, ElementsAre(std::nullopt, std::nullopt));
  EXPECT_EQ(requests(MadMethod::Get), 1);
  tell_event(verbs::AsyncEventType::SmChange);
  resolve();
  EXPECT_EQ(requests(MadMethod::Get), 2);
}

// T-SA-3 as kernel users see it: what is called once, and with what.
TEST_F(SaUsers, AreCalledOnceForEachQueryWhateverIsCancelledWhen) {
  const auto at_once = get();
  user_->cancel(*at_once);
  user_->cancel(*at_once);
  environment_.run_all();
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::Interrupted));
  const auto done = get();
  environment_.run_all();
  user_->cancel(*done);
  environment_.run_all();
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::Interrupted, std::nullopt));
  ASSERT_TRUE(get());
  user_->cancel(SaQueryId{99});
  environment_.run_all();
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::Interrupted, std::nullopt, std::nullopt));
}

// R-SA-6: the end of a user waits, and its handlers have been called, each once.
TEST_F(SaUsers, WaitAtTheirEndUntilEveryHandlerWasCalledOnce) {
  server_->answer = [](mad::MadMessage&) { return false; };
  ASSERT_TRUE(get(Duration::seconds(1)));
  ASSERT_TRUE(get(Duration::seconds(2)));
  const auto third = get(Duration::seconds(60));
  user_->cancel(*third);
  const Instant before = environment_.now();
  user_.reset();
  EXPECT_THAT(codes_,
              ElementsAre(ErrorCode::Interrupted, ErrorCode::TimedOut, ErrorCode::TimedOut));
  EXPECT_GE(environment_.now() - before, Duration::seconds(2));
  EXPECT_LT(environment_.now() - before, Duration::milliseconds(2'300));
  environment_.advance(Duration::seconds(100));
  EXPECT_EQ(codes_.size(), 3U);
}

// T-SA-4: the device goes with a query pending.
TEST_F(SaUsers, AreToldOnceThatTheDeviceWentAndMayEndAfterwards) {
  server_->answer = [](mad::MadMessage&) { return false; };
  ASSERT_TRUE(get());
  environment_.run_all();
  unplug();
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::Io));
  EXPECT_EQ(user_->get_path(ask(), {}, kGids, note()).error().code, ErrorCode::NoSuchDevice);
  user_.reset();
  EXPECT_EQ(codes_.size(), 1U);
}

TEST_F(SaUsers, AreRefusedWhereNothingCanBeAsked) {  // R-SA-4, T-PORT-2
  for (const PortNumber port : {PortNumber{0}, PortNumber{3}}) {
    EXPECT_EQ(
        user_->get_path({.device = a_.device(), .port = port}, {}, kGids, note()).error().code,
        ErrorCode::InvalidArgument);
    EXPECT_EQ(user_->query_service({.device = a_.device(), .port = port}, MadMethod::Get, {}, 1, {})
                  .error()
                  .code,
              ErrorCode::InvalidArgument);
  }
  FakeDriver roce{registry_, PortCapabilities{PortCapability::ProtocolRoceUdp}};
  ASSERT_TRUE(roce.register_as("roce"));
  EXPECT_EQ(
      user_->get_path({.device = roce.device(), .port = kPort}, {}, kGids, note()).error().code,
      ErrorCode::NoSuchDevice);
  registry_.unregister_device(roce.device());
  a_.port.sm_lid = Lid{};
  tell_event(verbs::AsyncEventType::SmChange);
  EXPECT_EQ(get().error().code, ErrorCode::TryAgain);
  a_.port.sm_lid = Lid{2};
  tell_event(verbs::AsyncEventType::SmChange);  // R-SA-5: the address follows the event
  EXPECT_TRUE(get());
  EXPECT_EQ(user_->query_service(ask(), MadMethod::GetTable, {}, 0, {}).error().code,
            ErrorCode::InvalidArgument);
  environment_.run_all();
  EXPECT_THAT(codes_, ElementsAre(std::nullopt));
}

// R-SA-7, T-SA-5: the same status of SA is another error for a path, a group and a service.
TEST_F(SaUsers, HaveErrorsOfTheirOwnForAPathAGroupAndAService) {
  server_->answer = [](mad::MadMessage& message) {
    return SaServer::refuse(message, wire::SaStatus::NoRecords);
  };
  std::vector<Error> errors;
  const auto note_error = [&](const auto& record) { errors.push_back(record.error()); };
  ASSERT_TRUE(user_->get_path(ask(), {.dgid = kPeer}, kGids, note_error));
  environment_.run_all();
  ASSERT_TRUE(
      user_->get_member(ask(), {.mgid = kGroup}, kComponent<McMemberRecord, "MGID">, note_error));
  environment_.run_all();
  ASSERT_TRUE(user_->query_service(ask(), MadMethod::Get, {}, 1, note_error));
  environment_.run_all();
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors[0].code, ErrorCode::NetworkUnreachable);
  EXPECT_EQ(errors[1].code, ErrorCode::NotFound);
  EXPECT_EQ(errors[2].code, ErrorCode::InvalidArgument);
  EXPECT_NE(errors[0].reason, errors[1].reason);
  EXPECT_NE(errors[1].reason, errors[2].reason);
}

TEST_F(SaUsers, ReadSetAndDeleteServices) {
  server_->answer = [](mad::MadMessage&) { return true; };
  wire::ServiceRecord service{.service_id = 0x1234};
  unsigned done = 0;
  for (const MadMethod method : {MadMethod::Set, MadMethod::Get, MadMethod::Delete}) {
    ASSERT_TRUE(user_->query_service(ask(), method, service, 1,
                                     [&](const Result<wire::ServiceRecord>& record) {
                                       EXPECT_EQ(record.value(), service);
                                       ++done;
                                     }));
    environment_.run_all();
  }
  EXPECT_EQ(done, 3U);
  EXPECT_THAT(server_->methods, ElementsAre(MadMethod::Set, MadMethod::Get, MadMethod::Delete));
}

TEST_F(SaUsers, ReadSetAndDeleteAliasGuids) {
  server_->answer = [](mad::MadMessage&) { return true; };
  const wire::GuidInfoRecord guids{.lid = Lid{1}, .block = 2};
  unsigned done = 0;
  const auto expect_guids = [&](const Result<wire::GuidInfoRecord>& record) {
    EXPECT_EQ(record.value(), guids);
    ++done;
  };
  for (const MadMethod method : {MadMethod::Set, MadMethod::Get, MadMethod::Delete}) {
    ASSERT_TRUE(user_->query_guid_info(ask(), method, guids, 3, expect_guids));
    environment_.run_all();
  }
  EXPECT_EQ(done, 3U);
  EXPECT_EQ(user_->query_guid_info(ask(), MadMethod::GetTable, guids, 3, expect_guids).error().code,
            ErrorCode::InvalidArgument);
}

TEST_F(SaUsers, JoinAGroupOnceForAllAndLeaveItWithTheLast) {  // R-SA-10
  server_->answer = SaServer::take_member;
  std::vector<Result<McMemberRecord>> first_told;
  std::vector<Result<McMemberRecord>> second_told;
  SaMulticast* const first = join(first_told);
  SaMulticast* const second = join(second_told);
  environment_.run_all();
  ASSERT_EQ(first_told.size(), 1U);
  ASSERT_EQ(second_told.size(), 1U);
  EXPECT_EQ(first_told[0]->mlid, Lid{0xC001});
  EXPECT_EQ(requests(MadMethod::Set), 1);
  user_->free(*first);
  environment_.run_all();
  EXPECT_EQ(requests(MadMethod::Delete), 0);
  user_->free(*second);
  environment_.run_all();
  EXPECT_EQ(requests(MadMethod::Delete), 1);
}

TEST_F(SaUsers, AreMembersAgainAfterTheSubnetManagerAsksThemTo) {
  server_->answer = SaServer::take_member;
  std::vector<Result<McMemberRecord>> told;
  SaMulticast* const membership = join(told);
  environment_.run_all();
  tell_event(verbs::AsyncEventType::ClientReregister);
  environment_.run_all();
  EXPECT_EQ(requests(MadMethod::Set), 2);
  tell_event(verbs::AsyncEventType::SmChange);
  environment_.run_all();
  EXPECT_EQ(requests(MadMethod::Set), 3);
  tell_event(verbs::AsyncEventType::PKeyChange);  // nothing that SA could have forgotten for
  environment_.run_all();
  EXPECT_EQ(requests(MadMethod::Set), 3);
  user_->free(*membership);
}

TEST_F(SaUsers, HearNothingOfAMembershipThatTheyFreed) {
  server_->answer = SaServer::take_member;
  std::vector<Result<McMemberRecord>> told;
  SaMulticast* const membership = join(told);
  user_->free(*membership);
  environment_.advance(Duration::seconds(10));
  EXPECT_TRUE(told.empty());
}

TEST_F(SaUsers, LoseTheirMembershipWithTheDeviceAndAreToldSo) {
  server_->answer = SaServer::take_member;
  std::vector<Result<McMemberRecord>> told;
  SaMulticast* const membership = join(told);
  environment_.run_all();
  unplug();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1].error().code, ErrorCode::NoSuchDevice);
  user_->free(*membership);
}

}  // namespace
}  // namespace weft::core
