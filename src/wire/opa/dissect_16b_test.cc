#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "wire/dissect.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"

namespace weft::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::byte> ethernet_packet() {
  std::vector<std::byte> frame(60);
  frame[0] = std::byte{0x02};
  frame[12] = std::byte{0x08};  // IPv4
  return to_opa_packet({.slid = Lid{0x12'3401},
                        .service_channel = 3,
                        .dlid = Lid{0x12'3402},
                        .pkey = PKey{0x8001},
                        .vesw_id = 5},
                       frame);
}

TEST(DissectOpa16b, ShowsAnEthernetFrameOfAVirtualSwitch) {
  const auto shown = dissect_opa_16b(ethernet_packet());
  ASSERT_TRUE(shown) << shown.error().reason;
  EXPECT_EQ(summary(*shown),
            "OPA 16B 0x123401 -> 0x123402 SC 3 Ethernet of virtual switch 5, 60 bytes");
  EXPECT_EQ(shown->packet.headers.size(), 2U);
  EXPECT_EQ(shown->packet.headers[0].bytes, 20U);
  EXPECT_EQ(shown->packet.payload_bytes, 46U);
  EXPECT_THAT(describe(*shown), HasSubstr("DLID     0x123402"));
  EXPECT_THAT(describe(*shown), HasSubstr("VeswID"));
  EXPECT_THAT(describe(*shown), HasSubstr("right"));
  EXPECT_THAT(to_json(*shown), HasSubstr(R"("SLID":"0x123401")"));
}

TEST(DissectOpa16b, ShowsAMad) {
  const auto mad = pack(VemaMad{
      .header = {.base_version = kOpaMadVersion,
                 .mgmt_class = kVemaClass,
                 .class_version = kOpaMadVersion,
                 .method = MadMethod::Get}
  });
  const auto shown = dissect_opa_16b(to_opa_mad_packet({.dlid = Lid{2}}, {}, mad));
  ASSERT_TRUE(shown) << shown.error().reason;
  EXPECT_THAT(summary(*shown), HasSubstr("-> 0x000002 SC 0 MAD from QP 1 to QP 1"));
  EXPECT_EQ(shown->packet.headers.size(), 3U);
  EXPECT_EQ(shown->packet.headers[0].bytes, 16U);
  EXPECT_THAT(describe(*shown), Not(HasSubstr("VeswID")));
  EXPECT_EQ(shown->packet.payload_bytes, kOpaMadBytes - 24);
}

TEST(DissectOpa16b, ShowsWhatItDoesNotKnow) {
  const auto shown = dissect_opa_16b(to_opa_16b({.l4_type = 0x33}, std::vector<std::byte>(9)));
  ASSERT_TRUE(shown) << shown.error().reason;
  EXPECT_THAT(summary(*shown), HasSubstr("L4 type 0x33, 9 bytes"));
  for (const std::uint8_t l4 : {kOpaL4Ethernet, kOpaL4Fm}) {
    EXPECT_TRUE(dissect_opa_16b(to_opa_16b({.l4_type = l4}, std::vector<std::byte>(3))));
    EXPECT_TRUE(dissect_opa_16b(to_opa_16b({.l4_type = l4}, std::vector<std::byte>(9))));
  }
}

TEST(DissectOpa16b, SaysWhatIsWrong) {
  auto packet = ethernet_packet();
  packet[30] ^= std::byte{1};
  EXPECT_THAT(summary(dissect_opa_16b(packet).value()), HasSubstr("ICRC wrong"));
  packet.resize(packet.size() - 8);
  EXPECT_THAT(dissect_opa_16b(packet).error().reason, HasSubstr("units of 8"));
}

}  // namespace
}  // namespace weft::wire
