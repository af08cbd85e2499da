#include "sriov/open_tables.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "mad/mad_message.h"
#include "sriov/testing/mads.h"

namespace weft::sriov {
namespace {

using wire::MadMethod;
using wire::RmppType;

constexpr FunctionId kGreedy{1};
constexpr FunctionId kOther{2};

class SriovOpenTables : public ::testing::Test {
 protected:
  static MadBytes mad_of(MadMethod method, std::uint64_t id, const wire::Rmpp& rmpp = {}) {
    MadBytes mad = testing::make_mad(wire::ManagementClass::SubnAdm, method, 0x11, id);
    mad::set_rmpp(mad, rmpp);
    return mad;
  }
  static wire::Rmpp segment(std::uint32_t number, bool is_last) {
    return {.version = wire::kRmppVersion,
            .type = RmppType::Data,
            .is_last = is_last,
            .is_first = number == 1,
            .is_active = true,
            .data1 = number};
  }
  static wire::Rmpp reply(RmppType type, std::uint32_t number) {
    return {.version = wire::kRmppVersion, .type = type, .is_active = true, .data1 = number};
  }
  bool ask(FunctionId function, std::uint64_t id) {
    return tables.handle_outbound(function, mad_of(MadMethod::GetTable, id), now);
  }
  /// How many tables the function may ask for without taking any.
  std::size_t asks_for(FunctionId function) {
    std::uint64_t id = 0;
    while (ask(function, ++id)) {
    }
    return id - 1;
  }

  Instant now{Duration::seconds(1)};
  OpenTables tables{{.of_port = 16}};
};

TEST_F(SriovOpenTables, WhoTakesNoneLeavesTheOthersTheirPart) {
  EXPECT_EQ(asks_for(kGreedy), 4U);
  EXPECT_FALSE(ask(kGreedy, 100));
  EXPECT_TRUE(ask(kGreedy, 1)) << "a repeat is none more";
  EXPECT_EQ(asks_for(kOther), 3U);
  for (std::uint16_t function = 3; function <= 8; ++function) {
    EXPECT_GE(asks_for(FunctionId{function}), 1U) << function;
  }
  EXPECT_LT(tables.size(), 16U);
}

TEST_F(SriovOpenTables, ThePhysicalFunctionIsCountedAndNotRefused) {
  for (std::uint64_t id = 0; id < 20; ++id) {
    EXPECT_TRUE(ask(kPhysicalFunction, id));
  }
  EXPECT_FALSE(ask(kOther, 1)) << "SA has nothing left for this port";
}

TEST_F(SriovOpenTables, OneIsTakenWhenItsLastSegmentIsAcknowledged) {
  EXPECT_EQ(asks_for(kGreedy), 4U);
  tables.handle_inbound(kGreedy, mad_of(MadMethod::GetTableResp, 1, segment(1, false)), now);
  EXPECT_TRUE(tables.handle_outbound(kGreedy,
                                     mad_of(MadMethod::GetTable, 1, reply(RmppType::Ack, 1)), now));
  EXPECT_EQ(tables.count_of(kGreedy), 4U);
  tables.handle_inbound(kGreedy, mad_of(MadMethod::GetTableResp, 1, segment(2, true)), now);
  EXPECT_TRUE(tables.handle_outbound(kGreedy,
                                     mad_of(MadMethod::GetTable, 1, reply(RmppType::Ack, 1)), now));
  EXPECT_EQ(tables.count_of(kGreedy), 4U) << "the first, again";
  EXPECT_TRUE(tables.handle_outbound(kGreedy,
                                     mad_of(MadMethod::GetTable, 1, reply(RmppType::Ack, 2)), now));
  EXPECT_EQ(tables.count_of(kGreedy), 3U);
  EXPECT_TRUE(
      tables.handle_outbound(kGreedy, mad_of(MadMethod::GetTable, 1, reply(RmppType::Ack, 2)), now))
      << "an ACK that is repeated asks for nothing";
  EXPECT_EQ(tables.count_of(kGreedy), 3U);
}

TEST_F(SriovOpenTables, OneEndsByAnErrorAStopAndAnAbort) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(ask(kOther, id));
  }
  tables.handle_inbound(kOther, mad_of(MadMethod::GetTableResp, 1), now);  // BUSY, say
  tables.handle_inbound(kOther, mad_of(MadMethod::GetTableResp, 2, reply(RmppType::Abort, 0)), now);
  EXPECT_TRUE(tables.handle_outbound(
      kOther, mad_of(MadMethod::GetTable, 3, reply(RmppType::Stop, 0)), now));
  EXPECT_EQ(tables.count_of(kOther), 1U);
  tables.handle_inbound(kGreedy, mad_of(MadMethod::GetTableResp, 4), now);
  EXPECT_EQ(tables.count_of(kOther), 1U) << "that was another one's";
}

TEST_F(SriovOpenTables, OneThatMovesNoMoreIsForgotten) {
  EXPECT_TRUE(ask(kGreedy, 1));
  EXPECT_TRUE(ask(kOther, 1));
  now = now + Duration::seconds(15);
  tables.handle_inbound(kOther, mad_of(MadMethod::GetTableResp, 1, segment(1, false)), now);
  now = now + Duration::seconds(5);
  EXPECT_EQ(tables.poll_deadline(), now);
  tables.handle_timeout(now);
  EXPECT_EQ(tables.count_of(kGreedy), 0U);
  EXPECT_EQ(tables.count_of(kOther), 1U);
  tables.remove(kOther);
  EXPECT_EQ(tables.size(), 0U);
  EXPECT_EQ(tables.poll_deadline(), Instant::never());
}

}  // namespace
}  // namespace weft::sriov
