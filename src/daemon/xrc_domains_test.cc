// XRC domains of several processes, through a whole fabric (hca/xrc_relay.h): an initiator on h1, a
// target QP at home in one process of h2, SRQs in others.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "daemon/testing/live_program.h"
#include "daemon/testing/xrc_member.h"

namespace weft::daemon {
namespace {

using testing::connect;
using testing::kReceives;
using testing::LiveFabric;
using testing::modify;
using testing::Program;
using testing::xrc_init;
using testing::XrcChild;
using testing::XrcMember;
using testing::XrcMemberFacts;

class LiveXrcDomain : public ::testing::Test {
 protected:
  LiveXrcDomain() {
    home_->make_target();
    owner_->make_srq();
    initiator_ = *sender_.process->create_qp(0, xrc_init(sender_, hca::QpType::XrcInitiator));
    connect(sender_, *initiator_, home_->program.lid(), home_->target->number());
    connect(home_->program, *home_->target, sender_.lid(), initiator_->number());
    testing::fill(std::span{sender_.memory}.first(kReceives));
  }
  ~LiveXrcDomain() override { EXPECT_TRUE(sender_.process->destroy_qp(0, *initiator_)); }

  void post(hca::WrOpcode opcode, std::size_t offset, std::uint32_t length, std::uint32_t srqn,
            std::uint64_t wr_id = 0) {
    const hca::Sge sge{
        .address = sender_.address() + offset, .length = length, .lkey = sender_.region->lkey};
    hca::SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = hca::Send::Signaled;
    wr.sges = {&sge, 1};
    wr.xrc_srqn = srqn;
    wr.immediate = 77;
    wr.compare_add = 5;
    wr.swap = 9;
    if (owner_) {
      wr.remote_address = owner_->program.address();
      wr.rkey = owner_->program.region->rkey;
    }
    const auto posted = sender_.process->post_send(*initiator_, wr);
    ASSERT_TRUE(posted) << posted.error().reason;
  }

