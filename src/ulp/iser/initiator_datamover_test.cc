// A whole session of src/iscsi over iSER, both ends, on a virtual clock.

#include "ulp/iser/initiator_datamover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "iscsi/initiator_session.h"
#include "iscsi/testing/fake_chap_library.h"
#include "ulp/iser/session_binding.h"
#include "ulp/iser/testing/world.h"

namespace weft::iser {
namespace {

using iscsi::InitiatorCommand;
using iscsi::InitiatorOutcome;
using iscsi::SessionState;
using iscsi::SharedBuffer;
using testing::PduLog;
using testing::World;

/// An initiator's session on host 0 of a world, which has a timer, as its driver would.
class Driver final : public iscsi::InitiatorEnvironment, public iscsi::InitiatorClient {
 public:
  explicit Driver(World& of, const ConnectionOptions& connection = {})
      : world(of),
        connection_options(connection),
        binding(*of.initiator),
        session(options(), *this) {}
  ~Driver() {
    session.stop(world.environment.now());
    EXPECT_TRUE(wait([this] { return session.state() == SessionState::Idle; }));
    EXPECT_TRUE(wait([this] { return movers == gone; }));
    mover.reset();
  }

  static iscsi::InitiatorOptions options() {
    iscsi::InitiatorOptions made;
    made.name = iscsi::testing::kInitiatorName;
    made.target = iscsi::testing::kTargetName;
    made.address = "1";
    return made;
  }

  bool wait(const std::function<bool()>& condition, Duration span = Duration::seconds(60)) {
    const Instant end = world.environment.now() + span;
    while (!condition()) {
      const Instant next =
          std::min({session.deadline(), world.environment.now() + Duration::milliseconds(10), end});
      world.environment.wait_until(condition, next);
      if (world.environment.now() >= session.deadline()) {
        session.handle_timeout(world.environment.now());
      }
      if (world.environment.now() >= end) {
        return condition();
      }
    }
    return true;
  }

  void connect(std::uint16_t /*cid*/, std::string_view address) override {
    ++movers;
    mover = std::make_unique<InitiatorDatamover>(world.environment, binding, connection_options,
                                                 [this] { ++gone; });
    mover->set_client(session.client(0));
    const auto begun = mover->connect(address, [this](const std::string& reason) {
      if (reason.empty()) {
        session.handle_connected(0, *mover, world.environment.now());
      } else {
        session.handle_connect_failed(0, reason, world.environment.now());
      }
    });
    EXPECT_TRUE(begun);
  }
  void cancel_connect(std::uint16_t /*cid*/) override { mover->abandon(); }
  void handle_state(SessionState state, std::string_view /*reason*/) override {
    states.push_back(state);
  }
  void handle_scsi_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}
  iscsi::ChapLibrary& chap_library() override { return chap; }
  void handle_outcome(InitiatorCommand& /*command*/, const InitiatorOutcome& outcome,
                      Instant /*now*/) override {
    outcomes.push_back(outcome);
  }

  /// READ (10) or WRITE (10).
  InitiatorOutcome run(bool writes, std::uint32_t lba, const SharedBuffer& data) {
    InitiatorCommand command;
    command.cdb.resize(10);
    command.cdb[0] = std::byte{static_cast<unsigned char>(writes ? 0x2A : 0x28)};
    command.cdb[5] = static_cast<std::byte>(lba);
    command.cdb[7] = static_cast<std::byte>(data.size() / 512 >> 8);
    command.cdb[8] = static_cast<std::byte>(data.size() / 512 & 0xFF);
    (writes ? command.data_out : command.data_in) = data;
    return run(command);
  }
  InitiatorOutcome run(InitiatorCommand& command) {
    command.client = this;
    const std::size_t before = outcomes.size();
    session.submit(command, world.environment.now());
    EXPECT_TRUE(wait([&] { return outcomes.size() > before; }));
    return outcomes.size() > before ? outcomes.back() : InitiatorOutcome{};
  }
  void log_in() {
    session.start(world.environment.now());
    ASSERT_TRUE(wait([this] { return session.state() == SessionState::Live; })) << session.reason();
    InitiatorCommand ready;  // takes the unit attention of a new nexus
    ready.cdb.resize(6);
    static_cast<void>(run(ready));
  }

