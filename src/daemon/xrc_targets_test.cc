// Target QPs of another process, opened in a shared XRC domain (ibv_open_qp(3)): the home process
// keeps them while any process has them open; modify, query and events are relayed.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/process_slot.h"
#include "daemon/testing/live_program.h"
#include "daemon/testing/xrc_member.h"
#include "host/control_socket.h"
#include "os/run_directory.h"
#include "verbs/mtu.h"

namespace weft::daemon {
namespace {

using testing::connect;
using testing::kReceives;
using testing::LiveFabric;
using testing::Program;
using testing::xrc_init;
using testing::XrcChild;
using testing::XrcMember;
using testing::XrcMemberFacts;

/// Waits, within a bound, for an event of that type for a target.
[[nodiscard]] bool hears(Program& program, Qpn target, hca::AsyncEventType type) {
  const Instant deadline = os::now() + Duration::seconds(10);
  while (os::now() < deadline) {
    const std::lock_guard guard{program.events.lock};
    if (std::ranges::find(program.events.target_events, std::pair{target, type}) !=
        program.events.target_events.end()) {
      return true;
    }
  }
  return false;
}

class LiveXrcTarget : public ::testing::Test {
 protected:
  LiveXrcTarget() {
    home_->make_target();
    opener_->make_srq();
    target_ = home_->target->number();
    initiator_ = *sender_.process->create_qp(0, xrc_init(sender_, hca::QpType::XrcInitiator));
    testing::fill(std::span{sender_.memory}.first(kReceives));
  }
  ~LiveXrcTarget() override { EXPECT_TRUE(sender_.process->destroy_qp(0, *initiator_)); }

