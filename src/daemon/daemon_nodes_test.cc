// Nodes that come and go while programs run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "daemon/rdma_cm/translate.h"
#include "daemon/testing/live_program.h"
#include "host/control_socket.h"
#include "os/run_directory.h"
#include "verbs/rdma_cm.h"

namespace weft::daemon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LiveFabric;
using testing::Program;

constexpr Duration kWaitLimit = Duration::seconds(20);

/// Sends a request of `weft node`; returns the daemon's answer.
std::string change(const LiveFabric& fabric, std::string text) {
  const host::ProcessOptions options = fabric.on("h1");
  auto socket = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  EXPECT_TRUE(socket && socket->send(uabi::ChangeNode{.change = std::move(text)}));
  const auto received = socket->receive(kWaitLimit);
  if (!received) {
    return received.error().reason;
  }
  const auto* const refused = received->message.get_if<uabi::Refused>();
  return refused == nullptr ? "" : refused->reason;
}

bool comes_true(const std::function<bool()>& condition) {
  const Instant end = os::now() + kWaitLimit;
  while (!condition() && os::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

hca::WcStatus write(Program& a, hca::Qp& qp, const Program& b) {
  a.post(qp, hca::WrOpcode::RdmaWrite, 0, 64, b.address(), b.region->rkey);
  return a.wait().status;
}

/// h1, h2 and h3 on a switch with room.
[[nodiscard]] fabric::Topology roomy_star() {
  fabric::Topology topology = *fabric::generate_star(3);
  topology.switches.front().port_count = 8;
  return topology;
}

TEST(LiveNodes, ComeAndGoWhileOthersGoOn) {
  LiveFabric fabric{roomy_star(), true};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  EXPECT_EQ(write(a, *a.qp, b), hca::WcStatus::Success);

  EXPECT_EQ(change(fabric, "add host h9 link=s1:7"), "");
  EXPECT_EQ(write(a, *a.qp, b), hca::WcStatus::Success);
  Program c{fabric.on("h9")};
  EXPECT_TRUE(
      comes_true([&] { return c.engine.port(PortNumber{1}).state == hca::PortState::Active; }));
  a.connect(*a.bulk_qp, c.lid(), c.qp->number(), 14, 3);  // h1 may learn of h9's LID a bit later
  c.connect(a.lid(), a.bulk_qp->number());
  EXPECT_EQ(write(a, *a.bulk_qp, c), hca::WcStatus::Success);
  EXPECT_EQ(write(c, *c.qp, a), hca::WcStatus::Success);

  EXPECT_THAT(change(fabric, "remove h9"), HasSubstr("1 programs run on h9"));
  EXPECT_EQ(change(fabric, "remove h9 force"), "");
  EXPECT_TRUE(comes_true([&] { return c.events.device_fatal != 0; }));
  EXPECT_TRUE(comes_true([&] { return !c.events.reported_gone().empty(); }));
  EXPECT_THAT(c.events.reported_gone(),
              Contains(HasSubstr("the node was removed from the fabric")));
  EXPECT_EQ(write(a, *a.bulk_qp, c), hca::WcStatus::RetryExceeded);
  EXPECT_EQ(write(a, *a.qp, b), hca::WcStatus::Success);
  EXPECT_EQ(b.events.device_fatal, 0);

  EXPECT_EQ(change(fabric, "add host h9 link=s1:7"), "");
  Program again{fabric.on("h9")};
  EXPECT_TRUE(
      comes_true([&] { return again.engine.port(PortNumber{1}).state == hca::PortState::Active; }));
}

/// A program's event channel of RDMA-CM, by the messages of librdmacm.
class RdmaCmProgram {
 public:
  RdmaCmProgram(const LiveFabric& fabric, const std::string& name)
      : socket_(*host::ControlSocket::connect(
            os::control_path(fabric.on(name).run, fabric.on(name).fabric))) {
    EXPECT_TRUE(socket_.send(uabi::OpenRdmaCm{.version = uabi::kVersion, .host = name}));
    auto opened = socket_.receive(kWaitLimit);
    EXPECT_TRUE(opened && opened->message.holds<uabi::RdmaCmOpened>());
    events_ = std::move(opened->descriptors.front());
  }

  [[nodiscard]] uabi::RdmaCmAnswer ask(const uabi::Message& question) {
    EXPECT_TRUE(socket_.send(question));
    auto answer = socket_.receive(kWaitLimit);
    EXPECT_TRUE(answer && answer->message.holds<uabi::RdmaCmAnswer>());
    return std::move(*answer->message.get_if<uabi::RdmaCmAnswer>());
  }
  /// The next event, or none if no event comes within `longest`.
  [[nodiscard]] std::optional<uabi::RdmaCmEvent> next(Duration longest = kWaitLimit) {
    pollfd readable{.fd = events_.get(), .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, static_cast<int>(longest.milliseconds())) != 1) {
      return std::nullopt;
    }
    EXPECT_TRUE(socket_.send(uabi::GetRdmaCmEvent{}));
    auto answer = socket_.receive(kWaitLimit);
    EXPECT_TRUE(answer && answer->message.holds<uabi::RdmaCmEvent>());
    return std::move(*answer->message.get_if<uabi::RdmaCmEvent>());
  }
  [[nodiscard]] std::uint32_t create(std::uint64_t uid) {
    return ask(uabi::CreateRdmaCmId{.port_space = 0x106, .qp_type = 2, .uid = uid}).value;
  }

 private:
  host::ControlSocket socket_;
  os::UniqueFd events_;
};

TEST(LiveNodes, TellTheProgramsOfAHostThatGoesByRdmaCmAndLetThemEnd) {
  LiveFabric fabric{roomy_star(), true};
  const auto any = address_of(cm::SocketAddress{cm::IpEndpoint{.port = 7471}});
  const auto h1 = address_of(cm::SocketAddress{
      cm::IpEndpoint{.address = IpAddress::v4(0x7F4D'0001), .port = 7471}
  });
  RdmaCmProgram program{fabric, "h3"};
  RdmaCmProgram other{fabric, "h2"};
  const std::uint32_t listener = program.create(11);
  ASSERT_EQ(program.ask(uabi::BindRdmaCmId{.id = listener, .address = any}).error, 0U);
  ASSERT_EQ(program.ask(uabi::ListenRdmaCm{.id = listener}).error, 0U);
  const std::uint32_t resolved = program.create(12);
  ASSERT_EQ(
      program
          .ask(uabi::ResolveRdmaCmAddress{.id = resolved, .destination = h1, .timeout_ms = 10'000})
          .error,
      0U);
  const auto found = program.next();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->type, verbs::RdmaCmEventType::AddressResolved);
  const std::uint32_t idle = program.create(13);
  const std::uint32_t elsewhere = other.create(14);
  ASSERT_EQ(other.ask(uabi::BindRdmaCmId{.id = elsewhere, .address = any}).error, 0U);

  EXPECT_EQ(change(fabric, "remove h3 force"), "");
  for (const std::uint64_t uid : {11U, 12U}) {
    const auto event = program.next();
    ASSERT_TRUE(event) << "id " << uid << " is not told";
    EXPECT_EQ(event->type, verbs::RdmaCmEventType::DeviceRemoval);
    EXPECT_EQ(event->uid, uid);
  }
  EXPECT_FALSE(program.next(Duration::milliseconds(100))) << "an id without a device is told";
  constexpr std::uint32_t kNoDevice = ENODEV;
  constexpr std::uint32_t kNoEntry = ENOENT;
  EXPECT_EQ(program.ask(uabi::ListenRdmaCm{.id = listener}).error, kNoDevice);
  EXPECT_EQ(program.ask(uabi::CreateRdmaCmId{.port_space = 0x106, .qp_type = 2}).error, kNoDevice);
  // As many events as were told of each, which rdma_destroy_id() waits for.
  for (const auto& [id, told] : std::map<std::uint32_t, std::uint32_t>{
           {listener, 1},
           {resolved, 2},
           {idle,     0}
  }) {
    const auto destroyed = program.ask(uabi::DestroyRdmaCmId{.id = id});
    EXPECT_EQ(destroyed.error, 0U);
    EXPECT_EQ(destroyed.value, told);
    EXPECT_EQ(program.ask(uabi::DestroyRdmaCmId{.id = id}).error, kNoEntry);
  }
  EXPECT_FALSE(other.next(Duration::milliseconds(100))) << "a host that stays is told";
  EXPECT_EQ(other.ask(uabi::ListenRdmaCm{.id = elsewhere}).error, 0U);
}

}  // namespace
}  // namespace weft::daemon
