// The drop-in libibumad on a live fabric: a star of two hosts, h1 and h2, with LIDs.

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <infiniband/umad_sa.h>
#include <infiniband/umad_sm.h>
#include <infiniband/umad_types.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "daemon/testing/live_fabric.h"

/// Of rdma-core 57 and later.
struct umad_ca_pair {
  char smi_name[UMAD_CA_NAME_LEN];
  std::uint32_t smi_preferred_port;
  char gsi_name[UMAD_CA_NAME_LEN];
  std::uint32_t gsi_preferred_port;
};

namespace {

constexpr int kWaitMs = 5'000;

/// One fabric for all tests of this program.
class Fabric : public ::testing::Environment {
 public:
  void SetUp() override {
    fabric_ = std::make_unique<weft::daemon::testing::LiveFabric>("star:2");
    fabric_->show_to_this_process();
  }
  void TearDown() override { fabric_.reset(); }

 private:
  std::unique_ptr<weft::daemon::testing::LiveFabric> fabric_;
};

const auto* const kFabric = ::testing::AddGlobalTestEnvironment(new Fabric);

/// An envelope with room for a MAD.
struct Buffer {
  explicit Buffer(std::size_t bytes = 256) : memory(sizeof(ib_user_mad) + bytes) {}
  [[nodiscard]] ib_user_mad* umad() {
    return static_cast<ib_user_mad*>(static_cast<void*>(memory.data()));
  }
  [[nodiscard]] std::byte* mad() { return memory.data() + sizeof(ib_user_mad); }
  [[nodiscard]] umad_hdr* header() { return static_cast<umad_hdr*>(static_cast<void*>(mad())); }
  std::vector<std::byte> memory;
};

Buffer mad_of(std::uint8_t mgmt_class, std::uint8_t method, std::uint16_t attribute,
              std::size_t bytes = 256) {
  Buffer buffer{bytes};
  umad_hdr& header = *buffer.header();
  header.base_version = UMAD_BASE_VERSION;
  header.mgmt_class = mgmt_class;
  header.class_version = mgmt_class == UMAD_CLASS_SUBN_ADM ? UMAD_SA_CLASS_VERSION : 1;
  header.method = method;
  header.attr_id = htons(attribute);
  header.tid = htobe64(7);
  return buffer;
}

/// An open port, closed at the end of the test.
class Port {
 public:
  explicit Port(const char* node, int number = 1) {
    setenv("WEFT_HOST", node, 1);
    fd = umad_open_port("weft0", number);
    EXPECT_GE(fd, 0);
  }
  ~Port() { umad_close_port(fd); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] unsigned lid() const {
    umad_port_t port{};
    EXPECT_EQ(umad_get_port("weft0", 1, &port), 0);
    const unsigned lid = port.base_lid;
    umad_release_port(&port);
    return lid;
  }
  int fd{-1};
};

/// A mask with one method.
std::array<long, 2> only(unsigned method) {
  std::array<long, 2> mask{};
  mask.at(method / 64) = std::bit_cast<long>(1UL << method % 64);
  return mask;
}

bool is_sm(const char* node) {
  setenv("WEFT_HOST", node, 1);
  umad_port_t port{};
  EXPECT_EQ(umad_get_port("weft0", 1, &port), 0);
  const std::uint32_t capabilities = ntohl(port.capmask);
  umad_release_port(&port);
  return (capabilities & 2) != 0;
}

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < kWaitMs / 5; ++i) {
    if (condition()) {
      return true;
    }
    usleep(5'000);
  }
  return false;
}

template <class Function>
[[nodiscard]] Function* symbol(const char* version, const char* name) {
  void* const library = dlopen("libibumad.so.3", RTLD_NOW | RTLD_NOLOAD);
  return std::bit_cast<Function*>(dlvsym(library, name, version));
}

