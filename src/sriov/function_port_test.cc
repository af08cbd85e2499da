#include "sriov/function_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sriov/testing/mads.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::sriov {
namespace {

using verbs::AsyncEventType;
using wire::PortInfo;

MadBytes smp(wire::SmpAttribute attribute, const PortInfo& info = {}) {
  MadBytes mad = testing::make_mad(wire::ManagementClass::SubnLidRouted, wire::MadMethod::GetResp,
                                   static_cast<std::uint16_t>(attribute), 1);
  std::ranges::copy(wire::pack(info), mad.begin() + wire::kSmpDataAt);
  return mad;
}

PortInfo active(Lid lid, Lid manager) {
  PortInfo info;
  info.lid = lid;
  info.master_sm_lid = manager;
  info.port_state = wire::LinkState::Active;
  return info;
}

TEST(SriovPort, IsActiveOnlyWithAGuid) {
  using enum FunctionPortState;
  using enum FunctionPortInput;
  FunctionPort port;
  EXPECT_EQ(port.handle(PortUp), std::nullopt);
  EXPECT_EQ(port.state(), PendingUp);
  EXPECT_EQ(port.handle(GuidValid), AsyncEventType::PortActive);
  EXPECT_EQ(port.state(), Active);
  EXPECT_EQ(port.handle(GuidValid), std::nullopt);
  EXPECT_EQ(port.handle(GuidInvalid), AsyncEventType::PortError);
  EXPECT_EQ(port.state(), PendingUp);
  EXPECT_EQ(port.handle(PortDown), std::nullopt);
  EXPECT_EQ(port.handle(GuidValid), std::nullopt);
  EXPECT_EQ(port.state(), Down);
  EXPECT_EQ(port.handle(PortUp), AsyncEventType::PortActive);
  EXPECT_EQ(port.handle(PortDown), AsyncEventType::PortError);
}

TEST(SriovPort, ChangesAreReadFromPortInfo) {
  SmpObserver observer{PortNumber{1}};
  PortChange change = observer.observe(smp(wire::SmpAttribute::PortInfo, active(Lid{1}, Lid{9})),
                                       wire::MadMethod::Set);
  EXPECT_EQ(change.is_up, true);
  EXPECT_TRUE(change.events.empty());
  change = observer.observe(smp(wire::SmpAttribute::PortInfo, active(Lid{2}, Lid{9})),
                            wire::MadMethod::Get);
  EXPECT_EQ(change.is_up, std::nullopt);
  EXPECT_EQ(change.events, std::vector{AsyncEventType::LidChange});
  EXPECT_FALSE(change.needs_registration);
  change = observer.observe(smp(wire::SmpAttribute::PortInfo, active(Lid{2}, Lid{8})),
                            wire::MadMethod::Set);
  EXPECT_EQ(change.events, std::vector{AsyncEventType::SmChange});
  EXPECT_TRUE(change.needs_registration);
  PortInfo info = active(Lid{2}, Lid{8});
  info.client_reregister = true;
  change = observer.observe(smp(wire::SmpAttribute::PortInfo, info), wire::MadMethod::Set);
  EXPECT_EQ(change.events, std::vector{AsyncEventType::ClientReregister});
  EXPECT_TRUE(change.needs_registration);
  info.client_reregister = false;
  info.port_state = wire::LinkState::Init;
  EXPECT_EQ(observer.observe(smp(wire::SmpAttribute::PortInfo, info), wire::MadMethod::Set).is_up,
            false);
}

TEST(SriovPort, ChangesOfTablesAreTold) {
  SmpObserver observer{PortNumber{1}};
  EXPECT_EQ(observer.observe(smp(wire::SmpAttribute::PKeyTable), wire::MadMethod::Set).events,
            std::vector{AsyncEventType::PKeyChange});
  EXPECT_EQ(observer.observe(smp(wire::SmpAttribute::GuidInfo), wire::MadMethod::Set).events,
            std::vector{AsyncEventType::GidChange});
  EXPECT_TRUE(observer.observe(smp(wire::SmpAttribute::PKeyTable), wire::MadMethod::Get)
                  .events.empty());  // only read
}

TEST(SriovPort, WhatIsNoSuccessfulAnswerOfThisPortChangesNothing) {
  SmpObserver observer{PortNumber{1}};
  const auto observed = [&](auto change_header) {
    MadBytes mad = smp(wire::SmpAttribute::PortInfo, active(Lid{1}, Lid{9}));
    wire::MadHeader header = testing::header_of(mad);
    change_header(header);
    std::ranges::copy(wire::pack(header), mad.begin());
    return observer.observe(mad, wire::MadMethod::Set).is_up.has_value();
  };
  EXPECT_FALSE(observed([](auto& header) { header.status = 0x001C; }));
  EXPECT_FALSE(observed([](auto& header) { header.method = wire::MadMethod::Set; }));
  EXPECT_FALSE(observed([](auto& header) { header.attribute_modifier = 2; }));
  EXPECT_FALSE(observed([](auto& header) { header.mgmt_class = wire::ManagementClass::SubnAdm; }));
  EXPECT_TRUE(observed([](auto& header) {
    header.mgmt_class = wire::ManagementClass::SubnDirectedRoute;
    header.status = 0x8000;  // D
  }));
}

}  // namespace
}  // namespace weft::sriov
