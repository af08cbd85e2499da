// The device of an engine on a managed fabric: what a subnet manager writes reaches its users, and
// what they modify reaches the subnet manager and SA.

#include "node/engine_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "agents/testing/managed_fabric.h"
#include "core/port_cache.h"
#include "core/registry.h"
#include "core/testing/engine_pair.h"
#include "core/testing/manual_environment.h"
#include "node/testing/managed_fabric.h"
#include "node/testing/sa_client.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/notice.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/port_tables.h"
#include "wire/mad/sa_table_records.h"

namespace weft::node {
namespace {

using core::testing::EngineNetwork;
using wire::PortInfo;
using wire::SmpAttribute;

constexpr PortNumber kPort{1};

/// Two engines as the hosts of a star, whose subnet manager is the test, on h1.
class EnginePortsOfAStar : public ::testing::Test {
 protected:
  EnginePortsOfAStar() {
    fabric_.manage_star();
    environment_.world = [this] { return network_.step(); };
    for (const std::size_t host : {0U, 1U}) {
      network_.add_host(registry_);
      ports_.at(host).emplace(fabric_.agents, fabric_.tables,
                              fabric_.tables.port(fabric_.port(host == 0 ? "h1" : "h2", 1)).hca,
                              network_.host(host), [this] { return fabric_.now; });
      device(host).cache(kPort).refresh().value();
    }
  }
  ~EnginePortsOfAStar() override { network_.unregister_all(); }

  [[nodiscard]] core::Device& device(std::size_t host) { return network_.host(host).device(); }
  /// Lets h2 follow what the subnet manager wrote.
  void update() {
    ports_[1]->update();
    environment_.run_all();
  }
  void set_pkeys(const wire::PKeyTable& table) {
    const auto answer = fabric_.set(h1_, {.attribute = SmpAttribute::PKeyTable}, {1, 2}, table);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->status(), 0);
    update();
  }
  [[nodiscard]] PortInfo info() { return fabric_.port_info(h1_, {1, 2}, 1); }
  [[nodiscard]] core::PortDescription description() {
    return core::query_port(device(1), kPort).value();
  }