  [[nodiscard]] host::Process& opener() const { return *opener_->program.process; }
  [[nodiscard]] std::uint32_t domain() const { return opener_->domain->name; }
  [[nodiscard]] bool open() const {
    const auto opened = opener().open_target(*opener_->domain, target_);
    return opened && *opened == nullptr;
  }
  [[nodiscard]] hca::QpState state() const {
    const auto asked = opener().query_target(domain(), target_);
    EXPECT_TRUE(asked) << asked.error().reason;
    return asked ? asked->state : hca::QpState::Reset;
  }
  /// From the process that did not make it, through Init to RTR.
  void connect_from_opener() const {
    using A = hca::QpAttribute;
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    to.access = hca::AccessFlags{hca::Access::RemoteWrite} | hca::Access::RemoteRead;
    auto modified = opener().modify_target(
        domain(), target_, to,
        hca::QpAttributeMask{A::State} | A::PKeyIndex | A::Port | A::RemoteAccess);
    ASSERT_TRUE(modified) << modified.error().reason;
    to.state = hca::QpState::Rtr;
    to.path_mtu = verbs::Mtu::Mtu1024;
    to.dest_qpn = initiator_->number();
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 1;
    to.address.dlid = sender_.lid();
    to.address.port = PortNumber{1};
    modified =
        opener().modify_target(domain(), target_, to,
                               hca::QpAttributeMask{A::State} | A::AddressVector | A::PathMtu |
                                   A::DestQpn | A::RqPsn | A::MaxDestRdAtomic | A::MinRnrTimer);
    ASSERT_TRUE(modified) << modified.error().reason;
  }
  void send() {
    opener_->receive(5, 3'000);
    const hca::Sge sge{.address = sender_.address(), .length = 3'000, .lkey = sender_.region->lkey};
    hca::SendWr wr;
    wr.opcode = hca::WrOpcode::Send;
    wr.flags = hca::Send::Signaled;
    wr.sges = {&sge, 1};
    wr.xrc_srqn = opener_->number();
    ASSERT_TRUE(sender_.process->post_send(*initiator_, wr));
  }
  void expect_delivery() {
    send();
    EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success) << sender_.events.reasons;
    const hca::Wc received = opener_->program.wait();
    EXPECT_EQ(received.status, hca::WcStatus::Success);
    EXPECT_EQ(received.qpn, target_);
  }

  int file_ = memfd_create("xrc", MFD_CLOEXEC);
  LiveFabric fabric_{"pair"};
  Program sender_{fabric_.on("h1")};
  std::unique_ptr<XrcMember> home_ = std::make_unique<XrcMember>(fabric_, file_);
  std::unique_ptr<XrcMember> opener_ = std::make_unique<XrcMember>(fabric_, file_);
  hca::Qp* initiator_{};
  Qpn target_;
};

TEST_F(LiveXrcTarget, IsConnectedAndQueriedByAProcessThatDidNotMakeIt) {
  ASSERT_TRUE(open());
  EXPECT_EQ(state(), hca::QpState::Reset);
  connect_from_opener();
  EXPECT_EQ(state(), hca::QpState::Rtr);
  EXPECT_EQ(home_->target->query().dest_qpn, initiator_->number());
  const auto asked = opener().query_target(domain(), target_);
  EXPECT_EQ(asked->dest_qpn, initiator_->number());
  EXPECT_EQ(asked->address.dlid, sender_.lid());
  EXPECT_EQ(asked->path_mtu, verbs::Mtu::Mtu1024);
  connect(sender_, *initiator_, home_->program.lid(), target_);
  expect_delivery();
  opener().close_target(domain(), target_);
}

TEST_F(LiveXrcTarget, ExplainsAModificationThatItsHomeRefuses) {
  ASSERT_TRUE(open());
  hca::QpAttributes to;
  to.state = hca::QpState::Rts;
  const auto refused = opener().modify_target(domain(), target_, to, hca::QpAttribute::State);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(refused.error().reason,
            home_->program.process->modify_qp(*home_->target, to, hca::QpAttribute::State)
                .error()
                .reason);
  opener().close_target(domain(), target_);
}

TEST_F(LiveXrcTarget, TellsItsEventsToAllWhoHaveItOpen) {
  ASSERT_TRUE(open());
  connect_from_opener();
  connect(sender_, *initiator_, home_->program.lid(), target_);
  expect_delivery();
  EXPECT_TRUE(hears(opener_->program, target_, hca::AsyncEventType::CommunicationEstablished));
  opener().close_target(domain(), target_);
}

/// ibv_open_qp(3): destroying a handle destroys the QP only if it is the last one.
TEST_F(LiveXrcTarget, StaysWhenItsOwnProgramDestroysItWhileAnotherHasItOpen) {
  ASSERT_TRUE(open());
  connect_from_opener();
  connect(sender_, *initiator_, home_->program.lid(), target_);
  expect_delivery();
  host::Process& home = *home_->program.process;
  EXPECT_TRUE(home.release_target(0, *std::exchange(home_->target, nullptr)));
  EXPECT_TRUE(home.close_xrc_domain(0, *home_->domain)) << "its program is done with it";
  expect_delivery();
  EXPECT_EQ(state(), hca::QpState::Rtr);
  // The program that created it opens it again.
  const auto again = home.open_xrc_domain(0, file_, false, false);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, home_->domain);
  const auto handle = home.open_target(**again, target_);
  ASSERT_TRUE(handle);
  ASSERT_NE(*handle, nullptr);
  EXPECT_EQ((*handle)->number(), target_);
  EXPECT_TRUE(home.release_target(0, **handle));
  opener().close_target(domain(), target_);
  const Instant deadline = os::now() + Duration::seconds(10);
  while (home_->domain->uses.load() != 0 && os::now() < deadline) {
  }
  EXPECT_EQ(home_->domain->uses.load(), 0U) << "the last handle destroyed it";
  EXPECT_FALSE(opener().open_target(*opener_->domain, target_));
}

TEST_F(LiveXrcTarget, OfAClosedDomainGoesWithTheLastProcessThatHasItOpen) {
  ASSERT_TRUE(open());
  host::Process& home = *home_->program.process;
  EXPECT_TRUE(home.release_target(0, *std::exchange(home_->target, nullptr)));
  EXPECT_TRUE(home.close_xrc_domain(0, *home_->domain));
  opener().close_target(domain(), target_);
  EXPECT_FALSE(opener().open_target(*opener_->domain, target_)) << "words keep their order";
  home_->domain = *home.open_xrc_domain(0, file_, false, false);
  EXPECT_EQ(home_->domain->uses.load(), 0U);
}

TEST_F(LiveXrcTarget, IsOpenedOnlyInItsDomainAndUnderItsNumber) {
  const auto missing = opener().open_target(*opener_->domain, Qpn{target_.value() + 1});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::InvalidArgument);
  const int other_file = memfd_create("other", MFD_CLOEXEC);
  {
    XrcMember stranger{fabric_, other_file};
    const auto outside = stranger.program.process->open_target(*stranger.domain, target_);
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().code, ErrorCode::InvalidArgument);
  }
  close(other_file);
  // Not opened: not to be used.
  EXPECT_EQ(opener().query_target(domain(), target_).error().code, ErrorCode::PermissionDenied);
}

