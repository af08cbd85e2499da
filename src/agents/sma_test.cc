// M_Key protection and traps (IBTA vol 1 §14.2.4, §14.3.11).

#include <gtest/gtest.h>

#include "agents/testing/managed_fabric.h"
#include "wire/mad/notice_details.h"

namespace weft::agents {
namespace {

using testing::Ask;
using testing::Delivered;
using testing::ManagedFabric;
using testing::star;
using wire::PortInfo;
using wire::SmpAttribute;

constexpr std::uint64_t kKey = 0x1234'5678;

/// The star, with an M_Key on h2 and the subnet manager on h1.
class MKey : public ::testing::Test {
 protected:
  void protect(std::uint8_t bits, std::uint16_t lease = 0) {
    fabric.manage_star();
    PortInfo info = fabric.port_info(h1, {1, 2}, 1);
    info.port_state = wire::LinkState::NoChange;
    info.physical_state = wire::PhysicalState::NoChange;
    info.mkey = kKey;
    info.mkey_protect_bits = bits;
    info.mkey_lease_period = lease;
    const auto set = fabric.set(h1, {.attribute = SmpAttribute::PortInfo}, {1, 2}, info);
    ASSERT_TRUE(set);
    ASSERT_EQ(set->status(), 0);
    ASSERT_EQ(set->data<PortInfo>().mkey, kKey);
  }
  /// A sender without the key tries to change the LID.
  [[nodiscard]] bool is_changed_without_key() {
    PortInfo info = fabric.agents.port_info(h2);
    info.port_state = wire::LinkState::NoChange;
    info.physical_state = wire::PhysicalState::NoChange;
    info.lid = Lid{77};
    const auto answer =
        fabric.set(h1, {.attribute = SmpAttribute::PortInfo, .mkey = 666}, {1, 2}, info);
    return answer || fabric.tables.port(h2).lid != Lid{2};
  }
  [[nodiscard]] const Delivered* trap() const {
    for (const Delivered& each : fabric.delivered) {
      if (each.header().method == wire::MadMethod::Trap) {
        return &each;
      }
    }
    return nullptr;
  }

  ManagedFabric fabric{star()};
  testing::PortIndex h1 = fabric.port("h1", 1);
  testing::PortIndex h2 = fabric.port("h2", 1);
};

TEST_F(MKey, IsToldAsItsProtectBitsSay) {
  protect(0);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1, 666).mkey, kKey);
  EXPECT_TRUE(!is_changed_without_key());
}

TEST_F(MKey, IsASecretAtLevelOne) {
  protect(1);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1, 666).mkey, 0U);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1, kKey).mkey, kKey);
  EXPECT_FALSE(is_changed_without_key());
}

TEST_F(MKey, GuardsReadsAtLevelTwo) {
  protect(2);
  EXPECT_FALSE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo, .mkey = 666}, {1, 2}));
  EXPECT_TRUE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo, .mkey = kKey}, {1, 2}));
  EXPECT_EQ(fabric.agents.port_agent(h2).mkey_violations, 1);
  EXPECT_EQ(fabric.agents.counters().bad_mkeys, 1U);
}

TEST_F(MKey, IsReportedToTheSubnetManagerWithThePathOfTheOffender) {  // trap 256
  protect(1);
  ASSERT_FALSE(is_changed_without_key());
  ASSERT_NE(trap(), nullptr);
  const auto notice = trap()->data<wire::Notice>();
  EXPECT_EQ(notice.trap_number, 256);
  EXPECT_EQ(notice.type, wire::NoticeType::Security);
  EXPECT_EQ(notice.issuer_lid, Lid{2});
  const auto details = wire::unpack<wire::BadMKeyNoticeDetails>(std::span{notice.details});
  EXPECT_EQ(details.mkey, 666U);
  EXPECT_TRUE(details.is_directed);
  EXPECT_EQ(details.hop_count, 2);
  EXPECT_EQ(details.return_path[0], std::byte{1});  // into s1
  EXPECT_EQ(details.method, static_cast<std::uint8_t>(wire::MadMethod::Set));
}

TEST_F(MKey, LosesItsProtectionWhenNobodyRenewsTheLease) {
  protect(2, 15);
  ASSERT_FALSE(is_changed_without_key());
  fabric.now = fabric.now + Duration::seconds(14);
  EXPECT_FALSE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo, .mkey = 666}, {1, 2}));
  fabric.now = fabric.now + Duration::seconds(2);
  EXPECT_EQ(fabric.port_info(h1, {1, 2}, 1, 666).mkey, kKey);
  EXPECT_FALSE(is_changed_without_key());  // reading is allowed
}

TEST_F(MKey, KeepsItsProtectionWhenTheSubnetManagerComesInTime) {
  protect(2, 15);
  ASSERT_FALSE(is_changed_without_key());
  fabric.now = fabric.now + Duration::seconds(14);
  ASSERT_TRUE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo, .mkey = kKey}, {1, 2}));
  fabric.now = fabric.now + Duration::seconds(2);
  EXPECT_FALSE(fabric.ask(h1, {.attribute = SmpAttribute::NodeInfo, .mkey = 666}, {1, 2}));
}

TEST_F(MKey, TrapsAreRepeatedUntilRepressedAndNotFasterThanAllowed) {
  protect(1);
  ASSERT_FALSE(is_changed_without_key());
  ASSERT_NE(trap(), nullptr);
  const Delivered first = *trap();
  fabric.delivered.clear();
  fabric.run();
  EXPECT_EQ(trap(), nullptr);
  const Duration interval = TimeoutExponent{kDefaultSubnetTimeout}.duration();
  EXPECT_EQ(fabric.network.deadline(), fabric.now + interval);
  fabric.now = fabric.now + interval;
  fabric.run();
  ASSERT_NE(trap(), nullptr);
  EXPECT_EQ(trap()->header().transaction_id, first.header().transaction_id);

  // A repress without the key is another violation; one with the key ends the trap.
  Ask repress{.attribute = SmpAttribute::Notice,
              .mkey = kKey,
              .method = wire::MadMethod::TrapRepress,
              .transaction_id = first.header().transaction_id};
  fabric.send(h1, ManagedFabric::routed(repress), Lid{2});
  fabric.now = fabric.now + interval * 3;
  fabric.delivered.clear();
  fabric.run();
  EXPECT_EQ(trap(), nullptr);
  EXPECT_EQ(fabric.network.deadline(), Instant::never());
}

TEST_F(MKey, TrapsThatNobodyHearsEnd) {
  protect(1);
  ASSERT_FALSE(is_changed_without_key());
  for (int i = 0; i < 100 && fabric.network.deadline() != Instant::never(); ++i) {
    fabric.now = fabric.network.deadline();
    fabric.run();
  }
  EXPECT_EQ(fabric.network.counters().traps, TrapSender::kMaxSends);
  EXPECT_EQ(fabric.agents.traps().outstanding(), 0U);
}

}  // namespace
}  // namespace weft::agents
