#include "ulp/srp/multipath.h"

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <vector>

namespace weft::srp {
namespace {

using Octets = std::vector<std::byte>;

/// A path whose target the test plays.
class PathEnd final : public SessionClient, public InitiatorConnection, public MemoryMapper {
 public:
  PathEnd(Multipath& multipath, const Instant& now)
      : session(*this, *this, *this, {}), multipath_(multipath), now_(now) {
    index = multipath.add_path(session);
  }

  void connect(ByteSpan /*login_req*/) override {}
  Result<void> post_send(ByteSpan unit) override {
    units.emplace_back(unit.begin(), unit.end());
    return {};
  }
  void disconnect() override {}
  Result<Mapping> map(std::span<const LocalPiece> /*pieces*/) override { return Mapping{}; }
  Result<Mapping> place_table(ByteSpan /*octets*/) override { return Mapping{}; }
  void unmap(std::uint64_t /*token*/) override {}
  void handle_outcome(std::uint64_t id, const Outcome& outcome) override {
    multipath_.handle_outcome(index, id, outcome, now_);
  }
  void handle_path_state(PathState state) override {
    multipath_.handle_path_state(index, state, now_);
  }
  void handle_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}

  void log_in() {
    session.start(now_);
    session.handle_connected(
        wire::pack(wire::SrpLoginRsp{.request_limit_delta = 8, .max_initiator_iu_length = 1024}),
        now_);
  }
  void answer_last() {
    const auto command = wire::parse<wire::SrpCmd>(units.back());
    session.handle_receive(
        wire::to_unit(wire::SrpRsp{.request_limit_delta = 1, .tag = command->tag}), now_);
  }

  /// The oldest that was not answered.
  void answer_first() {
    const auto command = wire::parse<wire::SrpCmd>(units.at(answered_++));
    session.handle_receive(
        wire::to_unit(wire::SrpRsp{.request_limit_delta = 1, .tag = command->tag}), now_);
  }

  Session session;
  std::size_t index{};
  std::vector<Octets> units;

 private:
  Multipath& multipath_;
  const Instant& now_;
  std::size_t answered_{};
};

class SrpMultipath : public ::testing::Test, public MultipathClient {
 protected:
  explicit SrpMultipath(PathChoice choice = PathChoice::Stay) : multipath{*this, choice} {}

  void handle_outcome(std::uint64_t id, const Outcome& outcome) override {
    EXPECT_FALSE(outcomes.contains(id));
    outcomes[id] = outcome.kind;
  }
  void submit(std::uint64_t id, bool may_repeat = true) {
    EXPECT_TRUE(multipath.submit({.id = id, .cdb = Octets(6)}, may_repeat, now).has_value());
  }
  void pass(Duration time) {
    now = now + time;
    first.session.handle_timeout(now);
    second.session.handle_timeout(now);
  }

