// A sender that does not know the M_Key, or fakes its identity, can change nothing and stop nobody
// (IBTA vol 1 §14.2.4).

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "agents/testing/managed_fabric.h"

namespace weft::agents {
namespace {

using mad::InterfaceKind;
using testing::Delivered;
using testing::ManagedFabric;
using testing::star;
using wire::SmpAttribute;

constexpr std::uint64_t kKey = 0x600D'0000'0000'0001;
constexpr std::array kWritable = {SmpAttribute::NodeDescription,
                                  SmpAttribute::SwitchInfo,
                                  SmpAttribute::GuidInfo,
                                  SmpAttribute::PortInfo,
                                  SmpAttribute::PKeyTable,
                                  SmpAttribute::SlToVlMappingTable,
                                  SmpAttribute::VlArbitrationTable,
                                  SmpAttribute::LinearForwardingTable,
                                  SmpAttribute::MulticastForwardingTable,
                                  SmpAttribute::LedInfo};

/// The star; its subnet manager on h1 has set an M_Key on every node. h2 is hostile.
class HostileMads : public ::testing::Test {
 protected:
  HostileMads() {
    fabric.manage_star();
    for (const Lid lid : {Lid{1}, Lid{2}, Lid{3}}) {
      const auto at = lid == Lid{3} ? fabric.port("s1", 0) : (lid == Lid{1} ? h1 : h2);
      wire::PortInfo info = fabric.agents.port_info(at);
      info.mkey = kKey;
      info.mkey_protect_bits = 1;
      info.port_state = wire::LinkState::NoChange;
      info.physical_state = wire::PhysicalState::NoChange;
      EXPECT_TRUE(fabric.send(
          h1,
          ManagedFabric::with(ManagedFabric::routed({.attribute = SmpAttribute::PortInfo,
                                                     .method = wire::MadMethod::Set}),
                              info),
          lid));
    }
  }

  /// Everything that management can change, except counters of refused attempts.
  [[nodiscard]] std::vector<std::byte> everything() const {
    std::vector<std::byte> bytes = fabric.tables.build(1);
    for (std::uint32_t i = 0; i < fabric.tables.ports().size(); ++i) {
      wire::PortInfo info = fabric.agents.port_info(testing::PortIndex{i});
      info.mkey_violations = 0;
      const auto packed = wire::pack(info);
      bytes.insert(bytes.end(), packed.begin(), packed.end());
      const auto text = fabric.agents.node_description(testing::PortIndex{i}).text;
      bytes.insert(bytes.end(), text.begin(), text.end());
    }
    return bytes;
  }
  [[nodiscard]] std::size_t traps() const {
    std::size_t count = 0;
    for (const Delivered& each : fabric.delivered) {
      count += each.header().method == wire::MadMethod::Trap ? 1U : 0U;
    }
    return count;
  }

  ManagedFabric fabric{star()};
  testing::PortIndex h1 = fabric.port("h1", 1);
  testing::PortIndex h2 = fabric.port("h2", 1);
};

TEST_F(HostileMads, WithAWrongMKeyChangeNoAttributeOfAnyNode) {
  const auto before = everything();
  std::array<std::byte, wire::kSmpDataBytes> data{};
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i % 3);
  }
  for (const SmpAttribute attribute : kWritable) {
    for (const std::uint32_t modifier : {0U, 1U, 2U, 0x1'0001U}) {
      for (const Lid lid : {Lid{1}, Lid{2}, Lid{3}}) {
        mad::MadBytes mad = ManagedFabric::routed({.attribute = attribute,
                                                   .modifier = modifier,
                                                   .mkey = kKey + 1,
                                                   .method = wire::MadMethod::Set});
        std::ranges::copy(data, mad.begin() + wire::kSmpDataAt);
        EXPECT_FALSE(fabric.send(h2, mad, lid));
      }
    }
  }
  EXPECT_EQ(everything(), before);
  EXPECT_EQ(fabric.agents.counters().bad_mkeys, kWritable.size() * 4 * 3);
}

TEST_F(HostileMads, CannotRepressTheTrapsOfOthers) {
  fabric.send(h2,
              ManagedFabric::routed(
                  {.attribute = SmpAttribute::LedInfo, .mkey = 1, .method = wire::MadMethod::Set}),
              Lid{3});
  ASSERT_EQ(traps(), 1U);
  for (std::uint64_t tid = 0; tid < 100; ++tid) {
    fabric.send(h2,
                ManagedFabric::routed({.attribute = SmpAttribute::Notice,
                                       .mkey = tid,
                                       .method = wire::MadMethod::TrapRepress,
                                       .transaction_id = tid}),
                Lid{3});
  }
  EXPECT_NE(fabric.agents.traps().outstanding(), 0U);
}

TEST_F(HostileMads, MakeNoStormOfTraps) {
  fabric.delivered.clear();
  const auto mad = ManagedFabric::routed(
      {.attribute = SmpAttribute::LedInfo, .mkey = 1, .method = wire::MadMethod::Set});
  for (int i = 0; i < 1'000; ++i) {
    fabric.network.send(h2, InterfaceKind::Smi, {.address = {.lid = Lid{3}}, .bytes = mad});
  }
  fabric.run();
  EXPECT_EQ(fabric.agents.counters().bad_mkeys, 1'000U);
  EXPECT_EQ(traps(), 1U);
}

TEST_F(HostileMads, AreSeenAsFromTheirOwnLidWhateverTheirPathBitsSay) {
  fabric.delivered.clear();
  mad::MadBytes mad{};
  wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::SubnAdm,
                             .class_version = 2,
                             .method = wire::MadMethod::Get},
             std::span{mad}.first<24>());
  for (int bits = 0; bits < 256; ++bits) {
    fabric.network.send(
        h2, InterfaceKind::Gsi,
        {
            .address = {.lid = Lid{1}, .path_bits = static_cast<std::uint8_t>(bits)},
            .bytes = mad
    });
  }
  fabric.run();
  ASSERT_EQ(fabric.delivered.size(), 256U);
  for (const Delivered& each : fabric.delivered) {
    EXPECT_EQ(each.source.lid, Lid{2});
  }
}

TEST_F(HostileMads, ThatPassForAnswersReachNobodyWhoMayBeChanged) {
  const auto before = everything();
  for (const auto method : {wire::MadMethod::GetResp, wire::MadMethod::Trap, wire::MadMethod::Send,
                            wire::MadMethod::Report}) {
    fabric.delivered.clear();
    fabric.network.send(h2, InterfaceKind::Smi,
                        {.address = {.lid = Lid{3}},
                         .bytes = ManagedFabric::routed(
                             {.attribute = SmpAttribute::PortInfo, .mkey = 1, .method = method})});
    fabric.run();
    EXPECT_EQ(fabric.agents.counters().refused, 0U);
  }
  EXPECT_EQ(everything(), before);
}

}  // namespace
}  // namespace weft::agents
