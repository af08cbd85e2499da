// What programs of newer headers call (RDMACM_1.4): rdma_resolve_addrinfo(), rdma_query_addrinfo()
// and rdma_write_cm_event(). Their events have no enumerators in Debian 12's header, so they are
// read as numbers.

#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "compat/rdmacm/later.h"
#include "rdmacm_fixture.h"

namespace {

namespace uabi = weft::uabi;
using weft::compat::kAddrinfoError;
using weft::compat::kAddrinfoResolved;
using weft::compat::kFromDns;
using weft::compat::kFromSa;
using weft::compat::kUserEvent;
using weft::compat::number_of;

constexpr const char* kService = "echo";

/// As programs of C pass them, to whom an enumeration is a number.
[[nodiscard]] __attribute__((no_sanitize("undefined"))) rdma_cm_event_type event_type(int number) {
  rdma_cm_event_type type{};
  weft::compat::set_number(type, number);
  return type;
}

class AddressResolution : public RdmaCm {
 protected:
  /// What there is to know of an event that was acknowledged.
  struct Told {
    int type{-1};
    int status{};
    std::uint64_t argument{};
    rdma_cm_id* id{};
  };
  [[nodiscard]] static Told next_of(rdma_event_channel* channel) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel, &event) != 0) {
      ADD_FAILURE() << std::strerror(errno);
      return {};
    }
    Told told{.type = number_of(event->event), .status = event->status, .id = event->id};
    std::memcpy(&told.argument, &event->param, sizeof told.argument);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return told;
  }
  [[nodiscard]] rdma_cm_id* new_id(rdma_event_channel* channel, rdma_port_space space) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel, &id, nullptr, space), 0);
    return id;
  }
  void offer_services() {
    daemon_->set_services(kService, {
                                        {.service_id = 0x1234,
                                         .gid = weft::Gid{weft::kDefaultGidPrefix, weft::Guid{7}},
                                         .pkey = weft::PKey{0x8001}},
                                        {.service_id = 0x1234,
                                         .gid = weft::Gid{weft::kDefaultGidPrefix, weft::Guid{8}},
                                         .pkey = weft::PKey{0xFFFF}}
    });
  }
  static void expect_services(const rdma_addrinfo* found) {
    for (const int last : {7, 8}) {
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->ai_family, AF_IB);
      EXPECT_EQ(found->ai_flags, kFromSa);
      EXPECT_EQ(found->ai_port_space, RDMA_PS_IB);
      ASSERT_EQ(found->ai_dst_len, sizeof(sockaddr_ib));
      sockaddr_ib there{};
      std::memcpy(&there, found->ai_dst_addr, sizeof there);
      EXPECT_EQ(be64toh(there.sib_sid), 0x1234U);
      EXPECT_EQ(there.sib_sid_mask, ~std::uint64_t{0});
      EXPECT_EQ(be16toh(there.sib_pkey), last == 7 ? 0x8001 : 0xFFFF);
      EXPECT_EQ(there.sib_addr.sib_raw[15], last);
      found = found->ai_next;
    }
    EXPECT_EQ(found, nullptr);
  }
};