/// A hostile member of the domain: forged verbs, attributes, answers and events, also as floods
/// (docs/ARCHITECTURE.md, decision 11).
class LyingMember {
 public:
  LyingMember(const LiveFabric& fabric, int file)
      : socket_(*host::ControlSocket::connect(
            os::control_path(fabric.on("h2").run, fabric.on("h2").fabric))) {
    EXPECT_TRUE(socket_.send(uabi::Hello{.host = "h2"}));
    self_ = add_reported<uabi::Welcome>().get<uabi::Welcome>().self;
    EXPECT_TRUE(socket_.send(
        uabi::OpenXrcDomain{.request = 1, .hca = 0, .creates = true, .is_exclusive = false},
        {&file, 1}));
    domain_ = add_reported<uabi::XrcDomainOpened>().get<uabi::XrcDomainOpened>().domain;
  }
  template <class Wanted>
  uabi::Message add_reported() {
    while (true) {
      auto received = socket_.receive(Duration::seconds(5));
      if (!received) {
        ADD_FAILURE() << received.error().reason;
        return Wanted{};
      }
      if (received->message.holds<Wanted>()) {
        return received->message;
      }
    }
  }
  [[nodiscard]] std::string ask(uabi::TargetVerb verb, Qpn target,
                                const verbs::QpModification& modification) {
    uabi::XrcTargetRequest question;
    question.peer = {.node = self_.node, .slot = slot_of(target)};
    question.domain = domain_;
    question.verb = verb;
    question.target = target;
    question.modification = modification;
    EXPECT_TRUE(socket_.send(question));
    const auto answer = add_reported<uabi::XrcTargetAnswer>().get<uabi::XrcTargetAnswer>();
    return answer.error == 0 ? "" : answer.reason;
  }
  void say(uabi::Message message) { static_cast<void>(!socket_.send(message)); }
  [[nodiscard]] std::uint32_t domain() const { return domain_; }

 private:
  host::ControlSocket socket_;
  uabi::ProcessAddress self_;
  std::uint32_t domain_{};
};

TEST_F(LiveXrcTarget, IsUnharmedByAMemberThatLies) {
  ASSERT_TRUE(open());
  connect_from_opener();
  connect(sender_, *initiator_, home_->program.lid(), target_);
  expect_delivery();
  LyingMember liar{fabric_, file_};
  verbs::QpModification wild{.mask = verbs::QpAttribute::State,
                             .attributes = {.state = verbs::QpState::Err}};
  EXPECT_NE(liar.ask(uabi::TargetVerb::Modify, target_, wild), "") << "it has not opened it";
  EXPECT_NE(liar.ask(uabi::TargetVerb::Open, Qpn{target_.value() ^ 1}, wild), "");
  EXPECT_EQ(liar.ask(uabi::TargetVerb::Open, target_, wild), "");
  wild.attributes.state = verbs::QpState::Rts;  // which needs a timeout and a PSN, too
  EXPECT_NE(liar.ask(uabi::TargetVerb::Modify, target_, wild), "");
  wild.mask = verbs::QpAttributeMask::from_bits(~std::uint32_t{0});
  EXPECT_NE(liar.ask(uabi::TargetVerb::Modify, target_, wild), "");
  const uabi::ProcessAddress from = opener_->program.process->address();
  const uabi::ProcessAddress home = home_->program.process->address();
  for (std::uint32_t i = 0; i < 2'000; ++i) {
    liar.say(uabi::XrcTargetEvent{.peer = from,
                                  .domain = liar.domain(),
                                  .target = target_,
                                  .event = verbs::AsyncEventType::QpFatal});
    liar.say(uabi::XrcTargetAnswer{.peer = from,
                                   .domain = liar.domain(),
                                   .serial = i % 64,
                                   .error = 3,
                                   .reason = "as I say",
                                   .attributes = {}});
    uabi::XrcTargetRequest close;
    close.peer = home;
    close.domain = liar.domain();
    close.verb = uabi::TargetVerb::Close;
    close.target = target_;
    liar.say(close);
  }
  EXPECT_EQ(state(), hca::QpState::Rtr);
  expect_delivery();
  {
    const std::lock_guard guard{opener_->program.events.lock};
    for (const auto& [target, type] : opener_->program.events.target_events) {
      EXPECT_NE(type, hca::AsyncEventType::QpFatal) << "the liar is not the target's home";
    }
  }
  opener().close_target(domain(), target_);
}

