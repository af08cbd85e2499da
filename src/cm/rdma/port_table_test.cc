#include "cm/rdma/port_table.h"

#include <gtest/gtest.h>

#include <set>

#include "cm/parameters.h"

namespace weft::cm {
namespace {

constexpr RdmaCmId kOne{1};
constexpr RdmaCmId kOther{2};
constexpr std::uint16_t kPort = 7471;

[[nodiscard]] PortTable::Claim at(const IpAddress& address, std::uint16_t port = kPort) {
  return {
      .address = IpEndpoint{.address = address, .port = port}
  };
}
[[nodiscard]] IpAddress host(std::uint32_t number) { return IpAddress::v4(0x7F4D'0000 + number); }
[[nodiscard]] IpAddress any_v6() { return IpAddress::v6(0, 0); }

TEST(PortTable, RefusesAnAddressThatAnotherIdIsBoundTo) {
  PortTable ports{1};
  ASSERT_EQ(ports.claim(kOne, PortSpace::Tcp, at(host(1))), kPort);
  const auto second = ports.claim(kOther, PortSpace::Tcp, at(host(1)));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::AddressInUse);
  EXPECT_EQ(ports.size(), 1U);
}

TEST(PortTable, HasPortSpacesAndAddressesApart) {
  PortTable ports{1};
  EXPECT_TRUE(ports.claim(kOne, PortSpace::Tcp, at(host(1))));
  EXPECT_TRUE(ports.claim(kOther, PortSpace::Udp, at(host(1))));
  EXPECT_TRUE(ports.claim(RdmaCmId{3}, PortSpace::Tcp, at(host(2))));
}

TEST(PortTable, AnUnspecifiedAddressIsEveryAddress) {
  PortTable ports{1};
  ASSERT_TRUE(ports.claim(kOne, PortSpace::Tcp, at(IpAddress{})));
  EXPECT_FALSE(ports.claim(kOther, PortSpace::Tcp, at(host(1))));
}

/// tgtd listens on both.
TEST(PortTable, IPv6TakesIPv4sPortTooUnlessItSaysThatItDoesNot) {
  PortTable both{1};
  ASSERT_TRUE(both.claim(kOne, PortSpace::Tcp, at(any_v6())));
  EXPECT_FALSE(both.claim(kOther, PortSpace::Tcp, at(IpAddress{})));
  PortTable apart{1};
  PortTable::Claim only = at(any_v6());
  only.af_only = true;
  ASSERT_TRUE(apart.claim(kOne, PortSpace::Tcp, only));
  EXPECT_TRUE(apart.claim(kOther, PortSpace::Tcp, at(IpAddress{})));
}

TEST(PortTable, TwoThatBothReuseAnAddressShareItUntilOneListens) {
  PortTable ports{1};
  PortTable::Claim reuses = at(host(1));
  reuses.reuses_address = true;
  ASSERT_TRUE(ports.claim(kOne, PortSpace::Tcp, reuses));
  ASSERT_TRUE(ports.claim(kOther, PortSpace::Tcp, reuses));
  EXPECT_FALSE(ports.listen(kOne, PortSpace::Tcp, kPort));
  ports.release(kOther, PortSpace::Tcp, kPort);
  EXPECT_TRUE(ports.listen(kOne, PortSpace::Tcp, kPort));
  EXPECT_FALSE(ports.claim(kOther, PortSpace::Tcp, reuses));
}

TEST(PortTable, AnInfiniBandAddressIsOneForEachTypeOfQp) {
  PortTable ports{1};
  const auto of = [](QpType type) {
    return PortTable::Claim{
        .address = IbEndpoint{.service_id = kPort, .service_mask = kExactServiceId},
          .type = type
    };
  };
  ASSERT_TRUE(ports.claim(kOne, PortSpace::Ib, of(QpType::Rc)));
  EXPECT_FALSE(ports.claim(kOther, PortSpace::Ib, of(QpType::Rc)));
  ASSERT_TRUE(ports.claim(kOther, PortSpace::Ib, of(QpType::Uc)));
  EXPECT_TRUE(ports.listen(kOne, PortSpace::Ib, kPort));
  EXPECT_TRUE(ports.listen(kOther, PortSpace::Ib, kPort));
}

TEST(PortTable, ChoosesPortsThatNobodyHasUntilThereAreNone) {
  PortTable ports{1};
  std::set<std::uint16_t> chosen;
  constexpr std::uint32_t kAll = 0x10000 - PortTable::kFirstEphemeral;
  for (std::uint32_t i = 0; i < kAll; ++i) {
    const auto port = ports.claim(RdmaCmId{i + 1}, PortSpace::Tcp, at(host(1), 0));
    ASSERT_TRUE(port);
    EXPECT_GE(*port, PortTable::kFirstEphemeral);
    chosen.insert(*port);
  }
  EXPECT_EQ(chosen.size(), kAll);
  const auto none = ports.claim(RdmaCmId{kAll + 1}, PortSpace::Tcp, at(host(1), 0));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::AddressNotAvailable);
}

TEST(PortTable, ForgetsAllOfAnIdThatReleases) {
  PortTable ports{1};
  ASSERT_TRUE(ports.claim(kOne, PortSpace::Tcp, at(host(1))));
  ports.release(kOther, PortSpace::Tcp, kPort);
  EXPECT_EQ(ports.size(), 1U);
  ports.release(kOne, PortSpace::Tcp, kPort);
  EXPECT_EQ(ports.size(), 0U);
  EXPECT_TRUE(ports.claim(kOther, PortSpace::Tcp, at(IpAddress{})));
}

TEST(PortTable, OnlyWhoHasAPortMayListenOnIt) {
  PortTable ports{1};
  EXPECT_FALSE(ports.listen(kOne, PortSpace::Tcp, kPort));
  EXPECT_EQ(ports.size(), 0U);
}

TEST(SocketAddress, PortsAreServiceIdsOfRdmaCmsPrefix) {  // annex A11
  EXPECT_EQ(service_id_of(PortSpace::Tcp, IpEndpoint{.port = kPort}), 0x0106'1D2FU);
  EXPECT_EQ(service_id_of(PortSpace::Udp, IpEndpoint{.port = kPort}), 0x0111'1D2FU);
  EXPECT_EQ(service_id_of(PortSpace::Ib, IbEndpoint{.service_id = 0x013F'0001}), 0x013F'0001U);
}

TEST(SocketAddress, OnlyTwoLoopbackAddressesAreTheOwnHost) {
  EXPECT_TRUE(is_own_loopback(IpAddress::v4(0x7F00'0001)));
  EXPECT_TRUE(is_own_loopback(IpAddress::v6(0, 1)));
  EXPECT_FALSE(is_own_loopback(host(1)));
}

}  // namespace
}  // namespace weft::cm
