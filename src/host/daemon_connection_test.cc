#include "host/daemon_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "host/testing/fake_process.h"
#include "os/clock.h"

namespace weft::host {
namespace {

using ::testing::HasSubstr;

/// Records the messages it gets.
class NotingHandler final : public DaemonHandler {
 public:
  void handle_lane(const uabi::Lane&, std::vector<os::UniqueFd>& descriptors) override {
    lanes += descriptors.size() == 2 ? 1 : 0;
  }
  void handle_peer_gone(uabi::ProcessAddress peer) override { peer_gone = peer.slot; }
  void handle_tables(const os::UniqueFd& file) override { tables += file ? 1 : 0; }
  void handle_tap(const uabi::OpenTap&, const os::UniqueFd& file) override { taps += file ? 1 : 0; }
  void handle_tap_closed(const uabi::CloseTap&) override { ++taps_closed; }
  void handle_group(const uabi::GroupMembers&) override { ++groups; }
  void handle_group_joined() override { ++groups_joined; }
  void handle_shared_object(const uabi::Message&) override { ++shared_objects; }
  void handle_daemon_gone() override { ++daemon_gone; }

  std::atomic<int> lanes{0}, tables{0}, taps{0}, taps_closed{0}, groups{0}, groups_joined{0},
      shared_objects{0}, daemon_gone{0};
  std::atomic<std::uint32_t> peer_gone{0};
};

class ConnectionToTheDaemon : public ::testing::Test {
 protected:
  ConnectionToTheDaemon() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    own_ = ControlSocket{os::UniqueFd{fds[0]}};
    daemon_ = ControlSocket{os::UniqueFd{fds[1]}};
  }
  /// The daemon's response is queued before the request.
  Result<DaemonConnection::Attached> attach(std::uint32_t slot = 7) {
    uabi::Welcome welcome;
    welcome.self = {.node = 0, .slot = slot};
    const os::UniqueFd file{eventfd(0, EFD_CLOEXEC)};
    std::array<int, uabi::kWelcomeDescriptors> files{};
    files.fill(file.get());
    EXPECT_TRUE(daemon_.send(welcome, files));
    return connection_.attach(std::move(own_), "lab", "h1");
  }
  void attach_and_hear() {
    EXPECT_TRUE(attach());
    EXPECT_TRUE(daemon_.receive());  // Hello
    connection_.start_daemon_events();
  }
  static void wait_for(const std::atomic<int>& count, int until) {
    const Instant deadline = os::now() + Duration::seconds(10);
    while (count != until && os::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(count, until);
  }

  ControlSocket own_;
  ControlSocket daemon_;
  NotingHandler handler_;
  testing::FakeProgram program_;
  DaemonConnection connection_{handler_, program_};
};

TEST_F(ConnectionToTheDaemon, IsToldWhoThisProcessIs) {
  const auto attached = attach();
  ASSERT_TRUE(attached) << attached.error().reason;
  EXPECT_EQ(attached->descriptors.size(), uabi::kWelcomeDescriptors);
  EXPECT_EQ(connection_.self().slot, 7U);
  const auto hello = daemon_.receive();
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->message.get<uabi::Hello>().host, "h1");
}

TEST_F(ConnectionToTheDaemon, RefusesADaemonThatMakesItNoProcess) { EXPECT_FALSE(attach(0)); }

TEST_F(ConnectionToTheDaemon, HearsTheInitialStateToItsEnd) {
  ASSERT_TRUE(attach());
  EXPECT_TRUE(daemon_.send(uabi::GroupMembers{}));
  EXPECT_TRUE(daemon_.send(uabi::InitialStateSent{}));
  EXPECT_TRUE(daemon_.send(uabi::GroupMembers{}));
  EXPECT_TRUE(connection_.hear_initial_state());
  EXPECT_EQ(handler_.groups, 1);
  EXPECT_TRUE(connection_.has_record());
  connection_.hear_pending();
  EXPECT_EQ(handler_.groups, 2);
  EXPECT_FALSE(connection_.has_record());
}

TEST_F(ConnectionToTheDaemon, HoldsItsThreadAtTheTopOfItsLoop) {
  EXPECT_FALSE(connection_.request_hold());  // there is none
  attach_and_hear();
  ASSERT_TRUE(connection_.request_hold());
  const Instant deadline = os::now() + Duration::seconds(10);
  while (!connection_.is_held() && os::now() < deadline) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(connection_.is_held());
  EXPECT_TRUE(daemon_.send(uabi::GroupMembers{}));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(handler_.groups, 0);
  connection_.release_hold();
  wait_for(handler_.groups, 1);
}

TEST_F(ConnectionToTheDaemon, TellsEachMessageToItsHandler) {
  attach_and_hear();
  const os::UniqueFd file{eventfd(0, EFD_CLOEXEC)};
  EXPECT_TRUE(daemon_.send(uabi::Lane{}, std::array{file.get(), file.get()}));
  EXPECT_TRUE(daemon_.send(uabi::TablesChanged{}, std::array{file.get()}));
  EXPECT_TRUE(daemon_.send(uabi::OpenTap{}, std::array{file.get()}));
  EXPECT_TRUE(daemon_.send(uabi::CloseTap{}));
  EXPECT_TRUE(daemon_.send(uabi::NoSuchProcess{
      .peer = {.node = 0, .slot = 3}
  }));
  EXPECT_TRUE(daemon_.send(uabi::XrcRelay{}));
  EXPECT_TRUE(daemon_.send(uabi::GroupJoined{}));
  wait_for(handler_.groups_joined, 1);
  EXPECT_EQ(handler_.lanes, 1);
  EXPECT_EQ(handler_.tables, 1);
  EXPECT_EQ(handler_.taps, 1);
  EXPECT_EQ(handler_.taps_closed, 1);
  EXPECT_EQ(handler_.peer_gone, 3U);
  EXPECT_EQ(handler_.shared_objects, 1);
}

TEST_F(ConnectionToTheDaemon, SendsInTheOrderOfPosting) {
  attach_and_hear();
  for (std::uint32_t i = 1; i <= 20; ++i) {
    connection_.post(uabi::TapReady{.capture = i});
  }
  for (std::uint32_t i = 1; i <= 20; ++i) {
    const auto received = daemon_.receive(Duration::seconds(10));
    ASSERT_TRUE(received);
    EXPECT_EQ(received->message.get<uabi::TapReady>().capture, i);
  }
}

TEST_F(ConnectionToTheDaemon, SendsOnTheCallersThreadWhatHasADescriptor) {
  ASSERT_TRUE(attach());
  EXPECT_TRUE(daemon_.receive());
  connection_.post_and_send(uabi::ShareDevice{}, os::UniqueFd{eventfd(0, EFD_CLOEXEC)});
  const auto received = daemon_.receive();  // no thread receives from the daemon
  ASSERT_TRUE(received) << received.error().reason;
  EXPECT_EQ(received->descriptors.size(), 1U);
}

TEST_F(ConnectionToTheDaemon, TellsTheProgramOnceThatTheFabricIsGone) {
  attach_and_hear();
  EXPECT_FALSE(connection_.is_gone());
  daemon_.close();
  wait_for(handler_.daemon_gone, 1);
  EXPECT_TRUE(connection_.is_gone());
  connection_.tell_if_gone();
  connection_.stop();
  ASSERT_EQ(program_.teardown_notices.size(), 1U);
  EXPECT_THAT(program_.teardown_notices[0], HasSubstr("fabric lab is gone"));
}

TEST_F(ConnectionToTheDaemon, KnowsOfItsEndWithoutAThreadThatHearsIt) {
  ASSERT_TRUE(attach());
  EXPECT_FALSE(connection_.has_ended());
  daemon_.close();
  EXPECT_TRUE(connection_.has_ended());
  EXPECT_FALSE(connection_.is_gone());
}

TEST_F(ConnectionToTheDaemon, SaysWhyTheDaemonSendsTheProgramAway) {
  attach_and_hear();
  EXPECT_TRUE(daemon_.send(uabi::Refused{.reason = "it floods me"}));
  daemon_.close();
  wait_for(handler_.daemon_gone, 1);
  connection_.stop();
  ASSERT_EQ(program_.teardown_notices.size(), 1U);
  EXPECT_THAT(program_.teardown_notices[0], HasSubstr("it floods me"));
}

}  // namespace
}  // namespace weft::host