TEST_F(AddressResolution, OfANameEndsInAnEventAndIsFetchedOnce) {
  rdma_cm_id* const id = new_id(channel_, RDMA_PS_TCP);
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(rdma_query_addrinfo(id, &found), -1);
  EXPECT_EQ(errno, ENOENT);
  for (const int flags : {0, kFromDns}) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    ASSERT_EQ(rdma_resolve_addrinfo(id, "127.77.0.2", "7471", &hints), 0);
    const Told told = next_of(channel_);
    EXPECT_EQ(told.type, kAddrinfoResolved);
    EXPECT_EQ(told.status, 0);
    EXPECT_EQ(told.id, id);
    EXPECT_EQ(rdma_resolve_addrinfo(id, "127.77.0.3", "7471", &hints), -1);
    EXPECT_EQ(errno, EBUSY);  // not fetched yet
    ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
    sockaddr_in there{};
    ASSERT_EQ(found->ai_dst_len, sizeof there);
    std::memcpy(&there, found->ai_dst_addr, sizeof there);
    EXPECT_EQ(there.sin_port, htons(7'471));
    EXPECT_EQ(there.sin_addr.s_addr, address("127.77.0.2", 0).sin_addr.s_addr);
    rdma_freeaddrinfo(found);
    EXPECT_EQ(rdma_query_addrinfo(id, &found), -1);
    EXPECT_EQ(errno, ENOENT);
  }
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(AddressResolution, OfANameThatNobodyHasEndsInAnErrorEvent) {
  rdma_cm_id* const id = new_id(channel_, RDMA_PS_TCP);
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST;
  for (int i = 0; i < 2; ++i) {  // the id may ask again
    ASSERT_EQ(rdma_resolve_addrinfo(id, "no.such.host", "7471", &hints), 0);
    const Told told = next_of(channel_);
    EXPECT_EQ(told.type, kAddrinfoError);
    EXPECT_EQ(told.status, -ENOENT);
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_query_addrinfo(id, &found), -1);
  }
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

/// The program may free or change what it hinted at as soon as the call returns.
TEST_F(AddressResolution, TakesACopyOfTheHints) {
  rdma_cm_id* const id = new_id(channel_, RDMA_PS_TCP);
  {
    auto here = std::make_unique<sockaddr_in>(address("127.77.0.1", 0));
    std::string data = "connect";
    rdma_addrinfo hints{};
    hints.ai_src_addr = generic(*here);
    hints.ai_src_len = sizeof *here;
    hints.ai_connect = data.data();
    hints.ai_connect_len = data.size();
    std::string node = "127.77.0.2";
    ASSERT_EQ(rdma_resolve_addrinfo(id, node.c_str(), "5", &hints), 0);
    node.assign(node.size(), '?');
    data.assign(data.size(), '?');
  }
  EXPECT_EQ(next_of(channel_).type, kAddrinfoResolved);
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
  ASSERT_EQ(found->ai_connect_len, 7U);
  EXPECT_EQ(std::memcmp(found->ai_connect, "connect", 7), 0);
  EXPECT_EQ(found->ai_src_len, sizeof(sockaddr_in));
  rdma_freeaddrinfo(found);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(AddressResolution, OfAServiceIsWhatSaKnows) {
  offer_services();
  rdma_cm_id* const id = new_id(channel_, RDMA_PS_IB);
  rdma_addrinfo hints{};
  hints.ai_flags = kFromSa;
  for (const char* const service : {kService, "0x1234"}) {
    ASSERT_EQ(rdma_resolve_addrinfo(id, nullptr, service, &hints), 0);
    const auto asked = daemon_->last<uabi::ResolveRdmaCmService>();
    EXPECT_EQ(asked->name, service == kService ? kService : "");
    EXPECT_EQ(asked->service_id, service == kService ? 0U : 0x1234U);
    EXPECT_EQ(next_of(channel_).type, kAddrinfoResolved);
    rdma_addrinfo* found = nullptr;
    ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
    expect_services(found);
    rdma_freeaddrinfo(found);
  }
  ASSERT_EQ(rdma_resolve_addrinfo(id, nullptr, "nobody", &hints), 0);
  const Told told = next_of(channel_);
  EXPECT_EQ(told.type, kAddrinfoError);
  EXPECT_EQ(told.status, -ENOENT);
  ASSERT_EQ(rdma_resolve_addrinfo(id, nullptr, kService, &hints), 0);  // left unfetched
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(AddressResolution, WaitsWithoutAChannel) {
  offer_services();
  rdma_cm_id* const id = new_id(nullptr, RDMA_PS_IB);
  rdma_addrinfo hints{};
  hints.ai_flags = kFromSa;
  ASSERT_EQ(rdma_resolve_addrinfo(id, nullptr, kService, &hints), 0);
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
  expect_services(found);
  rdma_freeaddrinfo(found);
  EXPECT_EQ(rdma_resolve_addrinfo(id, nullptr, "nobody", &hints), -1);
  EXPECT_EQ(errno, ENOENT);
  hints.ai_flags = 0;
  ASSERT_EQ(rdma_resolve_addrinfo(id, "127.77.0.2", "7471", nullptr), 0);
  ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  rdma_freeaddrinfo(found);
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_EQ(rdma_resolve_addrinfo(id, "no.such.host", "7471", &hints), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(AddressResolution, RefusesAtOnceWhatCannotBeMeant) {
  rdma_cm_id* const id = new_id(channel_, RDMA_PS_IB);
  rdma_addrinfo hints{};
  const auto refuses = [&](int flags, const char* node, const char* service, int error) {
    hints.ai_flags = flags;
    EXPECT_EQ(rdma_resolve_addrinfo(id, node, service, &hints), -1);
    EXPECT_EQ(errno, error);
  };
  refuses(kFromSa | kFromDns, nullptr, kService, ENOTSUP);
  refuses(kFromSa, "h1", kService, ENOTSUP);
  refuses(kFromSa, nullptr, nullptr, EINVAL);
  refuses(kFromSa, nullptr, std::string(65, 'x').c_str(), EINVAL);
  EXPECT_EQ(rdma_resolve_addrinfo(id, nullptr, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_resolve_addrinfo(nullptr, "h1", nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  daemon_->refuse_next<uabi::ResolveRdmaCmService>(EINVAL, "not bound");
  refuses(kFromSa, nullptr, kService, EINVAL);
  ASSERT_EQ(rdma_resolve_addrinfo(id, "127.77.0.2", "7471", nullptr), 0);  // no question is open
  EXPECT_EQ(next_of(channel_).type, kAddrinfoResolved);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(AddressResolution, OfAServiceAsksFromEachPortForGetaddrinfo) {
  offer_services();
  rdma_addrinfo hints{};
  hints.ai_flags = kFromSa;
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(nullptr, kService, &hints, &found), 0);
  expect_services(found);
  ASSERT_EQ(found->ai_src_len, sizeof(sockaddr_ib));
  sockaddr_ib here{};
  std::memcpy(&here, found->ai_src_addr, sizeof here);
  EXPECT_EQ(here.sib_addr.sib_raw[0], 0xFE);
  EXPECT_EQ(be16toh(here.sib_pkey), 0x8001);
  rdma_freeaddrinfo(found);
  EXPECT_EQ(rdma_getaddrinfo(nullptr, "nobody", &hints, &found), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(rdma_getaddrinfo("h1", kService, &hints, &found), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

/// The look-up may outlive the id, and nobody waits for it.
TEST_F(AddressResolution, IsForgottenWithItsId) {
  for (int i = 0; i < 20; ++i) {
    rdma_cm_id* const id = new_id(channel_, RDMA_PS_TCP);
    ASSERT_EQ(rdma_resolve_addrinfo(id, "127.77.0.2", "7471", nullptr), 0);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  usleep(100'000);
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
}

TEST_F(AddressResolution, TellsTheChannelThatTheIdIsOnByThen) {
  rdma_event_channel* const other = rdma_create_event_channel();
  for (int i = 0; i < 20; ++i) {
    rdma_cm_id* const id = new_id(channel_, RDMA_PS_TCP);
    ASSERT_EQ(rdma_resolve_addrinfo(id, "127.77.0.2", "7471", nullptr), 0);
    ASSERT_EQ(rdma_migrate_id(id, other), 0);
    EXPECT_EQ(next_of(other).type, kAddrinfoResolved);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  rdma_destroy_event_channel(other);
}

TEST_F(AddressResolution, AProgramWakesItsOwnWaiterByAnEvent) {
  rdma_cm_id* const id = new_id(channel_, RDMA_PS_TCP);
  std::thread waiter{[&] {
    const Told told = next_of(channel_);
    EXPECT_EQ(told.type, kUserEvent);
    EXPECT_EQ(told.id, id);
    EXPECT_EQ(told.status, -7);
    EXPECT_EQ(told.argument, 0x1122'3344'5566'7788U);
  }};
  usleep(20'000);
  EXPECT_EQ(rdma_write_cm_event(id, event_type(kUserEvent), -7, 0x1122'3344'5566'7788), 0);
  waiter.join();
  for (const int other : {int{RDMA_CM_EVENT_ESTABLISHED}, kAddrinfoResolved, kUserEvent + 1}) {
    EXPECT_EQ(rdma_write_cm_event(id, event_type(other), 0, 0), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(rdma_write_cm_event(nullptr, event_type(kUserEvent), 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(AddressResolution, EventsHaveNames) {
  EXPECT_STREQ(rdma_event_str(event_type(kAddrinfoResolved)), "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
  EXPECT_STREQ(rdma_event_str(event_type(kAddrinfoError)), "RDMA_CM_EVENT_ADDRINFO_ERROR");
  EXPECT_STREQ(rdma_event_str(event_type(kUserEvent)), "RDMA_CM_EVENT_USER");
  EXPECT_STREQ(rdma_event_str(event_type(kUserEvent + 1)), "UNKNOWN EVENT");
}

}  // namespace
