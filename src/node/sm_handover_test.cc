// Handover between this subnet manager and a foreign one (IBTA vol 1 §14.4.1). OpenSM accepts a
// handover by its response, and never sends an ACKNOWLEDGE.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "node/testing/managed_fabric.h"
#include "subnet/smp_client.h"
#include "subnet/subnet_manager.h"
#include "wire/mad/sm_info.h"

namespace weft::node {
namespace {

using subnet::SubnetManager;
using subnet::SubnetManagerOptions;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::ManagedFabric;
using wire::SmInfoControl;
using wire::SmState;

constexpr std::uint64_t kMKey = 0x77;

/// A foreign subnet manager on a host: answers SMInfo, sends requests by hand, does not sweep.
class Foreign final : public mad::MadHandler {
 public:
  Foreign(ManagedFabric& fabric, const std::string& host, std::uint8_t priority)
      : fabric_(fabric), at_(fabric.port(host, 1)) {
    info = {.guid = fabric.builder.port(at_).guid,
            .sm_key = SubnetManagerOptions{}.sm_key,
            .priority = priority,
            .state = SmState::Standby};
    for (const auto mgmt_class :
         {wire::ManagementClass::SubnDirectedRoute, wire::ManagementClass::SubnLidRouted}) {
      mad::Registration registration;
      registration.mgmt_class = mgmt_class;
      registration.methods = mad::methods({wire::MadMethod::Get, wire::MadMethod::Set});
      registration.name = "foreign manager";
      agent_ = *smi().register_agent(registration, this);  // the LID routed one asks
    }
    fabric.plane.agents().set_is_sm(at_, true, fabric.now);
  }

  const mad::MadMessage* handle(mad::MadRequest& request) override {
    const wire::MadHeader header = request.message.header();
    if (header.method == wire::MadMethod::Set) {
      const auto what = static_cast<SmInfoControl>(header.attribute_modifier);
      controls.push_back(what);
      if (what == SmInfoControl::Handover && !takes_handover) {
        request.message.set_status(wire::kMadStatusInvalidField);
      } else if (what == SmInfoControl::Handover) {
        info.state = SmState::Master;
      }
    }
    wire::pack(
        info,
        std::span{request.message.mad}.subspan<wire::kSmpDataAt, wire::kSizeOf<wire::SmInfo>>());
    return &request.message;
  }

  /// Get, or Set of a control; returns the response, if any.
  std::optional<wire::SmInfo> ask(Lid to, std::optional<SmInfoControl> what = {},
                                  std::uint64_t mkey = 0) {
    wire::SmpLidRouted smp;
    smp.header.method = what ? wire::MadMethod::Set : wire::MadMethod::Get;
    smp.header.attribute_id = static_cast<std::uint16_t>(wire::SmpAttribute::SmInfo);
    smp.header.attribute_modifier = what ? static_cast<std::uint32_t>(*what) : 0;
    smp.mkey = mkey;
    smp.data = subnet::smp_data(info);
    mad::MadMessage message;
    message.mad = wire::pack(smp);
    const mad::MadAddress address{.lid = to, .qp = kQp0};
    std::optional<wire::SmInfo> answer;
    const auto take = [&](const mad::Completion& completion) {
      if (completion.status == mad::TransactionStatus::Answered &&
          completion.answer->status() == 0) {
        answer = wire::unpack<wire::SmInfo>(
            std::span{completion.answer->mad}
                .subspan<wire::kSmpDataAt, wire::kSizeOf<wire::SmInfo>>());
      }
    };
    EXPECT_TRUE(smi().send(agent_, address, message, {}, take, fabric_.now).has_value());
    fabric_.plane.wake(at_);
    fabric_.run_for(Duration::seconds(2));
    return answer;
  }

  wire::SmInfo info;
  bool takes_handover{true};
  std::vector<SmInfoControl> controls;

 private:
  mad::ManagementInterface& smi() { return fabric_.plane.port(at_).smi(); }