  int file_ = memfd_create("xrc", MFD_CLOEXEC);
  LiveFabric fabric_{"pair"};
  Program sender_{fabric_.on("h1")};
  std::unique_ptr<XrcMember> home_ = std::make_unique<XrcMember>(fabric_, file_);
  std::unique_ptr<XrcMember> owner_ = std::make_unique<XrcMember>(fabric_, file_);
  hca::Qp* initiator_{};
};

TEST_F(LiveXrcDomain, DeliversToTheSrqOfAnotherProcess) {
  owner_->receive(5, 10'000);
  post(hca::WrOpcode::SendWithImmediate, 100, 10'000, owner_->number());
  const hca::Wc received = owner_->program.wait();
  EXPECT_EQ(received.status, hca::WcStatus::Success);
  EXPECT_EQ(received.wr_id, 5U);
  EXPECT_EQ(received.byte_length, 10'000U);
  EXPECT_EQ(received.immediate, 77U);
  EXPECT_EQ(received.qpn, home_->target->number());
  EXPECT_EQ(received.src_qpn, initiator_->number());
  EXPECT_EQ(received.slid, sender_.lid());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  EXPECT_TRUE(std::equal(sender_.memory.begin() + 100, sender_.memory.begin() + 10'100,
                         owner_->program.memory.begin() + kReceives));
  EXPECT_TRUE(home_->program.cq->is_empty());
}

TEST_F(LiveXrcDomain, CarriesOutEveryOperationOnTheOwnersMemory) {
  constexpr std::uint32_t kBytes = 100'000;
  post(hca::WrOpcode::RdmaWrite, 64, kBytes, owner_->number());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  EXPECT_TRUE(std::equal(sender_.memory.begin() + 64, sender_.memory.begin() + 64 + kBytes,
                         owner_->program.memory.begin()));
  post(hca::WrOpcode::RdmaRead, kReceives, kBytes, owner_->number());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  EXPECT_TRUE(std::equal(sender_.memory.begin() + 64, sender_.memory.begin() + 64 + kBytes,
                         sender_.memory.begin() + kReceives));
  owner_->receive(6, 0);
  post(hca::WrOpcode::RdmaWriteWithImmediate, 1'000, 5'000, owner_->number());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  const hca::Wc written = owner_->program.wait();
  EXPECT_EQ(written.opcode, hca::WcOpcode::ReceiveRdmaWithImmediate);
  EXPECT_EQ(written.byte_length, 5'000U);
  std::array<std::uint64_t, 3> word{40, 0, 0};
  const auto owners = std::as_writable_bytes(std::span{word});
  std::ranges::copy(owners.first(8), owner_->program.memory.begin());
  post(hca::WrOpcode::FetchAdd, kReceives, 8, owner_->number());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  post(hca::WrOpcode::CompareSwap, kReceives + 8, 8, owner_->number());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  std::copy_n(sender_.memory.begin() + kReceives, 16, owners.begin());
  std::copy_n(owner_->program.memory.begin(), 8, owners.begin() + 16);
  EXPECT_EQ(word, (std::array<std::uint64_t, 3>{40, 45, 45}));
}

/// Messages to three processes in turns, the home's own among them: each SRQ has its own, in order.
TEST_F(LiveXrcDomain, KeepsTheOrderOfMessagesToSrqsOfSeveralProcesses) {
  XrcMember third{fabric_, file_};
  third.make_srq();
  home_->make_srq();
  const std::array<XrcMember*, 3> owners{home_.get(), owner_.get(), &third};
  constexpr std::uint64_t kMessages = 600;
  const auto length_of = [](std::uint64_t message) {
    return static_cast<std::uint32_t>(message * 131 % 40'000);
  };
  const auto owner_of = [&](std::uint64_t message) { return message * 7 / 3 % 3; };
  std::array<std::uint64_t, 3> next{};  // that each expects
  std::array<std::uint64_t, 3> given{};
  const auto find_next = [&](std::size_t which, std::uint64_t from) {
    while (from < kMessages && owner_of(from) != which) {
      ++from;
    }
    return from;
  };
  for (std::size_t which = 0; which < 3; ++which) {
    next[which] = given[which] = find_next(which, 0);
  }
  std::uint64_t posted = 0;
  std::uint64_t sent = 0;
  const auto all = std::array{kMessages, kMessages, kMessages};
  const Instant deadline = os::now() + Duration::seconds(60);
  while ((sent < kMessages || next != all) && os::now() < deadline) {
    for (std::size_t which = 0; which < 3; ++which) {
      if (given[which] < kMessages && owners[which]->srq->size() < 4) {
        owners[which]->receive(given[which], 40'000);
        given[which] = find_next(which, given[which] + 1);
      }
      hca::Wc wc;
      owners[which]->program.process->make_progress(*owners[which]->program.cq);
      while (owners[which]->program.cq->poll({&wc, 1}) != 0) {
        ASSERT_EQ(wc.status, hca::WcStatus::Success);
        ASSERT_EQ(wc.wr_id, next[which]);
        ASSERT_EQ(wc.byte_length, length_of(wc.wr_id));
        next[which] = find_next(which, next[which] + 1);
      }
    }
    if (posted < kMessages && posted - sent < 16) {
      post(hca::WrOpcode::Send, posted % 1'000, length_of(posted),
           owners[owner_of(posted)]->number(), posted);
      ++posted;
    }
    hca::Wc wc;
    sender_.process->make_progress(*sender_.cq);
    while (sender_.cq->poll({&wc, 1}) != 0) {
      ASSERT_EQ(wc.status, hca::WcStatus::Success) << sender_.events.reasons;
      ASSERT_EQ(wc.wr_id, sent++);
    }
  }
  EXPECT_EQ(sent, kMessages);
  EXPECT_EQ(next, all);
}

TEST_F(LiveXrcDomain, WaitsForAnOwnerThatIsNotReady) {
  post(hca::WrOpcode::Send, 0, 3'000, owner_->number());
  for (const Instant until = os::now() + Duration::milliseconds(20); os::now() < until;) {
    sender_.process->make_progress(*sender_.cq);
  }
  EXPECT_TRUE(sender_.cq->is_empty());
  owner_->receive(8, 3'000);
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  EXPECT_EQ(owner_->program.wait().wr_id, 8U);
}

TEST_F(LiveXrcDomain, RefusesWhatTheOwnerRefuses) {
  owner_->receive(8, 10);
  post(hca::WrOpcode::Send, 0, 3'000, owner_->number());
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::RemoteInvalidRequest);
  EXPECT_EQ(owner_->program.wait().status, hca::WcStatus::LocalLengthError);
  EXPECT_EQ(home_->target->query().state, hca::QpState::Err);
}

TEST_F(LiveXrcDomain, RefusesAnSrqThatNoMemberHas) {
  post(hca::WrOpcode::Send, 0, 8, owner_->number() + 1);
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::RemoteAccessError);
}

/// The SRQ exists, but its process does not have this domain open, so the daemon does not relay the
/// request for a proxy QP.
TEST_F(LiveXrcDomain, RefusesAnSrqOfAProcessOutsideTheDomain) {
  const int other_file = memfd_create("other", MFD_CLOEXEC);
  {
    XrcMember stranger{fabric_, other_file};
    stranger.make_srq();
    stranger.receive(1, 8);
    post(hca::WrOpcode::Send, 0, 8, stranger.number());
    EXPECT_EQ(sender_.wait().status, hca::WcStatus::RemoteAccessError);
    EXPECT_EQ(stranger.srq->size(), 1U);
  }
  close(other_file);
}

TEST_F(LiveXrcDomain, RefusesAnSrqWhoseProcessHasClosedTheDomain) {
  owner_->receive(5, 64);
  const std::uint32_t number = owner_->number();
  post(hca::WrOpcode::Send, 0, 64, number);
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
  owner_.reset();  // with its SRQ and its proxy
  post(hca::WrOpcode::Send, 0, 64, number);
  EXPECT_EQ(sender_.wait().status, hca::WcStatus::RemoteAccessError);
}

/// A reconnected target gets new proxies, because PSNs and partial messages belong to the old
/// connection.
TEST_F(LiveXrcDomain, BeginsAnewWithTheTargetsNextConnection) {
  for (int round = 0; round < 3; ++round) {
    owner_->receive(5, 8'000);
    post(hca::WrOpcode::Send, 0, 8'000, owner_->number());
    EXPECT_EQ(sender_.wait().status, hca::WcStatus::Success);
    EXPECT_EQ(owner_->program.wait().status, hca::WcStatus::Success);
    hca::QpAttributes reset;
    modify(sender_, *initiator_, reset, hca::QpAttribute::State);
    modify(home_->program, *home_->target, reset, hca::QpAttribute::State);
    connect(sender_, *initiator_, home_->program.lid(), home_->target->number());
    connect(home_->program, *home_->target, sender_.lid(), initiator_->number());
  }
}

TEST_F(LiveXrcDomain, OpensAsItsFlagsSay) {
  host::Process& process = *sender_.process;  // on h1, where no process has it open
  EXPECT_EQ(process.open_xrc_domain(0, file_, false, false).error().code, ErrorCode::TryAgain);
  EXPECT_EQ(owner_->program.process->open_xrc_domain(0, file_, true, true).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(process.open_xrc_domain(0, 9'999, true, false).error().code,
            ErrorCode::InvalidArgument);
  const auto opened = process.open_xrc_domain(0, file_, true, true);
  ASSERT_TRUE(opened);
  EXPECT_NE((*opened)->name, owner_->domain->name);
  EXPECT_TRUE(process.close_xrc_domain(0, **opened));
  EXPECT_EQ(process.open_xrc_domain(0, file_, false, false).error().code, ErrorCode::TryAgain)
      << "it went with the last who had it open";
}

// --- processes that are killed

/// WRITEs until one fails; `until` is called after a few. Returns how the first one failed.
template <class Until>
hca::WcStatus write_until_failure(Program& sender, hca::Qp& initiator, std::uint32_t srqn,
                                  std::uint64_t address, RKey rkey, Until until) {
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  const Instant deadline = os::now() + Duration::seconds(30);
  while (os::now() < deadline) {
    if (posted - done < 8) {
      const hca::Sge sge{
          .address = sender.address(), .length = 60'000, .lkey = sender.region->lkey};
      hca::SendWr wr;
      wr.opcode = posted % 3 == 0 ? hca::WrOpcode::RdmaRead : hca::WrOpcode::RdmaWrite;
      wr.flags = hca::Send::Signaled;
      wr.sges = {&sge, 1};
      wr.xrc_srqn = srqn;
      wr.remote_address = address;
      wr.rkey = rkey;
      EXPECT_TRUE(sender.process->post_send(initiator, wr));
      ++posted;
    }
    hca::Wc wc;
    sender.process->make_progress(*sender.cq);
    while (sender.cq->poll({&wc, 1}) != 0) {
      if (wc.status != hca::WcStatus::Success) {
        EXPECT_GE(done, 20U) << "too early\n" << sender.events.reasons;
        for (hca::Wc rest; sender.cq->poll({&rest, 1}) != 0;) {
        }
        return wc.status;
      }
      if (++done == 20) {
        until();
      }
    }
  }
  return hca::WcStatus::GeneralError;
}

TEST(KilledXrcMember, TakesItsSrqsAlong) {
  const int file = memfd_create("xrc", MFD_CLOEXEC);
  XrcChild child{file};
  const LiveFabric fabric{"pair"};
  Program sender{fabric.on("h1")};
  hca::Qp* const initiator =
      *sender.process->create_qp(0, xrc_init(sender, hca::QpType::XrcInitiator));
  const XrcMemberFacts told = child.start(fabric, initiator->number(), sender.lid());
  XrcMember home{fabric.on("h2"), file};
  home.make_target();
  connect(sender, *initiator, home.program.lid(), home.target->number());
  connect(home.program, *home.target, sender.lid(), initiator->number());
  EXPECT_EQ(write_until_failure(sender, *initiator, told.srqn, told.address, RKey{told.rkey},
                                [&] { child.kill(); }),
            hca::WcStatus::RemoteAccessError)
      << sender.events.reasons << home.program.events.reasons;
  // The target and the domain live on, for others.
  hca::QpAttributes reset;
  modify(sender, *initiator, reset, hca::QpAttribute::State);
  modify(home.program, *home.target, reset, hca::QpAttribute::State);
  connect(sender, *initiator, home.program.lid(), home.target->number());
  connect(home.program, *home.target, sender.lid(), initiator->number());
  XrcMember other{fabric.on("h2"), file};
  other.make_srq();
  int writes = 0;
  EXPECT_NE(write_until_failure(sender, *initiator, other.number(), other.program.address(),
                                other.program.region->rkey,
                                [&] {
                                  ++writes;
                                  hca::QpAttributes error;
                                  error.state = hca::QpState::Err;
                                  modify(sender, *initiator, error, hca::QpAttribute::State);
                                }),
            hca::WcStatus::GeneralError);
  EXPECT_EQ(writes, 1) << sender.events.reasons << home.program.events.reasons
                       << other.program.events.reasons;
  EXPECT_TRUE(sender.process->destroy_qp(0, *initiator));
}

TEST(KilledXrcMember, TakesItsTargetsAlongAndLeavesNothingWithTheOwner) {
  const int file = memfd_create("xrc", MFD_CLOEXEC);
  XrcChild child{file};
  const LiveFabric fabric{"pair"};
  Program sender{fabric.on("h1")};
  hca::Qp* const initiator =
      *sender.process->create_qp(0, xrc_init(sender, hca::QpType::XrcInitiator));
  const XrcMemberFacts told = child.start(fabric, initiator->number(), sender.lid());
  connect(sender, *initiator, Lid{told.lid}, Qpn{told.target});
  {
    XrcMember owner{fabric.on("h2"), file};
    owner.make_srq();
    EXPECT_EQ(write_until_failure(sender, *initiator, owner.number(), owner.program.address(),
                                  owner.program.region->rkey, [&] { child.kill(); }),
              hca::WcStatus::RetryExceeded);
  }  // its SRQ and domain disappear when the daemon has processed the end
  const Program later{fabric.on("h2")};
  const auto exists = [&] {
    const auto opened = later.process->open_xrc_domain(0, file, false, false);
    if (opened) {
      EXPECT_TRUE(later.process->close_xrc_domain(0, **opened));
    } else {
      EXPECT_EQ(opened.error().code, ErrorCode::TryAgain);
    }
    return opened.has_value();
  };
  const Instant deadline = os::now() + Duration::seconds(5);
  while (exists() && os::now() < deadline) {
  }
  EXPECT_FALSE(exists());
  EXPECT_TRUE(sender.process->destroy_qp(0, *initiator));
}

}  // namespace
}  // namespace weft::daemon
