#include "daemon/netlink/program_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

#include "cm/rdma/socket_address.h"

namespace weft::daemon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ProgramViews, NumbersOfProcessesDiffer) {
  EXPECT_NE(number_on_host(1, 5), number_on_host(2, 5));
  EXPECT_NE(number_on_host(1, 5), number_on_host(1, 6));
  EXPECT_EQ(number_on_host(3, 0), 0U) << "none";
}

TEST(ProgramViews, HaveWhatTheProgramSays) {
  uabi::ObjectsHeld part;
  part.pds = {
      {.number = 1, .uses = 3}
  };
  part.cqs = {
      {.number = 2, .capacity = 64, .uses = 2}
  };
  part.mrs = {
      {.number = 7, .lkey = 0x700, .rkey = 0x701, .length = 4'096, .pd = 1}
  };
  part.srqs = {
      {.number = 1, .is_xrc = true, .pd = 1, .cq = 2}
  };
  part.qps = {
      {.number = Qpn{0x4001},
       .type = 2,
       .state = 3,
       .port = 1,
       .dest = Qpn{0x8002},
       .rq_psn = 5,
       .sq_psn = 6,
       .pd = 1},
      {.number = Qpn{0x4002}, .type = 4, .state = 1, .dest = Qpn{9}, .pd = 1}
  };
  host_view::ProgramView view;
  add_held(part, 1, view);
  const std::uint32_t pd = number_on_host(1, 1);
  ASSERT_THAT(view.pds, SizeIs(1));
  EXPECT_EQ(view.pds[0].number, pd);
  EXPECT_EQ(view.pds[0].users, 3U);
  EXPECT_EQ(view.cqs.at(0).entries, 64U);
  EXPECT_EQ(view.mrs.at(0).length, 4'096U);
  EXPECT_EQ(view.mrs.at(0).rkey, 0x701U);
  EXPECT_EQ(view.srqs.at(0).cq, number_on_host(1, 2));
  ASSERT_THAT(view.qps, SizeIs(2));
  EXPECT_EQ(view.qps[0].remote, Qpn{0x8002});
  EXPECT_EQ(view.qps[0].receive_psn, 5U);
  EXPECT_EQ(view.qps[0].migration_state, 0);
  EXPECT_EQ(view.qps[0].pd, pd);
  EXPECT_EQ(view.qps[1].remote, std::nullopt) << "a datagram QP has no peer";
  EXPECT_EQ(view.qps[1].migration_state, std::nullopt);
}

TEST(ProgramViews, LeaveOutWhatMeansNothing) {
  uabi::ObjectsHeld part;
  part.qps.resize(3);
  part.qps[0].type = 2;
  part.qps[0].state = 7;  // there are 0 to 6
  part.qps[1].type = 1;   // no type of ours
  part.qps[2].type = 2;
  part.qps[2].migration = 3;
  host_view::ProgramView view;
  add_held(part, 1, view);
  EXPECT_THAT(view.qps, IsEmpty());
}

TEST(ProgramViews, OfAnIdHasTheKernelsNumbers) {
  const cm::RdmaCmIdInfo info{
      .state = cm::RdmaCmState::Listen,
      .space = cm::PortSpace::Tcp,
      .qp_type = cm::QpType::Rc,
      .port = PortNumber{1},
      .source = cm::IpEndpoint{.address = IpAddress::v4(0x7F4D'0001), .port = 7'174},
      .destination = cm::IpEndpoint{.address = IpAddress::v6(0xFE80ULL << 48, 1), .port = 1}
  };
  const host_view::CmIdView view = view_of(9, info);
  EXPECT_EQ(view.number, 9U);
  EXPECT_EQ(view.state, 8) << "RDMA_CM_LISTEN";
  EXPECT_EQ(view.port_space, 0x0106U);
  ASSERT_EQ(view.source.size(), sizeof(sockaddr_in));
  sockaddr_in source{};
  std::memcpy(&source, view.source.data(), sizeof source);
  EXPECT_EQ(ntohl(source.sin_addr.s_addr), 0x7F4D'0001U);
  EXPECT_EQ(ntohs(source.sin_port), 7'174);
  ASSERT_EQ(view.destination.size(), sizeof(sockaddr_in6));
  EXPECT_THAT(view_of(1, {}).source, IsEmpty());
}

}  // namespace
}  // namespace weft::daemon
