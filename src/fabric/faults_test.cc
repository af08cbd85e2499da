#include "fabric/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using ::testing::ElementsAre;

class Faults : public ::testing::Test {
 protected:
  struct alignas(64) Memory {
    std::array<std::byte, FaultCounters::bytes_needed()> bytes{};
  };

  std::vector<FaultRecord> records(std::string_view text) {
    const auto fault = read_fault(text);
    EXPECT_TRUE(fault) << fault.error().reason;
    return records_of(*fault, next_slot_++, {});
  }
  FaultRecord record(std::string_view text) { return records(text).front(); }
  /// The rules, each on the hop of its index.
  std::vector<LinkFault> on_hops(std::initializer_list<std::string_view> texts) {
    std::vector<LinkFault> faults;
    for (const std::string_view text : texts) {
      faults.push_back({.hop = static_cast<std::uint32_t>(faults.size()), .rule = record(text)});
    }
    return faults;
  }

  FaultSubject packet_{.opcode = wire::Opcode::RcSendOnly,
                       .slid = Lid{1},
                       .dlid = Lid{2},
                       .dest_qp = Qpn{0x12},
                       .psn = Psn{100}};
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  FaultCounters counters_ = FaultCounters::open(memory_->bytes);
  std::uint32_t next_slot_{};
};

TEST_F(Faults, MatchByOpcodePsnAndAddresses) {
  for (const std::string_view text : {"drop", "drop opcode=*send*", "drop slid=1 dlid=2 qp=0x12",
                                      "drop psn=100", "drop psn=99-101", "drop psn=0xffffff-100"}) {
    EXPECT_TRUE(matches(record(text), packet_)) << text;
  }
  for (const std::string_view text :
       {"drop opcode=*write*", "drop slid=2", "drop dlid=1", "drop qp=0x13", "drop psn=101",
        "drop psn=0-99", "drop psn=101-99"}) {
    EXPECT_FALSE(matches(record(text), packet_)) << text;
  }
}

TEST_F(Faults, HitEachSoManyThOfTheRestAtMostSoOften) {
  const FaultRecord rule = record("drop after=2 every=3 count=2");
  std::vector<int> hit;
  for (int n = 1; n <= 20; ++n) {
    if (counters_.applies(rule)) {
      hit.push_back(n);
    }
  }
  EXPECT_THAT(hit, ElementsAre(5, 8));
  EXPECT_EQ(counters_.read(rule.slot).matched, 20U);
  EXPECT_EQ(counters_.read(rule.slot).hit, 2U);
  counters_.clear(rule.slot);
  EXPECT_EQ(counters_.read(rule.slot).matched, 0U);
  EXPECT_EQ(counters_.read(rule.slot).hit, 0U);
}

TEST_F(Faults, HitAboutAsOftenAsTheProbabilitySaysAndReplayFromTheSeed) {
  const auto hits = [&](std::string_view text) {
    const FaultRecord rule = record(text);
    std::vector<bool> hit;
    for (int n = 0; n < 50'000; ++n) {
      hit.push_back(counters_.applies(rule));
    }
    return hit;
  };
  const auto one = hits("drop p=0.01 seed=5");
  EXPECT_NEAR(static_cast<double>(std::ranges::count(one, true)), 500, 100);
  EXPECT_EQ(one, hits("drop p=0.01 seed=5"));
  EXPECT_NE(one, hits("drop p=0.01 seed=6"));
}

TEST_F(Faults, CountsBelongToTheRuleOverAllOfItsLinks) {
  const std::array<PortIndex, 2> ports{PortIndex{3}, PortIndex{7}};
  const auto rules = records_of(*read_fault("drop every=2"), 0, ports);
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].egress, ports[0]);
  EXPECT_EQ(rules[1].egress, ports[1]);
  EXPECT_FALSE(counters_.applies(rules[0]));
  EXPECT_TRUE(counters_.applies(rules[1]));
}

TEST_F(Faults, WithoutCountersHitNothing) {
  FaultCounters none;
  EXPECT_FALSE(none.applies(record("drop")));
  EXPECT_EQ(none.read(0).matched, 0U);
}