/// The responder's state was in the memory of the killed process, so the target cannot continue.
TEST(KilledXrcHome, EndsItsTargetForAllWhoHaveItOpen) {
  const int file = memfd_create("xrc", MFD_CLOEXEC);
  XrcChild child{file};
  const LiveFabric fabric{"pair"};
  Program sender{fabric.on("h1")};
  hca::Qp* const initiator =
      *sender.process->create_qp(0, xrc_init(sender, hca::QpType::XrcInitiator));
  const XrcMemberFacts told = child.start(fabric, initiator->number(), sender.lid());
  connect(sender, *initiator, Lid{told.lid}, Qpn{told.target});
  {
    XrcMember opener{fabric.on("h2"), file};
    const auto opened = opener.program.process->open_target(*opener.domain, Qpn{told.target});
    ASSERT_TRUE(opened) << opened.error().reason;
    child.kill();
    EXPECT_TRUE(hears(opener.program, Qpn{told.target}, hca::AsyncEventType::QpFatal));
    const auto asked = opener.program.process->query_target(opener.domain->name, Qpn{told.target});
    ASSERT_TRUE(asked) << asked.error().reason;
    EXPECT_EQ(asked->state, hca::QpState::Err);
    hca::QpAttributes reset;
    EXPECT_EQ(
        opener.program.process
            ->modify_target(opener.domain->name, Qpn{told.target}, reset, hca::QpAttribute::State)
            .error()
            .code,
        ErrorCode::NoSuchDevice);
    const hca::Sge sge{.address = sender.address(), .length = 8, .lkey = sender.region->lkey};
    hca::SendWr wr;
    wr.opcode = hca::WrOpcode::Send;
    wr.flags = hca::Send::Signaled;
    wr.sges = {&sge, 1};
    wr.xrc_srqn = told.srqn;
    ASSERT_TRUE(sender.process->post_send(*initiator, wr));
    EXPECT_EQ(sender.wait().status, hca::WcStatus::RetryExceeded);
    opener.program.process->close_target(opener.domain->name, Qpn{told.target});
  }
  EXPECT_TRUE(sender.process->destroy_qp(0, *initiator));
  close(file);
}

/// A dead opener is not counted any more: targets that only it had open are destroyed.
TEST(KilledXrcOpener, LeavesTheTargetToTheOthers) {
  const int file = memfd_create("xrc", MFD_CLOEXEC);
  const LiveFabric fabric{"pair"};
  XrcMember home{fabric.on("h2"), file};
  home.make_target();
  const Qpn target = home.target->number();
  {
    auto opener = std::make_unique<XrcMember>(fabric.on("h2"), file);
    ASSERT_TRUE(opener->program.process->open_target(*opener->domain, target));
    EXPECT_TRUE(home.program.process->release_target(0, *std::exchange(home.target, nullptr)));
    EXPECT_EQ(home.domain->uses.load(), 1U);
  }  // without closing its handle
  const Instant deadline = os::now() + Duration::seconds(10);
  while (home.domain->uses.load() != 0 && os::now() < deadline) {
  }
  EXPECT_EQ(home.domain->uses.load(), 0U);
  close(file);
}

}  // namespace
}  // namespace weft::daemon
