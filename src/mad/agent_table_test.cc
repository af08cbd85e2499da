#include "mad/agent_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mad/testing/network.h"
#include "wire/mad/vendor_mad.h"

namespace weft::mad {
namespace {

using ::testing::HasSubstr;
using wire::MadMethod;
using wire::ManagementClass;

class AgentTableTest : public ::testing::Test {
 protected:
  AgentTable table{InterfaceKind::Gsi, 3};
  TestAgent agent{[](MadRequest&) { return nullptr; }};
};

TEST_F(AgentTableTest, LetsTwoAgentsShareAClassByTheirMethods) {
  ASSERT_TRUE(table.add(registration_of(ManagementClass::SubnAdm, {MadMethod::Get}), &agent));
  EXPECT_TRUE(table.add(registration_of(ManagementClass::SubnAdm, {MadMethod::Report}), &agent));
  const auto refused = table.add(
      registration_of(ManagementClass::SubnAdm, {MadMethod::Set, MadMethod::Get}), &agent);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Busy);
  EXPECT_THAT(refused.error().reason, HasSubstr("agent 1's (test)"));
}

TEST_F(AgentTableTest, ListenersLeaveTheAnswerToWhoIsRegistered) {
  TestAgent first{[](MadRequest&) { return nullptr; }};
  TestAgent second{[](MadRequest&) { return nullptr; }};
  Registration listening = registration_of(ManagementClass::SubnAdm, {MadMethod::Report});
  listening.listens = true;
  const MadBytes report = request_of(ManagementClass::SubnAdm, MadMethod::Report).mad;
  const MadBytes other = request_of(ManagementClass::SubnAdm, MadMethod::Get).mad;
  ASSERT_TRUE(table.add(listening, &first));
  ASSERT_TRUE(table.add(listening, &second));
  EXPECT_EQ(table.find(report).handler, &first);  // somebody has to answer
  EXPECT_EQ(table.find_listeners(report), std::vector<MadHandler*>{&second});
  EXPECT_TRUE(table.find_listeners(other).empty());
  const auto answering =
      table.add(registration_of(ManagementClass::SubnAdm, {MadMethod::Report}), &agent);
  ASSERT_TRUE(answering);
  EXPECT_EQ(table.find(report).handler, &agent);
  EXPECT_EQ(table.find_listeners(report), (std::vector<MadHandler*>{&first, &second}));
  ASSERT_TRUE(table.remove(*answering));
  EXPECT_EQ(table.find(report).handler, &first);
}

TEST_F(AgentTableTest, ForgetsWhatIsUnregistered) {
  const auto id = table.add(registration_of(ManagementClass::Perf, {MadMethod::Get}), &agent);
  ASSERT_TRUE(table.remove(*id));
  EXPECT_FALSE(table.remove(*id));
  EXPECT_TRUE(table.add(registration_of(ManagementClass::Perf, {MadMethod::Get}), &agent));
}

TEST_F(AgentTableTest, RefusesWhatCannotBe) {
  EXPECT_FALSE(table.add(registration_of(ManagementClass::SubnLidRouted, {}), &agent));
  EXPECT_FALSE(table.add(registration_of(ManagementClass::Perf, {MadMethod::Get}), nullptr));
  Registration with_oui = registration_of(ManagementClass::Perf, {});
  with_oui.oui = 1;
  EXPECT_FALSE(table.add(with_oui, nullptr));
  EXPECT_FALSE(table.add(registration_of(static_cast<ManagementClass>(0x30), {}), nullptr));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(table.add(registration_of(ManagementClass::Perf, {}), nullptr));
  }
  const auto refused = table.add(registration_of(ManagementClass::Perf, {}), nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
}

TEST_F(AgentTableTest, TellsVendorsApartByTheirOui) {
  TestAgent other{[](MadRequest&) { return nullptr; }};
  constexpr auto kClass = static_cast<ManagementClass>(0x30);
  Registration first = registration_of(kClass, {MadMethod::Get});
  first.oui = 0x001405;
  Registration second = first;
  second.oui = 0x0002C9;
  ASSERT_TRUE(table.add(first, &agent));
  ASSERT_TRUE(table.add(second, &other));
  wire::VendorMad mad;
  mad.header.mgmt_class = kClass;
  mad.header.method = MadMethod::Get;
  mad.oui = 0x0002C9;
  EXPECT_EQ(table.find(wire::pack(mad)).handler, &other);
  mad.oui = 0x000001;
  EXPECT_EQ(table.find(wire::pack(mad)).match, AgentTable::Match::NoClass);
}

TEST_F(AgentTableTest, SaysWhatIsMissing) {
  ASSERT_TRUE(table.add(registration_of(ManagementClass::Perf, {MadMethod::Get}), &agent));
  const auto verdict_of = [this](wire::MadHeader header) {
    MadMessage message;
    message.set_header(header);
    return table.find(message.mad).match;
  };
  EXPECT_EQ(verdict_of({.mgmt_class = ManagementClass::Perf, .method = MadMethod::Get}),
            AgentTable::Match::Found);
  EXPECT_EQ(verdict_of({.mgmt_class = ManagementClass::Perf, .method = MadMethod::Set}),
            AgentTable::Match::NoMethod);
  EXPECT_EQ(
      verdict_of(
          {.mgmt_class = ManagementClass::Perf, .class_version = 2, .method = MadMethod::Get}),
      AgentTable::Match::NoVersion);
  EXPECT_EQ(verdict_of({.mgmt_class = ManagementClass::DevMgt, .method = MadMethod::Get}),
            AgentTable::Match::NoClass);
}

TEST_F(AgentTableTest, BringsOtherVersionsToWhoAnswersForThemItself) {
  Registration registration = registration_of(ManagementClass::ComMgt, {MadMethod::Send});
  registration.accepts_any_version = true;
  ASSERT_TRUE(table.add(registration, &agent));
  MadMessage message;
  message.set_header(
      {.mgmt_class = ManagementClass::ComMgt, .class_version = 77, .method = MadMethod::Send});
  EXPECT_EQ(table.find(message.mad).handler, &agent);
}

}  // namespace
}  // namespace weft::mad