  agents::testing::ManagedFabric fabric_{agents::testing::star()};
  fabric::PortIndex h1_ = fabric_.port("h1", 1);
  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  EngineNetwork network_{environment_};
  std::array<std::optional<EnginePorts>, 2> ports_;
};

// T-PORT-1
TEST_F(EnginePortsOfAStar, FindPKeysInTheTableThatTheSubnetManagerWrote) {
  wire::PKeyTable table;
  table.pkeys[0] = PKey{0x7FFF};
  table.pkeys[1] = PKey{0x8001};
  table.pkeys[2] = PKey{0xFFFF};
  set_pkeys(table);
  EXPECT_EQ(core::find_pkey(device(1), kPort, PKey{0x7FFF}).value(), 2);
  EXPECT_EQ(core::find_pkey(device(1), kPort, PKey{0x0001}).value(), 1);
  EXPECT_EQ(core::find_pkey(device(1), kPort, PKey{0x1234}).error().code, ErrorCode::NotFound);
  EXPECT_EQ(core::find_cached_pkey(device(1), kPort, PKey{0x7FFF}).value(), 2);
  EXPECT_EQ(core::find_cached_pkey(device(1), kPort, PKey{0x0001}).value(), 1);
  EXPECT_EQ(core::find_cached_pkey(device(1), kPort, PKey{0x1234}).error().code,
            ErrorCode::NotFound);
}

// R-PORT-1
TEST_F(EnginePortsOfAStar, AreDescribedAsTheSubnetManagerHasSetThem) {
  PortInfo wanted = info();
  wanted.port_state = wire::LinkState::NoChange;
  wanted.physical_state = wire::PhysicalState::NoChange;
  wanted.gid_prefix = 0xFEC0'0000'0000'0001;
  wanted.lid = Lid{0x22};
  wanted.subnet_timeout = 15;
  wanted.init_type_reply = 3;
  ASSERT_EQ(fabric_.set(h1_, {.attribute = SmpAttribute::PortInfo}, {1, 2}, wanted)->status(), 0);
  update();
  const core::PortDescription port = description();
  EXPECT_EQ(port.lid, Lid{0x22});
  EXPECT_EQ(port.sm_lid, Lid{1});
  EXPECT_EQ(port.subnet_prefix, 0xFEC0'0000'0000'0001U);
  EXPECT_EQ(port.subnet_timeout, 15);
  EXPECT_EQ(port.init_type_reply, 3);
  EXPECT_EQ(port.physical_state, 5);
  EXPECT_EQ(port.capability_mask, info().capability_mask.bits());
  EXPECT_EQ(port.capability_mask_2, info().capability_mask2.bits());
  EXPECT_NE(port.capability_mask, 0U);
}

// R-PORT-1, R-PORT-6
TEST_F(EnginePortsOfAStar, CountPacketsWithWrongKeysAsTheirSmaDoes) {
  core::testing::CountedRequest request;
  core::testing::End a;
  core::testing::End b;
  core::testing::open_end(a, device(0));
  core::testing::open_end(b, device(1));
  core::testing::connect_end(a, EngineNetwork::lid_of(1), b.qp->number());
  core::testing::connect_end(b, EngineNetwork::lid_of(0), a.qp->number());
  wire::PKeyTable table;
  table.pkeys[0] = PKey{0x8001};
  set_pkeys(table);
  ASSERT_TRUE(core::post_send(*a.qp, core::testing::signaled(request, verbs::WrOpcode::RdmaWrite)));
  while (network_.step()) {
  }
  environment_.run_all();
  EXPECT_EQ(description().bad_pkeys, 1U);
  EXPECT_EQ(info().pkey_violations, 1);
  fabric_.agents.note_bad_qkeys(fabric_.port("h2", 1), {.source = Lid{1}}, 4, fabric_.now);
  EXPECT_EQ(description().bad_qkeys, 4U);
  ASSERT_TRUE(core::modify_port(device(1), kPort, {.mask = core::PortChange::ResetQKeyCounter}));
  EXPECT_EQ(description().bad_qkeys, 0U);
  EXPECT_EQ(description().bad_pkeys, 1U);
  EXPECT_EQ(info().qkey_violations, 0);
  core::testing::close_end(a);
  core::testing::close_end(b);
}

// R-PORT-6
TEST_F(EnginePortsOfAStar, AskTheSubnetManagerForInitialisationAndShutDown) {
  ASSERT_TRUE(
      core::modify_port(device(1), kPort, {.mask = core::PortChange::InitType, .init_type = 5}));
  EXPECT_EQ(info().init_type, 5);
  ASSERT_TRUE(core::modify_port(device(1), kPort, {.mask = core::PortChange::Shutdown}));
  update();
  EXPECT_EQ(description().state, verbs::PortState::Down);
  EXPECT_EQ(description().physical_state, 3) << "Disabled";
  EXPECT_EQ(fabric_.tables.port(fabric_.port("s1", 2)).state, verbs::PortState::Down);
}

/// The same on a fabric with a subnet manager and its SA on h1, and a client on h3.
class EnginePortsOfAManagedFabric : public ::testing::Test {
 protected:
  EnginePortsOfAManagedFabric() {
    services_ = &fabric_.add_services("h1");
    fabric_.settle();
    network_.add_host(registry_);
    ports_.emplace(fabric_.plane.agents(), fabric_.builder,
                   fabric_.builder.port(fabric_.port("h2", 1)).hca, network_.host(0),
                   [this] { return fabric_.now; });
    client_.emplace(fabric_, "h3");
  }
  ~EnginePortsOfAManagedFabric() override { network_.unregister_all(); }

  [[nodiscard]] core::Device& device() { return network_.host(0).device(); }
  /// What SA tells of h2.
  template <class Record>
  [[nodiscard]] Record record(wire::SaAttribute attribute) {
    const Lid lid = fabric_.builder.port(fabric_.port("h2", 1)).lid;
    const auto records =
        client_->ask<Record>(wire::MadMethod::GetTable, attribute).template records<Record>();
    const auto found = std::ranges::find(records, lid, &Record::lid);
    EXPECT_NE(found, records.end());
    return found != records.end() ? *found : Record{};
  }
  [[nodiscard]] std::uint64_t traps() const { return services_->manager().counters().traps; }
  /// Lets SA report every trap to the client on h3.
  void subscribe() {
    const wire::InformInfo info{.lid_range_begin = kPermissiveLid,
                                .is_generic = 1,
                                .subscribe = 1,
                                .type = 0xFFFF,
                                .trap_number = 0xFFFF,
                                .producer_type = 0xFF'FFFF};
    EXPECT_EQ(client_->ask(wire::MadMethod::Set, wire::SaAttribute::InformInfo, info).status, 0);
  }

  testing::ManagedFabric fabric_{*fabric::generate_star(3)};
  SubnetServices* services_{};
  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  EngineNetwork network_{environment_};
  std::optional<EnginePorts> ports_;
  std::optional<testing::SaClient> client_;
};

// T-PORT-3
TEST_F(EnginePortsOfAManagedFabric, ShowACapabilityThatWasSetInSaAfterOneTrap) {
  constexpr auto kDeviceManagement = wire::PortCapability::IsDeviceManagementSupported;
  const auto has_it = [&] {
    return record<wire::PortInfoRecord>(wire::SaAttribute::PortInfoRecord)
        .port_info.capability_mask.has(kDeviceManagement);
  };
  EXPECT_FALSE(has_it());
  subscribe();
  const Lid h2 = fabric_.builder.port(fabric_.port("h2", 1)).lid;
  const auto expect_trap_144 = [&](const wire::Notice& notice, bool is_set) {
    EXPECT_EQ(notice.trap_number, 144);
    EXPECT_EQ(notice.issuer_lid, h2);
    const auto details = wire::unpack<wire::CapabilityNoticeDetails>(notice.details);
    EXPECT_EQ(details.lid, h2);
    EXPECT_EQ((details.capability_mask & static_cast<std::uint32_t>(kDeviceManagement)) != 0,
              is_set);
  };
  const auto& heard = client_->reports.heard;
  const std::uint64_t before = traps();
  ASSERT_TRUE(core::modify_port(
      device(), kPort, {.set_capabilities = static_cast<std::uint32_t>(kDeviceManagement)}));
  fabric_.settle();
  EXPECT_TRUE(has_it());
  EXPECT_EQ(traps(), before + 1);
  ASSERT_EQ(heard.size(), 1U);
  expect_trap_144(heard[0].notice, true);
  EXPECT_NE(core::query_port(device(), kPort)->capability_mask &
                static_cast<std::uint32_t>(kDeviceManagement),
            0U);
  ASSERT_TRUE(core::modify_port(
      device(), kPort, {.clear_capabilities = static_cast<std::uint32_t>(kDeviceManagement)}));
  fabric_.settle();
  EXPECT_FALSE(has_it());
  EXPECT_EQ(traps(), before + 2);
  ASSERT_EQ(heard.size(), 2U);
  expect_trap_144(heard[1].notice, false);
}

// R-PORT-5
TEST_F(EnginePortsOfAManagedFabric, ShowTheirNodesDescriptionAndSystemImageInSaAfterATrapEach) {
  const auto description = [&] {
    std::string text;
    for (const std::byte octet :
         record<wire::NodeRecord>(wire::SaAttribute::NodeRecord).node_description.text) {
      if (octet != std::byte{}) {
        text += static_cast<char>(octet);
      }
    }
    return text;
  };
  EXPECT_EQ(description(), "h2 weft0");
  const std::uint64_t before = traps();
  ASSERT_TRUE(core::modify_device(
      device(), {.mask = core::DeviceChange::NodeDescription, .node_description = "storage 7"}));
  fabric_.settle();
  EXPECT_EQ(description(), "storage 7");
  EXPECT_EQ(traps(), before + 1);
  ASSERT_TRUE(core::modify_device(
      device(), {.mask = core::DeviceChange::SystemImageGuid, .system_image_guid = Guid{0x5EEE}}));
  fabric_.settle();
  EXPECT_EQ(record<wire::NodeRecord>(wire::SaAttribute::NodeRecord).node_info.system_image_guid,
            Guid{0x5EEE});
  EXPECT_EQ(traps(), before + 2);
}

}  // namespace
}  // namespace weft::node
