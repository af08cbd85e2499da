#include "fabric/fault_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/opcode.h"

namespace weft::fabric {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string reason_of(std::string_view text) {
  const auto fault = read_fault(text);
  return fault ? "it was read" : fault.error().reason;
}

TEST(FaultDescription, OfOnlyAKindHitsEveryPacketOfEveryLink) {
  const auto fault = read_fault("drop");
  ASSERT_TRUE(fault) << fault.error().reason;
  EXPECT_EQ(*fault, FaultDescription{});
  EXPECT_EQ(fault->parts_per_million, FaultDescription::kAlways);
  EXPECT_EQ(fault->every, 1U);
}

TEST(FaultDescription, SaysEverythingInAnyOrder) {
  const auto fault = read_fault(
      "reorder seed=9,out=h1/weft1:2  p=0.25 count=3 after=10 opcode=rc-send-only "
      "opcode=*ack* psn=0xfffffe-1 slid=1 dlid=0xC001 qp=0x12 by=5ms for=2s");
  ASSERT_TRUE(fault) << fault.error().reason;
  EXPECT_EQ(fault->kind, FaultKind::Reorder);
  EXPECT_EQ(fault->side, FaultSide::Out);
  EXPECT_EQ(fault->port, "h1/weft1:2");
  EXPECT_EQ(fault->opcodes, (std::vector<std::string>{"rc-send-only", "*ack*"}));
  EXPECT_EQ(fault->psns, (FaultDescription::PsnRange{Psn{0xFF'FFFE}, Psn{1}}));
  EXPECT_EQ(fault->slid, Lid{1});
  EXPECT_EQ(fault->dlid, Lid{0xC001});
  EXPECT_EQ(fault->dest_qp, Qpn{0x12});
  EXPECT_EQ(fault->parts_per_million, 250'000U);
  EXPECT_EQ(fault->seed, 9U);
  EXPECT_EQ(fault->after, 10U);
  EXPECT_EQ(fault->count, 3U);
  EXPECT_EQ(fault->hold, Duration::milliseconds(5));
  EXPECT_EQ(fault->lasts, Duration::seconds(2));
}

TEST(FaultDescription, RoundTrips) {
  for (const std::string_view text :
       {"drop", "drop p=0.000001", "drop p=1 seed=5", "corrupt every=3 after=2 count=7 in=s1:3",
        "duplicate opcode=ud* opcode=RC-SEND-* psn=5", "reorder by=1500ns link=h1",
        "down link=s1:2 for=200ms", "drop slid=1 dlid=2 qp=3 p=0.333333"}) {
    const auto fault = read_fault(text);
    ASSERT_TRUE(fault) << fault.error().reason;
    const auto again = read_fault(to_string(*fault));
    ASSERT_TRUE(again) << again.error().reason;
    EXPECT_EQ(*again, *fault) << to_string(*fault);
  }
}

TEST(FaultDescription, ErrorsNameTheWordAndWhatWouldWork) {
  EXPECT_THAT(reason_of(""), AllOf(HasSubstr("needs a kind"), HasSubstr("drop, corrupt")));
  EXPECT_THAT(reason_of("lose"), AllOf(HasSubstr("'lose' is no kind"), HasSubstr("duplicate")));
  EXPECT_THAT(reason_of("drop often"), HasSubstr("'often' is no KEY=VALUE"));
  EXPECT_THAT(reason_of("drop p="), HasSubstr("'p=' is no KEY=VALUE"));
  EXPECT_THAT(reason_of("drop rate=3"), HasSubstr("there is no 'rate'"));
  for (const std::string_view wrong : {"0", "1.5", "-1", "nan", "1e-9", "x", "0.5x"}) {
    EXPECT_THAT(reason_of("drop p=" + std::string{wrong}), HasSubstr("no probability")) << wrong;
  }
  for (const std::string_view wrong : {"every=0", "count=0", "slid=0", "slid=0xF00000", "qp=-1",
                                       "after=9999999999999", "dlid=0x1000000", "seed=1.5"}) {
    EXPECT_THAT(reason_of("drop p=0.5 " + std::string{wrong}), HasSubstr("no whole number"))
        << wrong;
  }
  EXPECT_THAT(reason_of("drop psn=1-"), HasSubstr("no PSN"));
  EXPECT_THAT(reason_of("drop psn=16777216"), HasSubstr("0..16777215"));
  EXPECT_THAT(reason_of("drop for=5"), HasSubstr("as 200us"));
  EXPECT_THAT(reason_of("drop for=0s"), HasSubstr("as 200us"));
  EXPECT_THAT(reason_of("drop for=86401s"), HasSubstr("at most a day"));
  EXPECT_THAT(reason_of("reorder by=2s"), HasSubstr("at most 1 s"));
  EXPECT_THAT(reason_of("drop by=2us"), HasSubstr("reorder"));
  EXPECT_THAT(reason_of("drop opcode=rc-sent"), HasSubstr("no opcode is called 'rc-sent'"));
  EXPECT_THAT(reason_of("drop p=0.5 every=2"), HasSubstr("not both"));
  EXPECT_THAT(reason_of("drop seed=2"), HasSubstr("a seed is that of p"));
  EXPECT_THAT(reason_of("drop count=1 count=2"), HasSubstr("count is said twice"));
  EXPECT_THAT(reason_of("drop link=h1 out=h2"), HasSubstr("only one of link, out and in"));
  EXPECT_THAT(reason_of("down link=h1 every=2"), HasSubstr("chooses no packets by every"));
}

TEST(FaultDescription, PatternsFitNamesOfOpcodesHoweverTheyAreSpelt) {
  const std::string_view name = wire::opcode_info(wire::Opcode::RcSendOnlyWithImmediate)->name;
  for (const std::string_view pattern :
       {"rc-send-only-with-immediate", "RcSendOnlyWithImmediate", "RC_SEND_*", "*immediate", "*",
        "rc*only*imm*", "**send**"}) {
    EXPECT_TRUE(fits(pattern, name)) << pattern;
  }
  for (const std::string_view pattern : {"rc-send-only", "send*", "*imm", "uc*", "", "*x*"}) {
    EXPECT_FALSE(fits(pattern, name)) << pattern;
  }
}

}  // namespace
}  // namespace weft::fabric
