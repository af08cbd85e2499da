#include "wire/mad/mad_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "wire/mad/notice.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/smp.h"
#include "wire/testing/golden_captures.h"

namespace weft::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> names_of(const std::vector<PrintedHeader>& headers) {
  std::vector<std::string> names;
  for (const PrintedHeader& header : headers) {
    names.emplace_back(header.name);
  }
  return names;
}

template <WireType T>
void put(std::span<std::byte> to, const T& value) {
  std::ranges::copy(pack(value), to.begin());
}

SmpDirected smp_with(SmpAttribute attribute) {
  SmpDirected smp;
  smp.header.attribute_id = static_cast<std::uint16_t>(attribute);
  return smp;
}

TEST(MadPrint, ShowsAnSmpsAttributeInPlaceOfItsData) {
  SmpDirected smp = smp_with(SmpAttribute::PortInfo);
  PortInfo port;
  port.port_state = LinkState::Active;
  port.lid = Lid{12};
  port.mtu_cap = Mtu::Mtu4096;
  put(smp.data, port);
  const auto headers = printed_mad(pack(smp));
  EXPECT_THAT(names_of(headers), ElementsAre("SMP directed route", "PortInfo"));
  EXPECT_THAT(to_text(headers[0]), Not(HasSubstr("SMPData")));
  EXPECT_THAT(to_text(headers[1]), HasSubstr(" LID=12 "));
  EXPECT_THAT(to_text(headers[1]), HasSubstr(" PortState=Active(4) "));
  EXPECT_THAT(to_text(headers[1]), HasSubstr(" MTUCap=4096(5) "));
}

TEST(MadPrint, ShowsTheDataOfAnAttributeThatItDoesNotKnow) {
  const auto headers = printed_mad(pack(smp_with(static_cast<SmpAttribute>(0xFF00))));
  ASSERT_THAT(names_of(headers), ElementsAre("SMP directed route"));
  EXPECT_THAT(to_text(headers[0]), HasSubstr("SMPData"));
}

TEST(MadPrint, ShowsTheDetailsOfATrap) {
  SmpDirected smp = smp_with(SmpAttribute::Notice);
  Notice notice{.trap_number = static_cast<std::uint16_t>(Trap::LinkStateChange)};
  notice.details = pack(LinkStateNoticeDetails{.switch_lid = Lid{9}});
  put(smp.data, notice);
  const auto headers = printed_mad(pack(smp));
  EXPECT_THAT(names_of(headers),
              ElementsAre("SMP directed route", "Notice", "Link state trap details"));
  EXPECT_THAT(to_text(headers[1]), HasSubstr("TrapNumber=link state change(128)"));
  EXPECT_THAT(to_text(headers[2]), HasSubstr("LIDADDR=9"));
}

SaMad table_segment(std::uint32_t number, std::uint32_t payload_length, bool is_last) {
  SaMad mad;
  mad.sa.header.method = MadMethod::GetTableResp;
  mad.sa.header.attribute_id = static_cast<std::uint16_t>(SaAttribute::PathRecord);
  mad.sa.rmpp = {.version = 1,
                 .type = RmppType::Data,
                 .is_last = is_last,
                 .is_first = number == 1,
                 .is_active = true,
                 .data1 = number,
                 .data2 = payload_length};
  mad.sa.attribute_offset = sa_attribute_offset(kSizeOf<PathRecord>);
  return mad;
}

TEST(MadPrint, ShowsTheWholeRecordsOfEachSegment) {
  // 64-byte records in segments of 200: the first holds three and 8 bytes of the fourth, the second
  // begins with the other 56.
  SaMad second = table_segment(2, kSaHeaderBytes + 56 + 64, true);
  put(std::span{second.data}.subspan(56), PathRecord{.dlid = Lid{77}});
  EXPECT_THAT(names_of(printed_mad(pack(table_segment(1, 0, false)))),
              ElementsAre("SA MAD", "PathRecord", "PathRecord", "PathRecord"));
  const auto headers = printed_mad(pack(second));
  ASSERT_THAT(names_of(headers), ElementsAre("SA MAD", "PathRecord"));
  EXPECT_THAT(to_text(headers[0]), HasSubstr("RMPPType=DATA(1)"));
  EXPECT_THAT(to_text(headers[1]), HasSubstr("DLID=77"));
}

TEST(MadPrint, DoesNotTrustOffsetsAndLengths) {
  SaMad mad = table_segment(0xFFFF'FFFF, 0xFFFF'FFFF, true);
  EXPECT_FALSE(printed_mad(pack(mad)).empty());
  mad.sa.attribute_offset = 0;
  EXPECT_THAT(names_of(printed_mad(pack(mad))), ElementsAre("SA MAD"));
  mad = table_segment(1, 3, true);
  EXPECT_THAT(names_of(printed_mad(pack(mad))), ElementsAre("SA MAD"));
  mad = table_segment(0, 0, false);
  EXPECT_THAT(names_of(printed_mad(pack(mad))), ElementsAre("SA MAD"));
  EXPECT_THAT(names_of(printed_mad(ByteSpan{pack(mad)}.first(255))), ElementsAre("MAD"));
  EXPECT_TRUE(printed_mad({}).empty());
}

TEST(MadPrint, ReadsWhatOthersWrote) {  // part of T-PACK-1
  std::string text;
  for (const auto& bytes : golden_management_packets()) {
    text += to_text(printed(*parse_ib_packet(bytes, CrcCheck::Skip)));
  }
  for (const auto each : {"NodeType=switch(2)", "PortState=Init(2)", "SMState=master(3)",
                          "PathRecord ", "MCMemberRecord ", "LinkRecord FromLID=", "P_Key[31]=0x0",
                          "PortXmitData=", "ClassPortInfo "}) {
    EXPECT_THAT(text.find(each), Not(std::string::npos)) << each;
  }
}

}  // namespace
}  // namespace weft::wire