  ManagedFabric& fabric_;
  fabric::PortIndex at_;
  mad::AgentId agent_{};
};

class SmHandover : public ::testing::Test {
 protected:
  SubnetManager& add_ours(std::uint64_t mkey = 0) {
    SubnetManagerOptions options;
    options.mkey = mkey;
    SubnetManager& ours = fabric.add_manager("h1", options);
    fabric.settle();
    EXPECT_EQ(ours.state(), SmState::Master);
    return ours;
  }

  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
};

TEST_F(SmHandover, AnAnswerIsAsGoodAsAnAcknowledgement) {
  SubnetManager& ours = add_ours();
  Foreign better{fabric, "h5", 10};
  fabric.run_for(Duration::seconds(30));
  EXPECT_EQ(ours.state(), SmState::Standby);
  EXPECT_THAT(better.controls, ElementsAre(SmInfoControl::Handover));
  const std::uint64_t writes = ours.counters().writes;
  fabric.run_for(Duration::seconds(60));
  EXPECT_EQ(ours.state(), SmState::Standby) << "the master answers that it is one";
  EXPECT_EQ(ours.counters().writes, writes);
}

TEST_F(SmHandover, WhoDoesNotTakeItIsNotAskedAgain) {
  SubnetManager& ours = add_ours();
  Foreign better{fabric, "h5", 10};
  better.takes_handover = false;
  fabric.run_for(Duration::seconds(120));
  EXPECT_EQ(ours.state(), SmState::Master);
  EXPECT_THAT(better.controls, ElementsAre(SmInfoControl::Handover));
  EXPECT_TRUE(ours.is_settled());
}

TEST_F(SmHandover, AStandbyTakesOverFromAForeignMasterThatIsSilent) {
  SubnetManager& ours = add_ours();
  Foreign better{fabric, "h5", 10};
  fabric.run_for(Duration::seconds(30));
  ASSERT_EQ(ours.state(), SmState::Standby);
  better.info.state = SmState::NotActive;
  fabric.run_for(Duration::seconds(60));
  EXPECT_EQ(ours.state(), SmState::Master);
}

// Tables that the other master wrote are unknown: everything is read, and tables are written
// completely.
TEST_F(SmHandover, WhatTheOtherMasterWroteIsReadAndSetRight) {
  SubnetManager& ours = add_ours();
  Foreign better{fabric, "h5", 10};
  fabric.run_for(Duration::seconds(30));
  ASSERT_EQ(ours.state(), SmState::Standby);
  const fabric::NodeIndex s1 = fabric.builder.port(fabric.port("s1", 1)).node;
  for (const Lid lid :
       {Lid{2}, Lid{3}, Lid{4}, Lid{6}, Lid{7}, Lid{8}}) {  // h5 still has its answer
    fabric.builder.set_forwarding(s1, lid, PortNumber{1});
  }
  const fabric::PortIndex h3 = fabric.port("h3", 1);
  fabric.builder.set_lid(h3, Lid{40}, 0);
  ASSERT_FALSE(fabric.unreachable().empty());
  better.info.priority = 0;  // or it would be handed back
  better.info.state = SmState::Standby;
  ASSERT_TRUE(better.ask(Lid{1}, SmInfoControl::Handover).has_value());
  fabric.settle();
  EXPECT_EQ(ours.state(), SmState::Master);
  EXPECT_THAT(better.controls, ElementsAre(SmInfoControl::Handover, SmInfoControl::Acknowledge));
  EXPECT_THAT(fabric.unreachable(), IsEmpty());
  EXPECT_EQ(ours.subnet().find_port(fabric.builder.port(h3).guid),
            ours.subnet().find_lid(fabric.builder.port(h3).lid));
}

// IBTA vol 1 §14.2.5.13.
TEST_F(SmHandover, TheKeyIsToldToWhoKnowsTheMKey) {
  add_ours(kMKey);
  Foreign other{fabric, "h5", 0};
  const auto without = other.ask(Lid{1});
  const auto with = other.ask(Lid{1}, {}, kMKey);
  ASSERT_TRUE(without && with);
  EXPECT_EQ(without->sm_key, 0U);
  EXPECT_EQ(with->sm_key, SubnetManagerOptions{}.sm_key);
  EXPECT_EQ(without->state, SmState::Master);
}

TEST_F(SmHandover, NobodyHandsOverWithAnotherKey) {
  SubnetManager& ours = add_ours();
  Foreign better{fabric, "h5", 10};
  fabric.run_for(Duration::seconds(30));
  ASSERT_EQ(ours.state(), SmState::Standby);
  better.info.sm_key = 99;
  EXPECT_FALSE(better.ask(Lid{1}, SmInfoControl::Handover).has_value());
  EXPECT_EQ(ours.state(), SmState::Standby);
}

}  // namespace
}  // namespace weft::node
