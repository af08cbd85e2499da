// rdma_getaddrinfo(): what programs hint at, and what they get.

#include <netdb.h>

#include <cerrno>

#include "rdmacm_fixture.h"

namespace {

TEST_F(RdmaCm, AddressesOfNamesAreDestinationsUnlessTheProgramIsPassive) {
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.77.0.2", "7471", nullptr, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_EQ(found->ai_qp_type, IBV_QPT_RC);
  EXPECT_EQ(found->ai_port_space, RDMA_PS_TCP);
  EXPECT_EQ(found->ai_src_addr, nullptr);
  ASSERT_EQ(found->ai_dst_len, sizeof(sockaddr_in));
  sockaddr_in there{};
  std::memcpy(&there, found->ai_dst_addr, sizeof there);
  EXPECT_EQ(there.sin_port, htons(7'471));
  rdma_freeaddrinfo(found);

  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_UDP;
  ASSERT_EQ(rdma_getaddrinfo(nullptr, "7471", &hints, &found), 0);
  EXPECT_EQ(found->ai_flags, RAI_PASSIVE);
  EXPECT_EQ(found->ai_qp_type, IBV_QPT_UD);
  EXPECT_EQ(found->ai_port_space, RDMA_PS_UDP);
  EXPECT_NE(found->ai_src_addr, nullptr);
  EXPECT_EQ(found->ai_dst_addr, nullptr);
  rdma_freeaddrinfo(found);
}

TEST_F(RdmaCm, ServicesMayHaveNames) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  if (getservbyname("domain", "tcp") == nullptr) {
    GTEST_SKIP() << "this machine has no list of services";
  }
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.77.0.2", "domain", &hints, &found), 0);
  sockaddr_in there{};
  std::memcpy(&there, found->ai_dst_addr, sizeof there);
  EXPECT_EQ(there.sin_port, htons(53));
  rdma_freeaddrinfo(found);
}

TEST_F(RdmaCm, HintsAloneSayTheFamilyByTheirAddress) {
  sockaddr_in there = address("127.77.0.2", 5);
  sockaddr_in here = address("127.77.0.1", 0);
  char data[] = "connect";
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_dst_addr = generic(there);
  hints.ai_dst_len = sizeof there;
  hints.ai_src_addr = generic(here);
  hints.ai_src_len = sizeof here;
  hints.ai_connect = data;
  hints.ai_connect_len = sizeof data;
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(nullptr, nullptr, &hints, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_EQ(std::memcmp(found->ai_dst_addr, &there, sizeof there), 0);
  EXPECT_EQ(std::memcmp(found->ai_src_addr, &here, sizeof here), 0);
  EXPECT_NE(found->ai_dst_addr, hints.ai_dst_addr);
  rdma_freeaddrinfo(found);
  hints.ai_src_len = 0;
  hints.ai_src_addr = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(nullptr, nullptr, &hints, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_STREQ(static_cast<char*>(found->ai_connect), "connect");
  rdma_freeaddrinfo(found);
}

TEST_F(RdmaCm, ANumericGidIsAnAddressOfInfiniBand) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST | RAI_FAMILY;
  hints.ai_family = AF_IB;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("fe80::1234", "7471", &hints, &found), 0);
  EXPECT_EQ(found->ai_family, AF_IB);
  ASSERT_EQ(found->ai_dst_len, sizeof(sockaddr_ib));
  sockaddr_ib there{};
  std::memcpy(&there, found->ai_dst_addr, sizeof there);
  EXPECT_EQ(be64toh(there.sib_sid), RDMA_IB_IP_PS_TCP | 7'471);
  EXPECT_EQ(there.sib_sid_mask, ~std::uint64_t{0});
  EXPECT_EQ(there.sib_pkey, 0xFFFF);
  EXPECT_EQ(there.sib_addr.sib_raw[0], 0xFE);
  EXPECT_EQ(there.sib_addr.sib_raw[15], 0x34);
  rdma_freeaddrinfo(found);
}

TEST_F(RdmaCm, WhatNobodyKnowsIsAnErrorOfGetaddrinfo) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST;
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(rdma_getaddrinfo("no.such.host", "7471", &hints, &found), EAI_NONAME);
  EXPECT_EQ(rdma_getaddrinfo(nullptr, nullptr, nullptr, &found), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