TEST_F(Faults, APacketIsLostOnlyOnceAndWhereItIsLost) {
  const auto faults = on_hops({"drop opcode=ud*", "corrupt", "drop"});
  const FaultEffects effects = cross(faults, packet_, counters_);
  ASSERT_EQ(effects.count, 1U);
  EXPECT_EQ(effects.copies[0].end, FaultEffect::End::Damaged);
  EXPECT_EQ(effects.copies[0].hop, 1U);
  EXPECT_EQ(counters_.read(faults[2].rule.slot).matched, 0U) << "it never came to the last link";
}

TEST_F(Faults, ADuplicateMeetsTheRulesBehindTheOneThatMadeIt) {
  const auto faults = on_hops({"duplicate", "drop every=2"});
  const FaultEffects effects = cross(faults, packet_, counters_);
  ASSERT_EQ(effects.count, 2U);
  EXPECT_EQ(effects.copies[0].end, FaultEffect::End::Arrives);
  EXPECT_EQ(effects.copies[1].end, FaultEffect::End::Lost);
  EXPECT_EQ(counters_.read(faults[0].rule.slot).hit, 1U);
}

TEST_F(Faults, NoMoreCopiesAreMadeThanThereIsRoomFor) {
  const auto faults = on_hops({"duplicate", "duplicate", "duplicate", "duplicate", "duplicate"});
  const FaultEffects effects = cross(faults, packet_, counters_);
  EXPECT_EQ(effects.count, FaultEffects::kMaxCopies);
  std::uint64_t hits = 0;
  for (const LinkFault& fault : faults) {
    hits += counters_.read(fault.rule.slot).hit;
  }
  EXPECT_EQ(hits, FaultEffects::kMaxCopies - 1) << "what was not done is not counted";
}

TEST_F(Faults, TimesThatAPacketIsHeldBackAddUp) {
  const auto faults = on_hops({"reorder by=1ms", "reorder by=2ms"});
  const FaultEffects effects = cross(faults, packet_, counters_);
  ASSERT_EQ(effects.count, 1U);
  EXPECT_EQ(effects.copies[0].end, FaultEffect::End::Arrives);
  EXPECT_EQ(effects.copies[0].held_back, Duration::milliseconds(3));
}

/// Rules are part of the tables, and of the paths that cross their links in the given direction.
TEST_F(Faults, ArePartOfThePathsThatCrossTheirLinks) {
  testing::RunningFabric fabric{*generate_star(3)};
  const std::array<PortIndex, 1> into_h2{fabric.port("s1", 2)};
  std::vector<FaultRecord> rules = records_of(*read_fault("corrupt in=h2:1"), 0, into_h2);
  rules.push_back(records_of(*read_fault("drop"), 1, {}).front());
  fabric.builder.set_faults(rules);
  fabric.publish();
  const TablesView view = fabric.view();
  const auto hops_of = [&](std::string_view from, std::string_view to) {
    std::vector<std::pair<std::uint32_t, FaultKind>> hops;
    for (const LinkFault& fault : resolve(view, fabric.port(from, 1), fabric.lid(to)).faults) {
      hops.emplace_back(fault.hop, fault.rule.kind);
    }
    return hops;
  };
  using Pair = std::pair<std::uint32_t, FaultKind>;
  EXPECT_THAT(
      hops_of("h1", "h2"),
      ElementsAre(Pair{0, FaultKind::Drop}, Pair{1, FaultKind::Corrupt}, Pair{1, FaultKind::Drop}));
  EXPECT_THAT(hops_of("h2", "h1"), ElementsAre(Pair{0, FaultKind::Drop}, Pair{1, FaultKind::Drop}));
  const MulticastTree tree = resolve_multicast(view, fabric.port("h1", 1), kBroadcastMlid);
  EXPECT_EQ(tree.faults.size(), tree.edges.size() + 1);
  EXPECT_EQ(tree.timed.size(), tree.edges.size());
}

TEST_F(Faults, ADamagedPacketCountsAsReceivedInErrorAtTheFarEndOfItsLink) {
  const testing::RunningFabric fabric{*generate_star(2)};
  const Path path = resolve(fabric.view(), fabric.port("h1", 1), fabric.lid("h2"));
  const Path damaged = damaged_at(path, 0);
  EXPECT_EQ(damaged.end, PathEnd::Damaged);
  EXPECT_EQ(damaged.stopped_at, fabric.port("s1", 1));
  ASSERT_EQ(damaged.hops.size(), 1U);
  EXPECT_FALSE(damaged.is_delivered());
}

}  // namespace
}  // namespace weft::fabric
