// Ids: their addresses, options and channels.

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "rdmacm_fixture.h"

namespace {

namespace uabi = weft::uabi;
namespace verbs = weft::verbs;
using weft::kDefaultGidPrefix;
using weft::Lid;
using weft::PKey;
using weft::ServiceLevel;

TEST_F(RdmaCm, AnIdSaysItsPortSpaceAndQpTypeAndGoesWhenItIsDestroyed) {
  rdma_cm_id* id = nullptr;
  int context = 7;
  ASSERT_EQ(rdma_create_id(channel_, &id, &context, RDMA_PS_UDP), 0);
  EXPECT_EQ(id->channel, channel_);
  EXPECT_EQ(id->context, &context);
  EXPECT_EQ(id->ps, RDMA_PS_UDP);
  EXPECT_EQ(id->qp_type, IBV_QPT_UD);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_EQ(daemon_->last<uabi::CreateRdmaCmId>()->port_space, RDMA_PS_UDP);
  EXPECT_EQ(daemon_->ids(), 1U);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  EXPECT_EQ(daemon_->ids(), 0U);
}

TEST_F(RdmaCm, AnAddressBindsAnIdToItsDeviceAndTheWildcardToNone) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in any = address("0.0.0.0", 0);
  ASSERT_EQ(rdma_bind_addr(id, generic(any)), 0);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);

  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in here = address("127.77.0.1", 7'471);
  ASSERT_EQ(rdma_bind_addr(id, generic(here)), 0);
  ASSERT_NE(id->verbs, nullptr);
  EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "weft0");
  EXPECT_NE(id->pd, nullptr);
  EXPECT_EQ(id->port_num, 1);
  EXPECT_EQ(rdma_get_src_port(id), htons(7'471));
  EXPECT_EQ(id->route.addr.src_sin.sin_addr.s_addr, here.sin_addr.s_addr);
  EXPECT_EQ(id->route.addr.addr.ibaddr.pkey, htons(0xFFFF));
  EXPECT_EQ(id->route.addr.addr.ibaddr.sgid.global.subnet_prefix, htobe64(kDefaultGidPrefix));
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, AListenerThatWasNotBoundLearnsItsPort) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  EXPECT_EQ(rdma_get_src_port(id), 0);
  ASSERT_EQ(rdma_listen(id, 1), 0);
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, AddressesOfAllFamiliesReachTheDaemonAsTheyAre) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(9);
  six.sin6_scope_id = 3;
  ASSERT_EQ(inet_pton(AF_INET6, "fe80::5", &six.sin6_addr), 1);
  ASSERT_EQ(rdma_bind_addr(id, static_cast<sockaddr*>(static_cast<void*>(&six))), 0);
  const auto bound = daemon_->last<uabi::BindRdmaCmId>()->address;
  EXPECT_EQ(bound.family, uabi::RdmaCmFamily::Ip6);
  EXPECT_EQ(bound.port, 9);
  EXPECT_EQ(bound.scope, 3U);
  EXPECT_EQ(bound.octets[15], std::byte{5});
  EXPECT_EQ(std::memcmp(&id->route.addr.src_sin6, &six, sizeof six), 0);

  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  ib.sib_pkey = htons(0x8001);
  ib.sib_sid = htobe64(RDMA_IB_IP_PS_TCP | 18'515);
  ib.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK);
  ib.sib_addr.sib_raw[15] = 6;
  ASSERT_EQ(rdma_bind_addr(id, static_cast<sockaddr*>(static_cast<void*>(&ib))), 0);
  const auto global = daemon_->last<uabi::BindRdmaCmId>()->address;
  EXPECT_EQ(global.family, uabi::RdmaCmFamily::Ib);
  EXPECT_EQ(global.pkey, PKey{0x8001});
  EXPECT_EQ(global.service_id, RDMA_IB_IP_PS_TCP | 18'515);
  EXPECT_EQ(global.service_mask, RDMA_IB_IP_PS_MASK);
  EXPECT_EQ(rdma_get_src_port(id), htons(18'515));

  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_EQ(rdma_bind_addr(id, &other), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, WhatTheDaemonRefusesHasItsErrno) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in here = address("127.77.0.1", 7'471);
  daemon_->refuse_next<uabi::BindRdmaCmId>(EADDRINUSE, "port 7471 is in use");
  EXPECT_EQ(rdma_bind_addr(id, generic(here)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, ResolvedIdsKnowGidsAndThePath) {
  rdma_cm_id* const id = resolved(7'471);
  EXPECT_EQ(rdma_get_dst_port(id), htons(7'471));
  EXPECT_EQ(id->route.addr.addr.ibaddr.dgid.global.interface_id, htobe64(2));
  ASSERT_EQ(id->route.num_paths, 1);
  const ibv_sa_path_rec& path = *id->route.path_rec;
  EXPECT_EQ(path.mtu, IBV_MTU_2048);
  EXPECT_EQ(path.mtu_selector, 2);
  EXPECT_EQ(path.packet_life_time, 10);
  EXPECT_EQ(path.pkey, htons(0xFFFF));
  EXPECT_EQ(path.reversible, 1);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, OptionsAreToldByWhatTheyMean) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  std::uint8_t octet = 18;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &octet, 1), 0);
  EXPECT_EQ(daemon_->last<uabi::SetRdmaCmOption>()->option, verbs::RdmaCmOption::AckTimeout);
  EXPECT_EQ(daemon_->last<uabi::SetRdmaCmOption>()->value, 18U);
  int yes = 5;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes), 0);
  EXPECT_EQ(daemon_->last<uabi::SetRdmaCmOption>()->option, verbs::RdmaCmOption::AfOnly);
  EXPECT_EQ(daemon_->last<uabi::SetRdmaCmOption>()->value, 1U);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, 99, &yes, sizeof yes), -1);
  EXPECT_EQ(errno, ENOSYS);

  ibv_path_data path{};
  path.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
  path.path.dlid = htons(5);
  path.path.flowlabel_hoplimit = htonl(0x12345 << 8 | 64);
  path.path.qosclass_sl = htons(0x123 << 4 | 7);
  path.path.mtu = 2 << 6 | IBV_MTU_4096;
  path.path.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof path), 0);
  const auto told = daemon_->last<uabi::SetRdmaCmPaths>()->paths;
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].dlid, Lid{5});
  EXPECT_EQ(told[0].flow_label, 0x12345U);
  EXPECT_EQ(told[0].hop_limit, 64);
  EXPECT_EQ(told[0].sl, ServiceLevel{7});
  EXPECT_EQ(told[0].mtu, verbs::Mtu::Mtu4096);
  EXPECT_TRUE(told[0].is_reversible);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 7), -1);
  EXPECT_EQ(errno, EINVAL);
  path.path.mtu = 2 << 6 | 6;  // no MTU
  errno = 0;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof path), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmaCm, AChannelTellsItsHostAndWhatLoopbackMeans) {
  EXPECT_EQ(daemon_->last<uabi::OpenRdmaCm>()->host, "h1");
  EXPECT_EQ(daemon_->last<uabi::OpenRdmaCm>()->loopback, "");
  setenv("WEFT_LOOPBACK", "h2", 1);
  rdma_event_channel* const other = rdma_create_event_channel();
  unsetenv("WEFT_LOOPBACK");
  EXPECT_EQ(daemon_->last<uabi::OpenRdmaCm>()->loopback, "h2");
  rdma_destroy_event_channel(other);
}