  World& world;
  ConnectionOptions connection_options;
  SessionBinding binding;
  iscsi::testing::FakeChapLibrary chap;
  iscsi::InitiatorSession session;
  std::unique_ptr<InitiatorDatamover> mover;
  unsigned movers{};
  unsigned gone{};
  std::vector<SessionState> states;
  std::vector<InitiatorOutcome> outcomes;
};

SharedBuffer pattern(std::size_t bytes, unsigned seed) {
  SharedBuffer made{bytes};
  for (std::size_t i = 0; i < bytes; ++i) {
    made.octets()[i] = static_cast<std::byte>(i * seed >> 4);
  }
  return made;
}

// Linux's target agrees to any number, and fails on a SEND with more than the default (RFC 7145
// §6.4).
TEST(IserSession, AsksForNoMoreImmediateDataThanEveryTargetHasRoomFor) {
  World world;
  Driver driver{world};
  driver.log_in();
  iscsi::Preferences preferences;
  ASSERT_GT(preferences.values.target_recv_data_segment_length, 8'192U);
  driver.mover->limit(preferences);
  EXPECT_EQ(preferences.values.target_recv_data_segment_length, 8'192U);
  preferences.values.target_recv_data_segment_length = 512;
  driver.mover->limit(preferences);
  EXPECT_EQ(preferences.values.target_recv_data_segment_length, 512U);
}

TEST(IserSession, MovesDataBothWaysByRdma) {
  World world;
  Driver driver{world, {.receive_data_bytes = 8'192}};
  driver.log_in();
  EXPECT_TRUE(driver.session.agreed().rdma_extensions);
  for (const std::size_t bytes : {512UL, 8'192UL, 65'536UL, 524'288UL}) {
    const SharedBuffer written = pattern(bytes, 37);
    EXPECT_TRUE(driver.run(true, 3, written).is_good()) << bytes;
    const SharedBuffer read{bytes};
    std::ranges::fill(read.octets(), std::byte{});
    const InitiatorOutcome outcome = driver.run(false, 3, read);
    EXPECT_TRUE(outcome.is_good()) << bytes;
    EXPECT_EQ(outcome.data_in_bytes, bytes);
    EXPECT_TRUE(std::ranges::equal(read.octets(), written.octets())) << bytes;
    EXPECT_EQ(driver.mover->tasks(), 0U);
  }
}

// A key of all memory is not the target's to invalidate, and so is that of an ordinary region.
TEST(IserSession, OffersNoKeyToBeInvalidatedThatOutlivesTheCommand) {
  World world;
  Driver driver{
      world, {.receive_data_bytes = 8'192, .trusts_target = true}
  };
  driver.log_in();
  EXPECT_TRUE(driver.run(true, 3, pattern(4'096, 37)).is_good());
  EXPECT_TRUE(driver.run(true, 3, pattern(4'096, 11)).is_good());
  EXPECT_EQ(driver.movers, 1U);
}

/// How many Hello messages the initiator of a world sends.
void count_hellos(World& world, unsigned& hellos) {
  world.network.filter = [&hellos](const auto& flight) {
    const bool begins = flight.header.opcode == ::weft::wire::Opcode::RcSendOnly;
    hellos += flight.from == 0 && begins && !flight.payload.empty() &&
                      std::to_integer<unsigned>(flight.payload[0]) >> 4 == 2
                  ? 1
                  : 0;
    return true;
  };
}

// RFC 7145 §5.1.3, §6.10: with a Hello where both ends agree on it, or where the initiator asks
// nobody; without where one of them does not want it.
TEST(IserSession, BeginsWithAHelloWhereThatWasAgreedOn) {
  struct Case {
    iscsi::HelloPolicy policy;
    std::optional<bool> target;  ///< whether it agrees
    std::optional<bool> agreed;
    unsigned hellos;
  };
  using enum iscsi::HelloPolicy;
  for (const Case& one : {
           Case{Never,   true,  std::nullopt, 0},
           Case{Agreed,  true,  true,         1},
           Case{Agreed,  false, false,        0},
           Case{Unasked, true,  std::nullopt, 1}
  }) {
    iscsi::ServerOptions server;
    server.preferences.values.hello_required = one.target;
    World world{1, {}, server};
    unsigned hellos = 0;
    count_hellos(world, hellos);
    Driver driver{
        world, {.receive_data_bytes = 8'192, .hello = one.policy}
    };
    driver.log_in();
    EXPECT_EQ(driver.session.agreed().hello_required, one.agreed);
    const SharedBuffer written = pattern(8'192, 37);
    EXPECT_TRUE(driver.run(true, 3, written).is_good());
    const SharedBuffer read{8'192};
    EXPECT_TRUE(driver.run(false, 3, read).is_good());
    EXPECT_TRUE(std::ranges::equal(read.octets(), written.octets()));
    EXPECT_EQ(driver.movers, 1U);
    EXPECT_EQ(hellos, one.hellos);
  }
}

// Login is not over before the target's reply, and a target that gives none has not let it in.
TEST(IserSession, HasNotLoggedInWithoutTheReplyToItsHello) {
  World world;
  world.network.filter = [](const auto& flight) {
    return flight.from == 0 || flight.payload.empty() ||
           std::to_integer<unsigned>(flight.payload[0]) >> 4 != 3;
  };
  Driver driver{
      world, {.receive_data_bytes = 8'192, .hello = iscsi::HelloPolicy::Agreed}
  };
  driver.session.start(world.environment.now());
  EXPECT_TRUE(driver.wait([&] { return driver.session.state() == SessionState::Idle; }));
  EXPECT_EQ(std::ranges::count(driver.states, SessionState::Live), 0);
  EXPECT_FALSE(driver.session.reason().empty());
}

TEST(IserSession, SaysHowMuchCame) {
  World world;
  Driver driver{world, {.receive_data_bytes = 8'192}};
  driver.log_in();
  InitiatorCommand inquiry;
  inquiry.cdb = std::vector<std::byte>(6);
  inquiry.cdb[0] = std::byte{0x12};
  inquiry.cdb[4] = std::byte{0xFF};
  inquiry.data_in = SharedBuffer{255};
  const InitiatorOutcome outcome = driver.run(inquiry);
  EXPECT_TRUE(outcome.is_good());
  EXPECT_GE(outcome.data_in_bytes, 36U);
  EXPECT_LT(outcome.data_in_bytes, 255U);
  EXPECT_EQ(outcome.residual, static_cast<std::int64_t>(255 - outcome.data_in_bytes));
}

TEST(IserSession, IsMadeAgainAfterTheTargetEndedIt) {
  World world;
  Driver driver{world, {.receive_data_bytes = 8'192}};
  driver.log_in();
  world.movers.front()->terminate(iscsi::Datamover::Ending::AtOnce, "the target ends it");
  ASSERT_TRUE(driver.wait([&] { return driver.session.state() == SessionState::Blocked; }));
  ASSERT_TRUE(driver.wait([&] { return driver.session.state() == SessionState::Live; }));
  InitiatorCommand ready;
  ready.cdb.resize(6);
  static_cast<void>(driver.run(ready));
  EXPECT_TRUE(driver.run(true, 0, pattern(4'096, 5)).is_good());
  EXPECT_EQ(driver.gone, 1U);
}

// R-ISER-1 to 7 and 11, as the session has them: host and session are made with the first endpoint
// and stay, each lost connection is stopped to be recovered, and after a logout for good.
TEST(IserSession, IsOfOneSessionOfTheTransportUntilItsLogout) {
  World world;
  Initiator& initiator = *world.initiator;
  {
    Driver driver{
        world, {.max_commands = 16, .receive_data_bytes = 8'192}
    };
    EXPECT_EQ(driver.binding.session(), nullptr) << "no endpoint is up";
    driver.log_in();
    const Session* const session = driver.binding.session();
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->host().max_commands, 16U);
    EXPECT_EQ(initiator.connections(), 1U);
    world.movers.front()->terminate(iscsi::Datamover::Ending::AtOnce, "the target ends it");
    ASSERT_TRUE(driver.wait([&] { return driver.session.state() == SessionState::Blocked; }));
    ASSERT_TRUE(driver.wait([&] { return driver.gone == 1; }));
    EXPECT_EQ(initiator.last_stop(), StopFlag::Recover);
    ASSERT_TRUE(driver.wait([&] { return driver.session.state() == SessionState::Live; }));
    EXPECT_EQ(driver.binding.session(), session);
    EXPECT_EQ(initiator.sessions(), 1U);
    EXPECT_EQ(initiator.connections(), 1U);
    driver.session.stop(world.environment.now());
    ASSERT_TRUE(driver.wait([&] { return driver.gone == 2; }));
    EXPECT_EQ(initiator.last_stop(), StopFlag::Terminate);
  }
  world.environment.advance(Duration::milliseconds(20));
  EXPECT_EQ(initiator.sessions(), 0U);
  EXPECT_EQ(initiator.connections(), 0U);
}

// What nobody wants any more goes without a word, whether it is pending, answered or bound.
TEST(IserSession, AnAbandonedConnectionGoesWithoutAWord) {
  for (const Duration after :
       {Duration{}, Duration::milliseconds(2), Duration::milliseconds(8), Duration::seconds(1)}) {
    World world;
    SessionBinding binding{*world.initiator};
    PduLog log;
    unsigned told = 0;
    unsigned gone = 0;
    InitiatorDatamover mover{world.environment, binding, {}, [&] { ++gone; }};
    mover.set_client(log);
    ASSERT_TRUE(mover.connect("1", [&](const std::string& /*reason*/) { ++told; }));
    world.environment.advance(after);
    const unsigned before = told;
    if (after == Duration::seconds(1)) {
      EXPECT_EQ(before, 1U);
    }
    mover.abandon();
    mover.abandon();
    ASSERT_TRUE(world.environment.wait_until([&] { return gone != 0; },
                                             world.environment.now() + Duration::seconds(1)));
    world.environment.advance(Duration::seconds(2));
    EXPECT_EQ(told, before);
    EXPECT_EQ(gone, 1U);
    EXPECT_EQ(log.losses, 0U);
    EXPECT_EQ(world.initiator->connections(), 0U);
  }
}

TEST(IserSession, SaysWhyThereIsNoConnection) {
  World world;
  world.refuses = true;
  Driver driver{world};
  driver.session.start(world.environment.now());
  EXPECT_TRUE(driver.wait([&] { return driver.session.state() != SessionState::Connecting; }));
  EXPECT_EQ(driver.session.state(), SessionState::Idle);
  EXPECT_FALSE(driver.session.reason().empty());
}

}  // namespace
}  // namespace weft::iser
