// Programs that speak ibsim's protocol to a live fabric, honest ones and others.

#include "daemon/ibsim/server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "wire/mad/node_info.h"
#include "wire/mad/port_info.h"

namespace weft::daemon {
namespace {

using testing::LiveFabric;

/// Of this test's process, also in its children.
const std::string& socket_name() {
  static const std::string name = fmt::format("weft-test-{}", getpid());
  return name;
}

bool waits_for(const os::UniqueFd& socket, short events = POLLIN) {
  constexpr int kWaitLimitMs = 5'000;
  pollfd ready{.fd = socket.get(), .events = events, .revents = 0};
  return poll(&ready, 1, kWaitLimitMs) == 1;
}

/// Behaves like libumad2sim: two sockets named after the process ID.
class Sim {
 public:
  explicit Sim(std::uint32_t id, const std::string& name = socket_name())
      : id_(id),
        name_(name),
        control_(*bind_ibsim(ibsim_name(name, "ctl", id))),
        data_(*bind_ibsim(ibsim_name(name, "in", id))) {
    EXPECT_TRUE(connect_ibsim(control_, ibsim_name(name, "ctl")));
  }

  void say(ByteSpan bytes) const {
    EXPECT_EQ(send(control_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  IbsimControl ask(IbsimControl question) const {
    say(write_ibsim(question));
    IbsimDatagram answer;
    EXPECT_TRUE(waits_for(control_) && receive_ibsim(control_.get(), answer));
    return read_ibsim<IbsimControl>(answer.bytes()).value_or(IbsimControl{});
  }
  IbsimControl ask(IbsimRequest question) const {
    return ask({.client = client, .question = question});
  }
  /// The name that the fabric gave; none if it refused.
  std::optional<std::string> attach(std::string_view node, bool is_sm = false) {
    IbsimControl question{.question = IbsimRequest::Connect};
    IbsimConnect connect{.id = id_, .is_sm = is_sm ? 1U : 0U};
    set_name(connect, node);
    set_data(question, connect);
    const IbsimControl answer = ask(question);
    if (answer.question == IbsimRequest::Error) {
      return std::nullopt;
    }
    client = data_of<IbsimConnect>(answer).id;
    EXPECT_TRUE(connect_ibsim(data_, ibsim_name(name_, "out", client)));
    return name_in(data_of<IbsimConnect>(answer));
  }
  bool set_sm(bool is_sm) const {
    IbsimControl question{.client = client, .question = IbsimRequest::IsSm};
    set_data(question, is_sm ? 1U : 0U);
    return ask(question).question != IbsimRequest::Error;
  }
  wire::PortInfo port_info() const {
    const auto answer = ask(IbsimRequest::PortInfo);
    return wire::unpack<wire::PortInfo>(
        std::span{answer.data}.first<wire::kSizeOf<wire::PortInfo>>());
  }
  /// Sends a MAD datagram, waiting for room.
  void say_data(ByteSpan bytes) const {
    while (send(data_.get(), bytes.data(), bytes.size(), 0) < 0) {
      ASSERT_EQ(errno, EAGAIN);
      ASSERT_TRUE(waits_for(data_, POLLOUT));
    }
  }
  std::optional<IbsimPacket> add_reported() const {
    IbsimDatagram datagram;
    if (!waits_for(data_) || !receive_ibsim(data_.get(), datagram)) {
      return std::nullopt;
    }
    return read_ibsim<IbsimPacket>(datagram.bytes());
  }

  std::uint32_t client{};

 private:
  std::uint32_t id_;
  std::string name_;
  os::UniqueFd control_;
  os::UniqueFd data_;
};

IbsimPacket get_node_info() {
  IbsimPacket packet{.dlid_be = lid_to_ibsim(Lid{0xFFFF})};
  packet.length_be = swapped(std::uint64_t{packet.mad.size()});
  copy_bytes(packet.mad,
             wire::pack(wire::MadHeader{.mgmt_class = wire::ManagementClass::SubnDirectedRoute,
                                        .class_version = 1,
                                        .method = wire::MadMethod::Get,
                                        .transaction_id = 7,
                                        .attribute_id = 0x11}));
  std::fill_n(packet.mad.begin() + 32, 4, std::byte{0xFF});
  return packet;
}

bool comes_true(const std::function<bool()>& condition) {
  constexpr int kTries = 500;
  for (int i = 0; i < kTries; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

class IbsimServerTest : public ::testing::Test {
 protected:
  LiveFabric fabric{*fabric::generate("star:3"), true, socket_name()};
};

TEST_F(IbsimServerTest, ProgramsChooseTheirNode) {
  Sim by_name{1};
  EXPECT_EQ(by_name.attach("h2"), "h2");
  Sim anywhere{2};
  EXPECT_EQ(anywhere.attach(""), "h1");
  Sim by_description{3};
  EXPECT_EQ(by_description.attach("h3 weft0"), "h3 weft0");
  Sim on_switch{4};
  EXPECT_EQ(on_switch.attach("s1"), "s1");
  const auto node = on_switch.ask(IbsimRequest::NodeInfo);
  const auto info =
      wire::unpack<wire::NodeInfo>(std::span{node.data}.first<wire::kSizeOf<wire::NodeInfo>>());
  EXPECT_EQ(info.node_type, wire::NodeType::Switch);
  Sim by_guid{5};
  EXPECT_TRUE(by_guid.attach(fmt::format("S-{:016x}", info.node_guid.value())));
  EXPECT_EQ(data_of<std::uint64_t>(by_guid.ask(IbsimRequest::Guid)),
            swapped(info.node_guid.value()));
  Sim null_lane{6};
  EXPECT_FALSE(null_lane.attach("h9"));
}

TEST_F(IbsimServerTest, AnswersEachQuestion) {
  Sim sim{1};
  ASSERT_TRUE(sim.attach("h2"));
  const auto port = data_of<IbsimPort>(sim.ask(IbsimRequest::Port));
  EXPECT_EQ(port.state, 4);
  EXPECT_EQ(Lid{port.lid}, sim.port_info().lid);
  EXPECT_EQ(data_of<IbsimVendor>(sim.ask(IbsimRequest::Vendor)).firmware, 1U);
  EXPECT_EQ(data_of<std::uint16_t>(sim.ask(IbsimRequest::PKeys)), 0xFFFF);
  EXPECT_EQ(sim.ask(IbsimRequest::Gid).data.front(), std::byte{0xFE});
  sim.say_data(write_ibsim(get_node_info()));
  const auto answer = sim.add_reported();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status_be, 0U);
}

TEST_F(IbsimServerTest, AnswersOnlyConnectedPrograms) {
  Sim sim{1};
  EXPECT_EQ(sim.ask(IbsimRequest::NodeInfo).question, IbsimRequest::Error);
  ASSERT_TRUE(sim.attach("h1"));
  EXPECT_EQ(sim.ask({.client = 200, .question = IbsimRequest::NodeInfo}).question,
            IbsimRequest::Error);
  EXPECT_EQ(sim.ask(static_cast<IbsimRequest>(77)).question, IbsimRequest::Error);
  EXPECT_EQ(sim.ask(IbsimRequest::Error).question, IbsimRequest::Error);
  EXPECT_EQ(sim.ask(IbsimRequest::Disconnect).question, IbsimRequest::Disconnect);
  EXPECT_EQ(sim.ask(IbsimRequest::NodeInfo).question, IbsimRequest::Error);
}

TEST_F(IbsimServerTest, GarbageIsPassedOver) {
  Sim sim{1};
  const std::vector<std::byte> garbage(500, std::byte{0xA5});
  for (const std::size_t size : {0U, 1U, 79U, 80U, 81U, 500U}) {
    sim.say(ByteSpan{garbage}.first(size));
  }
  ASSERT_TRUE(sim.attach("h1"));
  for (const std::size_t size : {0U, 1U, 287U, 288U, 289U, 500U}) {
    sim.say_data(ByteSpan{garbage}.first(size));
  }
  sim.say_data(write_ibsim(get_node_info()));
  const auto answer = sim.add_reported();
  ASSERT_TRUE(answer);
  EXPECT_EQ(
      wire::unpack<wire::MadHeader>(std::span{answer->mad}.first<wire::kSizeOf<wire::MadHeader>>())
          .transaction_id,
      7U);
}

TEST_F(IbsimServerTest, AProgramThatDoesNotReadStopsNobody) {
  Sim stuck{1};
  Sim other{2};
  ASSERT_TRUE(stuck.attach("h1"));
  ASSERT_TRUE(other.attach("h2"));
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    auto packet = get_node_info();
    packet.mad.at(15) = static_cast<std::byte>(i);  // of the TID
    packet.mad.at(14) = static_cast<std::byte>(i >> 8);
    stuck.say_data(write_ibsim(packet));
  }
  other.say_data(write_ibsim(get_node_info()));
  EXPECT_TRUE(other.add_reported());
  for (int i = 0; i < 2'000; ++i) {  // nothing is lost
    ASSERT_TRUE(stuck.add_reported()) << i;
  }
}

TEST_F(IbsimServerTest, IsSmGoesWithADeadProgram) {
  Sim watcher{1};
  ASSERT_TRUE(watcher.attach("h2"));
  const auto is_sm = [&] {
    return watcher.port_info().capability_mask.has(wire::PortCapability::IsSm);
  };
  EXPECT_FALSE(is_sm());
  const pid_t child = fork();
  if (child == 0) {
    Sim manager{2};
    const bool is_manager = manager.attach("h2", true).has_value();
    _exit(is_manager && pause() == 0 ? 0 : 1);
  }
  EXPECT_TRUE(comes_true(is_sm));
  EXPECT_FALSE(watcher.set_sm(true));  // another has it
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return !is_sm(); }));
  EXPECT_TRUE(watcher.set_sm(true));
  EXPECT_TRUE(is_sm());
  EXPECT_TRUE(watcher.set_sm(false));
  EXPECT_FALSE(is_sm());
}

TEST_F(IbsimServerTest, TheNameIsTakenOnce) {
  const auto again = IbsimServer::take(*IbsimLocation::read(socket_name()));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::Exists);
}

/// Behaves like libumad2sim with IBSIM_SERVER_NAME: identifies itself by its UDP port.
class UdpSim {
 public:
  explicit UdpSim(std::uint16_t server) : server_(server) {
    for (os::UniqueFd* each : {&control_, &data_}) {
      sockaddr_in any{};
      any.sin_family = AF_INET;
      *each = os::UniqueFd{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
      EXPECT_EQ(bind(each->get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    }
    EXPECT_TRUE(connect_ibsim_port(control_, server));
  }
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    EXPECT_EQ(getsockname(data_.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    return ntohs(own.sin_port);
  }
  /// Refused: none.
  std::optional<std::uint32_t> attach(std::uint32_t id) {
    IbsimControl question{.question = IbsimRequest::Connect};
    set_data(question, IbsimConnect{.id = id});
    const auto bytes = write_ibsim(question);
    EXPECT_EQ(send(control_.get(), bytes.data(), bytes.size(), 0), 80);
    IbsimDatagram datagram;
    EXPECT_TRUE(waits_for(control_) && receive_ibsim(control_.get(), datagram));
    const auto answer = read_ibsim<IbsimControl>(datagram.bytes());
    if (!answer || answer->question == IbsimRequest::Error) {
      return std::nullopt;
    }
    EXPECT_TRUE(connect_ibsim_port(
        data_, static_cast<std::uint16_t>(server_ + data_of<IbsimConnect>(*answer).id + 1)));
    return answer->client;
  }
  [[nodiscard]] std::optional<IbsimPacket> get(const IbsimPacket& packet) const {
    const auto bytes = write_ibsim(packet);
    EXPECT_EQ(send(data_.get(), bytes.data(), bytes.size(), 0), 288);
    IbsimDatagram datagram;
    if (!waits_for(data_) || !receive_ibsim(data_.get(), datagram)) {
      return std::nullopt;
    }
    return read_ibsim<IbsimPacket>(datagram.bytes());
  }

 private:
  std::uint16_t server_;
  os::UniqueFd control_;
  os::UniqueFd data_;
};

/// A port that is probably followed by free ones.
std::uint16_t free_port() { return static_cast<std::uint16_t>(20'000 + getpid() % 300 * 30); }

TEST(IbsimByUdp, ProgramsConnectAskAndSendMads) {  // ibsim -r
  const std::uint16_t server = free_port();
  const LiveFabric fabric{*fabric::generate("star:3"), true, fmt::format("127.0.0.1:{}", server)};
  UdpSim first{server};
  UdpSim second{server};
  EXPECT_EQ(first.attach(first.port()), 0U);
  EXPECT_EQ(second.attach(second.port()), 1U);
  for (const UdpSim* each : {&first, &second}) {
    const auto answer = each->get(get_node_info());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status_be, 0U);
  }
}

TEST(IbsimByUdp, MadsGoToNoPortOfAnothersProgram) {
  const std::uint16_t server = free_port();
  const LiveFabric fabric{*fabric::generate("star:3"), true, fmt::format("127.0.0.1:{}", server)};
  UdpSim sim{server};
  EXPECT_FALSE(sim.attach(server + 20)) << "nobody's";
  EXPECT_FALSE(sim.attach(70'000)) << "no port";
  EXPECT_TRUE(sim.attach(sim.port()));
}

}  // namespace
}  // namespace weft::daemon
