#include "mad/mad_message.h"

#include <gtest/gtest.h>

namespace weft::mad {
namespace {

MadMessage message_of(wire::ManagementClass mgmt_class, wire::MadMethod method) {
  MadMessage message;
  message.set_header({.mgmt_class = mgmt_class, .method = method, .transaction_id = 7});
  return message;
}

TEST(MadMessage, KnowsWhereEachClassHasItsData) {  // IBTA vol 1 §13.4.3
  EXPECT_EQ(data_offset(wire::ManagementClass::SubnAdm), 56U);
  EXPECT_EQ(data_offset(wire::ManagementClass::SubnDirectedRoute), 64U);
  EXPECT_EQ(data_offset(wire::ManagementClass::DevMgt), 64U);
  EXPECT_EQ(data_offset(wire::ManagementClass::ComMgt), 24U);
  EXPECT_EQ(data_offset(static_cast<wire::ManagementClass>(0x09)), 24U);
  EXPECT_EQ(data_offset(static_cast<wire::ManagementClass>(0x30)), 40U);
  EXPECT_TRUE(has_rmpp_header(static_cast<wire::ManagementClass>(0x4F)));
  EXPECT_FALSE(has_rmpp_header(wire::ManagementClass::Perf));
}

TEST(MadMessage, AnswersEachMethodWithItsOwn) {  // R-MI-7: no descriptor says it
  MadMessage set = message_of(wire::ManagementClass::Perf, wire::MadMethod::Set);
  convert_to_response(set);
  EXPECT_EQ(set.header().method, wire::MadMethod::GetResp);
  EXPECT_EQ(response_method(wire::MadMethod::GetTraceTable), wire::MadMethod::GetTableResp);
  EXPECT_EQ(response_method(wire::MadMethod::Trap), wire::MadMethod::TrapRepress);
  EXPECT_FALSE(response_method(wire::MadMethod::Send));
  convert_to_response(set);
  EXPECT_EQ(set.header().method, wire::MadMethod::GetResp);
}

TEST(MadMessage, KeepsTheDirectionOutOfTheStatus) {
  MadMessage smp = message_of(wire::ManagementClass::SubnDirectedRoute, wire::MadMethod::Get);
  convert_to_response(smp);
  EXPECT_EQ(smp.mad[4], std::byte{0x80});
  EXPECT_EQ(smp.status(), 0);
  smp.set_status(wire::kMadStatusInvalidField);
  EXPECT_EQ(smp.mad[4], std::byte{0x80});
  EXPECT_EQ(smp.status(), wire::kMadStatusInvalidField);
}

TEST(MadMessage, TakesTrapRepressForAnAnswer) {
  EXPECT_TRUE(is_answer({.method = wire::MadMethod::TrapRepress}));
  EXPECT_FALSE(is_answer({.method = wire::MadMethod::Trap}));
}

}  // namespace
}  // namespace weft::mad