  Instant now{};
  Multipath multipath;
  PathEnd first{multipath, now};
  PathEnd second{multipath, now};
  std::map<std::uint64_t, Outcome::Kind> outcomes;
};

class SrpPreferredPath : public SrpMultipath {
 protected:
  SrpPreferredPath() : SrpMultipath{PathChoice::PreferFirst} {}
};

TEST_F(SrpMultipath, RepeatsOnTheOtherPathWhatWasInterrupted) {
  first.log_in();
  second.log_in();
  submit(1);
  EXPECT_EQ(first.units.size(), 1U);
  first.session.handle_lost(now);
  EXPECT_TRUE(outcomes.empty());
  ASSERT_EQ(second.units.size(), 1U);
  second.answer_last();
  EXPECT_EQ(outcomes.at(1), Outcome::Kind::Answered);
  submit(2);
  EXPECT_EQ(second.units.size(), 2U);  // it stays with the path that works
  EXPECT_EQ(multipath.active_path(), second.index);
}

TEST_F(SrpMultipath, WhatWaitsForALostPathTakesTheOther) {
  first.log_in();
  second.log_in();
  for (std::uint64_t id = 1; id <= 9; ++id) {
    submit(id);  // more than there are credits
  }
  EXPECT_EQ(first.units.size(), 7U);
  EXPECT_EQ(first.session.queued(), 2U);
  first.session.handle_lost(now);
  EXPECT_EQ(first.session.queued(), 0U) << "they would wait until it fails fast";
  EXPECT_EQ(second.units.size(), 7U);
  EXPECT_EQ(second.session.queued(), 2U);
  while (outcomes.size() < 9) {
    const std::size_t before = outcomes.size();
    second.answer_first();
    ASSERT_EQ(outcomes.size(), before + 1);
  }
}

TEST_F(SrpMultipath, AbortsWhereTheRequestIs) {
  first.log_in();
  submit(1);
  ASSERT_TRUE(multipath.abort(1, now).has_value());
  ASSERT_EQ(first.units.size(), 2U);
  EXPECT_EQ(*wire::srp_opcode(first.units.back()), wire::SrpOpcode::TskMgmt);
  EXPECT_EQ(multipath.abort(2, now).error().code, ErrorCode::NotFound);
  first.session.handle_lost(now);
  submit(3);  // held: no path is live
  ASSERT_TRUE(multipath.abort(3, now).has_value());
  EXPECT_EQ(outcomes.at(3), Outcome::Kind::Aborted);
}

/// Of two paths that are live from the start, the first of which is preferred.
TEST_F(SrpPreferredPath, TakesTheFirstAgainWhenItIsBackAndKnownToBeTheUnits) {
  multipath.set_usable(first.index, false, now);
  first.log_in();
  submit(1);
  EXPECT_TRUE(first.units.empty()) << "nobody knows yet where it leads to";
  EXPECT_TRUE(outcomes.empty());
  multipath.set_usable(first.index, true, now);
  EXPECT_EQ(first.units.size(), 1U);
  second.log_in();
  first.session.handle_lost(now);
  multipath.set_usable(first.index, false, now);
  submit(2);
  EXPECT_EQ(second.units.size(), 2U) << "the interrupted one, and the new one";

  pass(Duration::seconds(10));
  first.session.handle_connected(
      wire::pack(wire::SrpLoginRsp{.request_limit_delta = 8, .max_initiator_iu_length = 1024}),
      now);
  submit(3);
  EXPECT_EQ(second.units.size(), 3U);
  EXPECT_EQ(multipath.next_path(), second.index);
  multipath.set_usable(first.index, true, now);
  submit(4);
  EXPECT_EQ(second.units.size(), 3U);
  EXPECT_EQ(first.units.size(), 2U);
  EXPECT_EQ(multipath.active_path(), first.index);
}

TEST_F(SrpMultipath, DoesNotRepeatWhatMustNotBeExecutedTwice) {
  first.log_in();
  second.log_in();
  submit(1, false);
  first.session.handle_lost(now);
  EXPECT_EQ(outcomes.at(1), Outcome::Kind::Interrupted);
  EXPECT_TRUE(second.units.empty());
}

TEST_F(SrpMultipath, HoldsRequestsUntilAPathIsBackOrAllHaveFailed) {
  first.log_in();
  second.log_in();
  submit(1);
  second.session.handle_lost(now);
  first.session.handle_lost(now);
  EXPECT_TRUE(outcomes.empty());
  EXPECT_EQ(multipath.pending(), 1U);
  pass(Duration::seconds(10));
  first.session.handle_connected(
      wire::pack(wire::SrpLoginRsp{.request_limit_delta = 8, .max_initiator_iu_length = 1024}),
      now);
  ASSERT_EQ(first.units.size(), 2U);
  first.answer_last();
  EXPECT_EQ(outcomes.at(1), Outcome::Kind::Answered);

  first.session.handle_lost(now);
  submit(2);
  pass(Duration::seconds(5));  // the second path has failed fast; the first may come back
  EXPECT_FALSE(outcomes.contains(2));
  pass(Duration::seconds(10));
  EXPECT_EQ(outcomes.at(2), Outcome::Kind::PathFailed);
  first.session.stop(now);
  second.session.stop(now);
  EXPECT_FALSE(multipath.submit({.id = 3, .cdb = Octets(6)}, true, now).has_value());
}

}  // namespace
}  // namespace weft::srp
