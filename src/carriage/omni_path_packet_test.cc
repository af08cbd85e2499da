#include "carriage/omni_path_packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"

namespace weft::carriage {
namespace {

using ::testing::HasSubstr;

const wire::Opa16bHeader kHeader{
    .slid = Lid{0x12'3401}, .service_channel = 7, .dlid = Lid{0xF0'0002}, .pkey = PKey{0x8001}};

TEST(OmniPathPacket, HasWhatLinksLookAt) {
  const auto octets = wire::to_opa_packet(kHeader, std::vector<std::byte>(60));
  const auto packet = to_omni_path_packet(octets);
  ASSERT_TRUE(packet) << packet.error().reason;
  EXPECT_EQ(packet->address.source, fabric::ExtendedLid{0x12'3401});
  EXPECT_EQ(packet->address.destination, fabric::ExtendedLid{0xF0'0002});
  EXPECT_EQ(packet->pkey, PKey{0x8001});
  EXPECT_EQ(packet->service_channel, 7);
  EXPECT_FALSE(packet->is_management);
  EXPECT_EQ(packet->octets, octets);
}

TEST(OmniPathPacket, IsOfManagementIfItCarriesAMad) {
  const std::vector<std::byte> mad(wire::kOpaMadBytes);
  EXPECT_TRUE(to_omni_path_packet(wire::to_opa_mad_packet(kHeader, {}, mad))->is_management);
}

TEST(OmniPathPacket, IsNoneWithoutAWholePacket) {
  auto octets = wire::to_opa_packet(kHeader, std::vector<std::byte>(60));
  octets.pop_back();
  EXPECT_THAT(to_omni_path_packet(octets).error().reason, HasSubstr("units of 8"));
  EXPECT_FALSE(to_omni_path_packet({}));
}

}  // namespace
}  // namespace weft::carriage
