#include "wire/mad/mad.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(MadHeader, PacksAsTheSpecificationsTable) {
  constexpr MadHeader kHeader{.mgmt_class = ManagementClass::SubnAdm,
                              .class_version = 2,
                              .method = MadMethod::GetTableResp,
                              .status = 0x0300,
                              .class_specific = 0x1234,
                              .transaction_id = 0x0102'0304'0506'0708,
                              .attribute_id = 0x0035,
                              .attribute_modifier = 0xA0B0'C0D0};
  constexpr auto kBytes = pack(kHeader);
  constexpr std::array<unsigned, 24> kExpected = {0x01, 0x03, 0x02, 0x92, 0x03, 0x00, 0x12, 0x34,
                                                  0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                                                  0x00, 0x35, 0x00, 0x00, 0xA0, 0xB0, 0xC0, 0xD0};
  for (std::size_t i = 0; i < kExpected.size(); ++i) {
    EXPECT_EQ(std::to_integer<unsigned>(kBytes[i]), kExpected[i]) << "byte " << i;
  }
  static_assert(unpack<MadHeader>(kBytes) == kHeader);
}

TEST(MadHeader, KnowsResponsesByTheirRBit) {
  EXPECT_FALSE(is_response(MadMethod::Get));
  EXPECT_FALSE(is_response(MadMethod::TrapRepress));  // a method of its own, no response
  EXPECT_TRUE(is_response(MadMethod::GetResp));
  EXPECT_TRUE(is_response(MadMethod::DeleteResp));
}

TEST(Mad, HasItsDataBehindTheCommonHeader) {
  Mad mad;
  mad.header.mgmt_class = ManagementClass::ComMgt;
  mad.data.front() = std::byte{0xAB};
  mad.data.back() = std::byte{0xCD};
  const auto bytes = pack(mad);
  EXPECT_EQ(bytes[1], std::byte{0x07});
  EXPECT_EQ(bytes[24], std::byte{0xAB});
  EXPECT_EQ(bytes[255], std::byte{0xCD});
}

TEST(MadNames, AreTheSpecifications) {
  EXPECT_EQ(name_of(ManagementClass::SubnAdm), "SubnAdm");
  EXPECT_EQ(name_of(static_cast<ManagementClass>(0x32)), "Vendor");
  EXPECT_EQ(name_of(static_cast<ManagementClass>(0x02)), "");
  EXPECT_EQ(name_of(MadMethod::GetMultiResp), "GetMultiResp");
  EXPECT_EQ(name_of(static_cast<MadMethod>(0x83)), "");
}

TEST(MadNames, OfAnAttributeDependOnItsClass) {
  EXPECT_EQ(attribute_name(ManagementClass::SubnLidRouted, 0x15), "PortInfo");
  EXPECT_EQ(attribute_name(ManagementClass::SubnDirectedRoute, 0x15), "PortInfo");
  EXPECT_EQ(attribute_name(ManagementClass::SubnAdm, 0x15), "LinearForwardingTableRecord");
  EXPECT_EQ(attribute_name(ManagementClass::ComMgt, 0x15), "DisconnectRequest");
  EXPECT_EQ(attribute_name(ManagementClass::Perf, 0x12), "PortCounters");
  EXPECT_EQ(attribute_name(ManagementClass::DevMgt, 0x10), "IOUnitInfo");
  EXPECT_EQ(attribute_name(ManagementClass::DevMgt, 0x01), "ClassPortInfo");
  EXPECT_EQ(attribute_name(ManagementClass::SubnAdm, 0xFFFF), "");
}

TEST(MadStatus, IsSaidInWords) {
  EXPECT_EQ(status_text(ManagementClass::Perf, 0), "ok");
  EXPECT_EQ(status_text(ManagementClass::Perf, kMadStatusBusy), "busy");
  EXPECT_EQ(status_text(ManagementClass::Perf, kMadStatusRedirect | kMadStatusInvalidField),
            "redirect, invalid field");
  EXPECT_EQ(status_text(ManagementClass::SubnLidRouted, kMadStatusMethodAttributeUnsupported),
            "method and attribute not supported together");
  EXPECT_EQ(status_text(ManagementClass::SubnAdm, 0x0300), "no records");
  EXPECT_EQ(status_text(ManagementClass::SubnAdm, 0xFF00), "reserved SA error");
  EXPECT_EQ(status_text(ManagementClass::Perf, 0x0300), "class status 0x3");
  EXPECT_EQ(status_text(ManagementClass::Perf, 0x0010), "reserved code");
  EXPECT_EQ(status_text(ManagementClass::Perf, 0x0020), "reserved bits");
}

}  // namespace
}  // namespace weft::wire