TEST(Umad, NamesDevicesAsPairsOfSmiAndGsi) {
  setenv("WEFT_HOST", "h2", 1);
  auto* const all = symbol<int(umad_ca_pair*, std::size_t)>("IBUMAD_1.4", "umad_get_smi_gsi_pairs");
  auto* const by_name = symbol<int(const char*, std::uint8_t, umad_ca_pair*, unsigned)>(
      "IBUMAD_1.4", "umad_get_smi_gsi_pair_by_ca_name");
  ASSERT_TRUE(all != nullptr && by_name != nullptr);
  umad_ca_pair pairs[3]{};
  ASSERT_EQ(all(pairs, 3), 1);
  EXPECT_STREQ(pairs[0].smi_name, "weft0");
  EXPECT_STREQ(pairs[0].gsi_name, "weft0");
  EXPECT_EQ(pairs[0].smi_preferred_port, 1U);
  EXPECT_EQ(pairs[0].gsi_preferred_port, 1U);
  EXPECT_EQ(all(pairs, 0), 0);
  umad_ca_pair pair{};
  EXPECT_EQ(by_name(nullptr, 0, &pair, 0), 0);
  EXPECT_STREQ(pair.gsi_name, "weft0");
  EXPECT_EQ(by_name("weft0", 1, &pair, 1), 0);
  EXPECT_EQ(pair.smi_preferred_port, 1U);
  EXPECT_NE(by_name("weft0", 2, &pair, 0), 0) << "it has one port";
  EXPECT_NE(by_name("mlx5_0", 1, &pair, 0), 0);
  EXPECT_STREQ(pair.gsi_name, "");
}

TEST(Umad, OpensThePortOfAnSmi) {
  setenv("WEFT_HOST", "h2", 1);
  auto* const open = symbol<int(const char*, int)>("IBUMAD_1.3", "umad_open_smi_port");
  ASSERT_NE(open, nullptr);
  const int fd = open("weft0", 1);
  ASSERT_GE(fd, 0);
  EXPECT_GE(umad_register(fd, UMAD_CLASS_SUBN_LID_ROUTED, 1, 0, nullptr), 0);
  EXPECT_EQ(umad_close_port(fd), 0);
  EXPECT_LT(open("mlx5_0", 1), 0);
}

