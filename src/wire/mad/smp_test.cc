#include "wire/mad/smp.h"

#include <gtest/gtest.h>

#include "wire/mad/port_info.h"

namespace weft::wire {
namespace {

TEST(SmpLidRouted, HasMKeyAndDataWhereTheSpecificationSays) {
  SmpLidRouted smp;
  smp.header.method = MadMethod::Set;
  smp.header.attribute_id = 0x0015;
  smp.mkey = 0x1122'3344'5566'7788;
  smp.data.front() = std::byte{0xAB};
  smp.data.back() = std::byte{0xCD};
  const auto bytes = pack(smp);
  EXPECT_EQ(bytes[1], std::byte{0x01});
  EXPECT_EQ(bytes[3], std::byte{0x02});
  EXPECT_EQ(bytes[24], std::byte{0x11});
  EXPECT_EQ(bytes[31], std::byte{0x88});
  EXPECT_EQ(bytes[64], std::byte{0xAB});
  EXPECT_EQ(bytes[127], std::byte{0xCD});
}

TEST(SmpDirected, HasDAndHopsInTheCommonHeader) {
  SmpDirected smp;
  smp.header.direction = true;
  smp.header.status = 0x001C;
  smp.header.hop_pointer = 2;
  smp.header.hop_count = 3;
  smp.dr_slid = kPermissiveLid;
  smp.dr_dlid = Lid{0x1234};
  smp.initial_path[1] = std::byte{5};
  smp.return_path[63] = std::byte{9};
  const auto bytes = pack(smp);
  EXPECT_EQ(bytes[1], std::byte{0x81});
  EXPECT_EQ(bytes[4], std::byte{0x80});
  EXPECT_EQ(bytes[5], std::byte{0x1C});
  EXPECT_EQ(bytes[6], std::byte{2});
  EXPECT_EQ(bytes[7], std::byte{3});
  EXPECT_EQ(bytes[32], std::byte{0xFF});
  EXPECT_EQ(bytes[35], std::byte{0x34});
  EXPECT_EQ(bytes[129], std::byte{5});
  EXPECT_EQ(bytes[255], std::byte{9});
  EXPECT_EQ(unpack<SmpDirected>(bytes), smp);
}

TEST(SmpDirected, SharesTheOtherFieldsOfTheCommonHeader) {
  Random random{7};
  for (int i = 0; i < 100; ++i) {
    const auto smp = arbitrary<SmpDirected>(random);
    const auto bytes = pack(smp);
    const auto common = unpack<MadHeader>(std::span{bytes}.first<24>());
    EXPECT_EQ(common.method, smp.header.method);
    EXPECT_EQ(common.transaction_id, smp.header.transaction_id);
    EXPECT_EQ(common.attribute_id, smp.header.attribute_id);
    EXPECT_EQ(common.attribute_modifier, smp.header.attribute_modifier);
    EXPECT_EQ(common.status, smp.header.status | (smp.header.direction ? 0x8000 : 0));
    EXPECT_EQ(common.class_specific, smp.header.hop_pointer << 8 | smp.header.hop_count);
  }
}

TEST(SmpAttribute, IsNamedAsInTheSpecification) {
  EXPECT_EQ(name_of(SmpAttribute::PKeyTable), "P_KeyTable");
  EXPECT_EQ(name_of(SmpAttribute::SlToVlMappingTable), "SLtoVLMappingTable");
  EXPECT_EQ(name_of(static_cast<SmpAttribute>(0x13)), "");
}

TEST(LinkState, IsAPortStateUnlessItMeansNoChange) {
  EXPECT_FALSE(port_state_of(LinkState::NoChange).has_value());
  EXPECT_FALSE(port_state_of(static_cast<LinkState>(5)).has_value());
  for (const auto state : {verbs::PortState::Down, verbs::PortState::Initialize,
                           verbs::PortState::Armed, verbs::PortState::Active}) {
    EXPECT_EQ(port_state_of(link_state_of(state)), state);
  }
  EXPECT_EQ(link_state_of(verbs::PortState::Initialize), LinkState::Init);
}

}  // namespace
}  // namespace weft::wire
