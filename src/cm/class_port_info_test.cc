// ClassPortInfo of the class ComMgt (IBTA vol 1 §13.4.8.1), and MADs that are not answered by it.

#include "wire/mad/class_port_info.h"

#include <gtest/gtest.h>

#include "cm/testing/network.h"

namespace weft::cm {
namespace {

/// Sends a MAD from a to b and returns b's answer, if any.
[[nodiscard]] std::optional<mad::MadBytes> answer_to(const wire::MadHeader& header) {
  TestCmNetwork net;
  mad::MadBytes mad{};
  mad.fill(std::byte{0xEE});
  std::ranges::copy(wire::pack(header), mad.begin());
  net.inject(net.b(), net.a().lid, mad);
  net.run_shortly();
  return net.sent.empty() ? std::nullopt : std::optional{net.sent.back().mad};
}

[[nodiscard]] wire::MadHeader get(std::uint16_t attribute) {
  return {.mgmt_class = wire::ManagementClass::ComMgt,
          .class_version = wire::kCmClassVersion,
          .method = wire::MadMethod::Get,
          .transaction_id = 0x1234'5678'9ABC,
          .attribute_id = attribute};
}

TEST(CmClassPortInfo, IsAnsweredWithWhatTheManagerCanDo) {
  const auto answer = answer_to(get(1));
  ASSERT_TRUE(answer);
  const wire::MadHeader header = header_of(*answer);
  EXPECT_EQ(header.method, wire::MadMethod::GetResp);
  EXPECT_EQ(header.status, 0);
  EXPECT_EQ(header.transaction_id, 0x1234'5678'9ABCU);
  const auto info = wire::parse<wire::ClassPortInfo>(std::span{*answer}.subspan<24>());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->class_version, wire::kCmClassVersion);
  EXPECT_EQ(info->capability_mask, 0x3200);  // reliable and unreliable connections, SIDR
  EXPECT_EQ(info->redirect_lid, Lid{});
  EXPECT_EQ(info->redirect_gid, Gid{});
  for (const std::byte each : std::span{*answer}.subspan<96>()) {
    ASSERT_EQ(each, std::byte{}) << "nothing of the question is left";
  }
}

TEST(CmClassPortInfo, AnotherAttributeOrVersionIsRefusedByStatus) {
  EXPECT_EQ(header_of(answer_to(get(0x10)).value()).status,
            wire::kMadStatusMethodAttributeUnsupported);
  wire::MadHeader old = get(1);
  old.class_version = 1;
  EXPECT_EQ(header_of(answer_to(old).value()).status, wire::kMadStatusBadVersion);
}

}  // namespace
}  // namespace weft::cm