TEST_F(RdmaCm, MigratedIdsTakeTheirEventsWithThemBothWays) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in there = address("127.77.0.1", 7'471);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(there), 1'000), 0);
  rdma_event_channel* const other = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(id, other), 0);
  EXPECT_EQ(id->channel, other);
  pollfd nothing{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&nothing, 1, 0), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(other, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(event->id, id);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);

  ASSERT_EQ(rdma_migrate_id(id, nullptr), 0);  // synchronous from now on
  EXPECT_NE(id->channel, other);
  EXPECT_EQ(rdma_resolve_route(id, 1'000), 0);
  ASSERT_NE(id->event, nullptr);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_EQ(rdma_migrate_id(id, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);

  const std::size_t channels = daemon_->channels();
  ASSERT_EQ(rdma_migrate_id(id, channel_), 0);  // its own channel goes
  EXPECT_EQ(id->event, nullptr);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  EXPECT_EQ(daemon_->channels(), channels - 1);
  rdma_destroy_event_channel(other);
}

TEST_F(RdmaCm, ADestroyedIdWaitsForItsEventsToBeAcknowledged) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  daemon_->raise(number_of_last_id(), {.type = verbs::RdmaCmEventType::TimewaitExit});
  rdma_cm_event* const event = next(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  ASSERT_NE(event, nullptr);
  std::atomic<bool> is_gone{false};
  std::thread destroyer{[&] {
    EXPECT_EQ(rdma_destroy_id(id), 0);
    is_gone = true;
  }};
  usleep(50'000);
  EXPECT_FALSE(is_gone);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  destroyer.join();
  EXPECT_TRUE(is_gone);
}

TEST_F(RdmaCm, EventsOfADestroyedIdAreForgotten) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0);
  daemon_->raise(number_of_last_id(), {.type = verbs::RdmaCmEventType::TimewaitExit});
  EXPECT_EQ(rdma_destroy_id(id), 0);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
