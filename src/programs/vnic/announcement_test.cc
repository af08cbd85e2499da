#include "programs/vnic/announcement.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace weft::programs::vnic {
namespace {

const Announcement kPort{
    .host = "h12",
    .gid = Gid{0xFE80'0000'0000'0000, Guid{0x0002'C903'0000'000C}},
    .lid = Lid{12},
    .mad_qp = Qpn{0x123},
    .packet_qp = Qpn{0x456}
};

TEST(VnicAnnouncement, ComesBackFromItsRecord) {
  const auto record = to_record(kPort, kDefaultPKey);
  EXPECT_EQ(from_record(record), kPort);
  EXPECT_GT(record.service_lease, kRenewal.milliseconds() / 1'000 * 2) << "one may be lost";
  // ServiceID, GID, P_Key, lease, name and four numbers.
  EXPECT_EQ(std::popcount(registered_components()), 9);
}

TEST(VnicAnnouncement, IsNotMadeOfWhatCannotBe) {
  const auto refuses = [](const auto& spoil) {
    auto record = to_record(kPort, kDefaultPKey);
    spoil(record);
    return !from_record(record).has_value();
  };
  EXPECT_TRUE(refuses([](auto& record) { ++record.service_id; }));
  EXPECT_TRUE(refuses([](auto& record) { record.service_data32[0] = 0; }));
  EXPECT_TRUE(refuses([](auto& record) { record.service_data32[0] = 0xC001; })) << "multicast";
  EXPECT_TRUE(refuses([](auto& record) { record.service_data32[0] = 0x1'0001; }));
  EXPECT_TRUE(refuses([](auto& record) { record.service_data32[1] = 1; })) << "QP1";
  EXPECT_TRUE(refuses([](auto& record) { record.service_data32[1] = 0xFF'FFFF; }));
  EXPECT_TRUE(refuses([](auto& record) { record.service_data32[2] = 0x100'0000; }));
  EXPECT_TRUE(refuses([](auto& record) { record.service_name = {}; }));
  EXPECT_TRUE(refuses([](auto& record) { record.service_name.fill(std::byte{'h'}); }))
      << "without an end";
  EXPECT_TRUE(refuses([](auto& record) { record.service_name[1] = std::byte{'"'}; }))
      << "would end a text of JSON";
  EXPECT_FALSE(refuses([](auto&) {}));
}

TEST(VnicGroup, IsOfOneSwitchAndTransient) {
  EXPECT_NE(group_of(0, 100), group_of(0, 101));
  EXPECT_NE(group_of(1, 100), group_of(0, 100));
  EXPECT_TRUE(group_of(0, 100).is_multicast());
  EXPECT_EQ(group_of(0, 100).prefix() >> 48, 0xFF12U) << "transient, of this link (RFC 4291 §2.7)";
  const auto record = group_record(group_of(0, 100), kDefaultPKey);
  EXPECT_EQ(record.qkey, kTunnelQKey);
  EXPECT_EQ(record.qkey.value() >> 31, 0U) << "a Q_Key that any program may use";
}

}  // namespace
}  // namespace weft::programs::vnic