TEST(Umad, DescribesTheDevicesOfAHost) {
  setenv("WEFT_HOST", "h2", 1);
  ASSERT_EQ(umad_init(), 0);
  char names[4][UMAD_CA_NAME_LEN]{};
  ASSERT_EQ(umad_get_cas_names(names, 4), 1);
  EXPECT_STREQ(names[0], "weft0");
  umad_ca_t ca{};
  ASSERT_EQ(umad_get_ca(nullptr, &ca), 0);
  EXPECT_STREQ(ca.ca_name, "weft0");
  EXPECT_EQ(ca.node_type, 1U);
  EXPECT_EQ(ca.numports, 1);
  EXPECT_EQ(ca.ports[0], nullptr);
  ASSERT_NE(ca.ports[1], nullptr);
  EXPECT_EQ(ca.ports[1]->state, 4U);
  EXPECT_EQ(ca.ports[1]->phys_state, 5U);
  EXPECT_EQ(ca.ports[1]->pkeys[0], 0xFFFF);
  EXPECT_STREQ(ca.ports[1]->link_layer, "InfiniBand");
  EXPECT_EQ(be64toh(ca.ports[1]->gid_prefix), 0xFE80'0000'0000'0000U);
  EXPECT_NE(ca.ports[1]->base_lid, 0U);
  __be64 guids[4]{};
  EXPECT_EQ(umad_get_ca_portguids("weft0", guids, 4), 2);
  EXPECT_EQ(guids[1], ca.ports[1]->port_guid);
  EXPECT_EQ(umad_get_ca_portguids("weft0", guids, 1), -ENOMEM);
  EXPECT_EQ(umad_release_ca(&ca), 0);
  EXPECT_EQ(ca.ports[1], nullptr);
  umad_device_node* const list = umad_get_ca_device_list();
  ASSERT_NE(list, nullptr);
  EXPECT_STREQ(list->ca_name, "weft0");
  umad_free_ca_device_list(list);
  umad_port_t port{};
  EXPECT_LT(umad_get_port("weft0", 2, &port), 0);
  EXPECT_LT(umad_get_ca("mlx5_0", &ca), 0);
  EXPECT_LT(umad_open_port("weft0", 2), 0);
}

TEST(Umad, OfASwitchOpensItsPort0) {
  setenv("WEFT_HOST", "s1", 1);
  umad_ca_t ca{};
  ASSERT_EQ(umad_get_ca("weft0", &ca), 0);
  EXPECT_EQ(ca.node_type, 2U);
  ASSERT_NE(ca.ports[0], nullptr);
  umad_release_ca(&ca);
  const int port = umad_open_port(nullptr, 0);
  ASSERT_GE(port, 0);
  EXPECT_EQ(umad_get_fd(port), port);
  EXPECT_GE(umad_register(port, UMAD_CLASS_SUBN_LID_ROUTED, 1, 0, nullptr), 0);
  umad_close_port(port);
}

TEST(Umad, GivesOutThirtyTwoAgents) {
  const Port port{"h1"};
  for (int i = 0; i < UMAD_CA_MAX_AGENTS; ++i) {
    EXPECT_EQ(umad_register(port.fd, UMAD_CLASS_PERF_MGMT, 1, 0, nullptr), i);
  }
  EXPECT_EQ(umad_register(port.fd, UMAD_CLASS_PERF_MGMT, 1, 0, nullptr), -EPERM);
  EXPECT_EQ(umad_unregister(port.fd, 3), 0);
  EXPECT_EQ(umad_unregister(port.fd, 3), -1);
  EXPECT_EQ(errno, EINVAL);
  umad_reg_attr attributes{};
  attributes.mgmt_class = 0x30;
  attributes.mgmt_class_version = 1;
  std::uint32_t agent = 99;
  EXPECT_EQ(umad_register2(port.fd, &attributes, &agent), EINVAL);  // an OUI is missing
  attributes.oui = 0x1405;
  attributes.flags = 0x80;
  EXPECT_EQ(umad_register2(port.fd, &attributes, &agent), EINVAL);
  EXPECT_EQ(attributes.flags, UMAD_USER_RMPP);  // what there is
  EXPECT_EQ(umad_register2(port.fd, &attributes, &agent), 0);
  EXPECT_EQ(agent, 3U);
  std::uint8_t oui[3] = {0, 0x14, 5};
  EXPECT_EQ(umad_register_oui(port.fd, 0x81, 0, oui, nullptr), -EINVAL);
}

TEST(Umad, AsksAlongARouteAndKeepsWhatABufferIsTooShortFor) {
  const Port port{"h1"};
  const int agent = umad_register(port.fd, UMAD_CLASS_SUBN_DIRECTED_ROUTE, 1, 0, nullptr);
  ASSERT_EQ(agent, 0);
  Buffer ask = mad_of(UMAD_CLASS_SUBN_DIRECTED_ROUTE, UMAD_METHOD_GET, UMAD_SM_ATTR_NODE_INFO);
  std::memset(ask.mad() + 32, 0xFF, 4);  // DrSLID and DrDLID: directed all the way
  umad_set_addr(ask.umad(), 0xFFFF, 0, 0, 0);
  ASSERT_EQ(umad_send(port.fd, agent, ask.umad(), 256, 1'000, 2), 0);
  EXPECT_EQ(umad_poll(port.fd, kWaitMs), 0);
  Buffer answer;
  int length = 100;
  EXPECT_EQ(umad_recv(port.fd, answer.umad(), &length, kWaitMs), -EINVAL);
  EXPECT_EQ(length, 256);
  ASSERT_EQ(umad_recv(port.fd, answer.umad(), &length, kWaitMs), agent);
  EXPECT_EQ(umad_status(answer.umad()), 0);
  EXPECT_EQ(answer.umad()->length, 64U + 256U);
  EXPECT_EQ(answer.header()->method, UMAD_METHOD_GET_RESP);
  EXPECT_EQ(static_cast<std::uint32_t>(be64toh(answer.header()->tid)), 7U);
  EXPECT_NE(be64toh(answer.header()->tid) >> 32, 0U);
  EXPECT_EQ(umad_recv(port.fd, answer.umad(), &length, 0), -EAGAIN);
  EXPECT_EQ(umad_recv(port.fd, answer.umad(), &length, 10), -ETIMEDOUT);
}

TEST(Umad, HandsBackWhatIsNotAnswered) {
  const Port port{"h1"};
  const int agent = umad_register(port.fd, UMAD_CLASS_PERF_MGMT, 1, 0, nullptr);
  Buffer ask = mad_of(UMAD_CLASS_PERF_MGMT, UMAD_METHOD_GET, 0x12);
  umad_set_addr(ask.umad(), 999, 1, 0, static_cast<int>(UMAD_QKEY));
  ASSERT_EQ(umad_send(port.fd, agent, ask.umad(), 256, 20, 1), 0);
  Buffer back;
  int length = 256;
  ASSERT_EQ(umad_recv(port.fd, back.umad(), &length, kWaitMs), agent);
  EXPECT_EQ(umad_status(back.umad()), ETIMEDOUT);
  EXPECT_EQ(length, 24);
  EXPECT_EQ(ntohs(back.umad()->addr.lid), 999);
  EXPECT_LT(umad_send(port.fd, 5, ask.umad(), 256, 20, 1), 0);  // no such agent
  EXPECT_EQ(errno, EINVAL);
}

TEST(Umad, CarriesMessagesOfManySegmentsBothWays) {  // RMPP version 1
  const Port server{"h2"};                           // at h1 the fabric's own SA answers
  const unsigned lid = server.lid();
  auto methods = only(UMAD_SA_METHOD_GET_TABLE);
  const int answers =
      umad_register(server.fd, UMAD_CLASS_SUBN_ADM, UMAD_SA_CLASS_VERSION, 1, methods.data());
  ASSERT_GE(answers, 0);
  const Port client{"h1"};
  const int asks = umad_register(client.fd, UMAD_CLASS_SUBN_ADM, UMAD_SA_CLASS_VERSION, 1, nullptr);
  Buffer ask = mad_of(UMAD_CLASS_SUBN_ADM, UMAD_SA_METHOD_GET_TABLE, UMAD_SA_ATTR_NODE_REC);
  umad_set_addr(ask.umad(), static_cast<int>(lid), 1, 0, static_cast<int>(UMAD_QKEY));
  ASSERT_EQ(umad_send(client.fd, asks, ask.umad(), 256, 2'000, 1), 0);
  Buffer request;
  int length = 256;
  ASSERT_EQ(umad_recv(server.fd, request.umad(), &length, kWaitMs), answers);
  constexpr std::size_t kTable = 60'000;  // longer than a message of the control protocol
  Buffer table = mad_of(UMAD_CLASS_SUBN_ADM, UMAD_SA_METHOD_GET_TABLE_RESP, UMAD_SA_ATTR_NODE_REC,
                        56 + kTable);
  table.header()->tid = request.header()->tid;
  table.mad()[26] = std::byte{UMAD_RMPP_FLAG_ACTIVE};
  for (std::size_t i = 0; i < kTable; ++i) {
    table.mad()[56 + i] = static_cast<std::byte>(i * 7 >> 3);
  }
  table.umad()->addr = request.umad()->addr;
  ASSERT_EQ(umad_send(server.fd, answers, table.umad(), 56 + kTable, 0, 0), 0);
  Buffer answer{56 + kTable};
  length = 256;
  EXPECT_EQ(umad_recv(client.fd, answer.umad(), &length, kWaitMs), -ENOSPC);
  EXPECT_EQ(length, static_cast<int>(56 + kTable));
  ASSERT_EQ(umad_recv(client.fd, answer.umad(), &length, kWaitMs), asks);
  EXPECT_EQ(std::memcmp(answer.mad() + 56, table.mad() + 56, kTable), 0);
}

TEST(Umad, ForgetsTheAgentsOfAProgramThatDies) {
  auto methods = only(UMAD_METHOD_TRAP);
  const auto register_trap = [&](int fd) {
    return umad_register(fd, UMAD_CLASS_SUBN_LID_ROUTED, 1, 0, methods.data());
  };
  const pid_t child = fork();
  if (child == 0) {
    setenv("WEFT_HOST", "h2", 1);
    const int fd = umad_open_port("weft0", 1);
    _exit(register_trap(fd) >= 0 && raise(SIGKILL) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Port port{"h2"};
  EXPECT_TRUE(comes_true([&] { return register_trap(port.fd) >= 0; }));
  const Port other{"h2"};
  EXPECT_EQ(register_trap(other.fd), -EPERM);  // and to one alone
}

TEST(Umad, SaysIsSmWhileTheFileIsOpen) {
  setenv("WEFT_HOST", "h2", 1);
  const bool before = is_sm("h2");
  ASSERT_FALSE(before);
  std::array<char, 256> path{};
  ASSERT_EQ(umad_get_issm_path("weft0", 1, path.data(), static_cast<int>(path.size())), 0);
  EXPECT_EQ(umad_get_issm_path("weft0", 1, path.data(), 3), -EINVAL);
  const int fd = open(path.data(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(comes_true([] { return is_sm("h2"); }));
  for (int tries = 0; tries < 2; ++tries) {  // as the kernel refuses a second one
    EXPECT_EQ(open(path.data(), O_RDONLY | O_NONBLOCK), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
  const int copy = dup(fd);
  close(fd);
  usleep(20'000);
  EXPECT_TRUE(is_sm("h2"));  // somebody has it open still
  close(copy);
  EXPECT_TRUE(comes_true([] { return !is_sm("h2"); }));
  const int next = open(path.data(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(next, 0);
  EXPECT_TRUE(comes_true([] { return is_sm("h2"); }));
  close(next);
  EXPECT_TRUE(comes_true([] { return !is_sm("h2"); }));
  EXPECT_TRUE(is_sm("h1"));  // the fabric's own
}

TEST(Umad, EndsTheOpenPortOfAProgramThatTalksNonsense) {
  const Port hostile{"h1"};
  const std::array<char, 40> inconsistent{};
  ASSERT_GT(send(hostile.fd, inconsistent.data(), inconsistent.size(), MSG_NOSIGNAL), 0);
  pollfd wait{.fd = hostile.fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wait, 1, kWaitMs), 1);
  Buffer buffer;
  int length = 256;
  EXPECT_EQ(umad_recv(hostile.fd, buffer.umad(), &length, 0), -EIO);
  const Port good{"h1"};  // nobody else minds
  EXPECT_GE(umad_register(good.fd, UMAD_CLASS_PERF_MGMT, 1, 0, nullptr), 0);
}

#ifndef __SANITIZE_ADDRESS__  // which takes a stack that was unwound by force for one still in use
/// pthread_cancel() unwinds the stack of whoever waits, with libgcc_s (osmtest's receivers end so).
TEST(Umad, AThreadThatWaitsForAMadCanBeCancelled) {
  for (const bool receives : {true, false}) {
    const int port = umad_open_port(nullptr, 0);
    ASSERT_GE(port, 0);
    struct Wait {
      int port;
      bool receives;
    } wait{port, receives};
    pthread_t thread{};
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void* pointer) -> void* {
                    const Wait& what = *static_cast<Wait*>(pointer);
                    std::array<std::byte, 512> umad{};
                    int length = 256;
                    static_cast<void>(what.receives ? umad_recv(what.port, umad.data(), &length, -1)
                                                    : umad_poll(what.port, -1));
                    return nullptr;
                  },
                  &wait),
              0);
    ASSERT_EQ(pthread_cancel(thread), 0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_EQ(umad_close_port(port), 0);
  }
}
#endif

}  // namespace
