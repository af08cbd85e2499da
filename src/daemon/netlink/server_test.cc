#include "daemon/netlink/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "base/random.h"
#include "daemon/testing/live_program.h"
#include "host_view/nldev_attributes.h"
#include "host_view/rdma_netlink.h"
#include "os/packet_socket.h"
#include "uabi/netlink_frames.h"
#include "wire/netlink/message.h"

namespace weft::daemon {
namespace {

using host_view::NldevAttribute;
using host_view::NldevCommand;
using testing::LiveFabric;
using testing::Program;
using uabi::NetlinkAnswer;
using uabi::NetlinkFrameHead;
using enum uabi::NetlinkFrameKind;
using wire::netlink::Message;

constexpr int kWaitLimit_ms = 20'000;

/// A program's end, frame by frame.
class Frames {
 public:
  explicit Frames(const host::ProcessOptions& options, bool opens = true) {
    auto socket =
        os::PacketSocket::connect(options.run + "/" + options.fabric + "/" + uabi::kNetlinkSocket);
    EXPECT_TRUE(socket) << socket.error().reason;
    socket_ = std::move(*socket);
    if (opens) {
      const auto opened = ask({.kind = Open, .value = uabi::kNetlinkVersion, .port = SOCK_RAW},
                              std::as_bytes(std::span{options.host}));
      EXPECT_TRUE(opened.has_value() && opened->error == 0);
    }
  }

  /// None: the daemon hung up.
  std::optional<NetlinkAnswer> ask(const NetlinkFrameHead& head, ByteSpan payload = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    const os::UniqueFd ours{ends[0]};
    os::UniqueFd theirs{ends[1]};
    const int descriptor = theirs.get();
    EXPECT_TRUE(socket_.send(frame(head, payload), {&descriptor, 1}));
    theirs.reset();
    pollfd ready{.fd = ours.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ready, 1, kWaitLimit_ms), 1);
    NetlinkAnswer answer{};
    return recv(ours.get(), &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer
               ? std::optional{answer}
               : std::nullopt;
  }
  /// As it is, without the descriptor that belongs to it.
  void send_raw(ByteSpan bytes) { EXPECT_TRUE(socket_.send(bytes, {})); }

  [[nodiscard]] bool is_hung_up() {
    pollfd ready{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ready, 1, kWaitLimit_ms), 1);
    return (ready.revents & POLLHUP) != 0;
  }

  /// What is there now: heads, and all datagrams one after the other.
  struct Taken {
    std::vector<NetlinkFrameHead> heads;
    std::vector<std::byte> bytes;
  };
  Taken take() {
    Taken taken;
    std::vector<std::byte> room(1 << 17);
    while (const auto received = socket_.receive(room)) {
      NetlinkFrameHead head;
      std::memcpy(&head, room.data(), sizeof head);
      taken.heads.push_back(head);
      taken.bytes.insert(taken.bytes.end(), room.begin() + sizeof head,
                         room.begin() + static_cast<std::ptrdiff_t>(received->bytes));
    }
    return taken;
  }

  static std::vector<std::byte> frame(const NetlinkFrameHead& head, ByteSpan payload) {
    std::vector<std::byte> bytes(sizeof head);
    std::memcpy(bytes.data(), &head, sizeof head);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
  }

 private:
  os::PacketSocket socket_;
};

std::vector<std::byte> request(NldevCommand command, std::uint16_t flags,
                               std::optional<std::uint32_t> device = {}) {
  std::vector<std::byte> datagram;
  wire::netlink::MessageWriter writer{datagram};
  writer.begin({.type = host_view::type_of(host_view::Client::Nldev, std::to_underlying(command)),
                .flags = static_cast<std::uint16_t>(wire::netlink::kFlagRequest | flags),
                .sequence = 5});
  if (device) {
    writer.put_number(std::to_underlying(NldevAttribute::DevIndex), *device);
  }
  writer.end();
  return datagram;
}

std::vector<Message> messages_of(ByteSpan bytes) {
  std::vector<Message> messages;
  while (const auto message = wire::netlink::take_message(bytes)) {
    messages.push_back(*message);
  }
  return messages;
}

[[nodiscard]] int error_of(const Message& message) {
  EXPECT_EQ(message.header.type, wire::netlink::kTypeError);
  int error{};
  std::memcpy(&error, message.payload.data(), sizeof error);
  return error;
}

/// Attributes with this number, at any depth.
std::vector<std::uint32_t> numbers(ByteSpan attributes, NldevAttribute table, NldevAttribute entry,
                                   NldevAttribute wanted) {
  std::vector<std::uint32_t> found;
  for (const auto& outer : wire::netlink::parse_attributes(attributes)) {
    if (outer.type != std::to_underlying(table)) {
      continue;
    }
    for (const auto& each : wire::netlink::parse_attributes(outer.value)) {
      EXPECT_EQ(each.type, std::to_underlying(entry));
      const auto inside = wire::netlink::parse_attributes(each.value);
      if (const auto* const at = wire::netlink::find(inside, std::to_underlying(wanted))) {
        found.push_back(at->number<std::uint32_t>().value_or(~0U));
      }
    }
  }
  return found;
}

TEST(LiveNetlink, AnswersAreThereWhenTheSendIsOver) {
  const LiveFabric fabric{"pair"};
  Frames socket{fabric.on("h1")};
  const auto sent = socket.ask({.kind = Send}, request(NldevCommand::Get, NLM_F_DUMP));
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->error, 0);
  EXPECT_EQ(sent->port, static_cast<std::uint32_t>(getpid())) << "bound by sending";
  const auto taken = socket.take();
  const auto messages = messages_of(taken.bytes);
  ASSERT_EQ(messages.size(), 2U);
  const auto attributes = wire::netlink::parse_attributes(messages[0].payload);
  EXPECT_EQ(wire::netlink::find(attributes, std::to_underlying(NldevAttribute::DevName))->text(),
            "weft0");
  EXPECT_EQ(messages[1].header.type, NLMSG_DONE);
}

TEST(LiveNetlink, RubbishGetsWhatLinuxGives) {
  const LiveFabric fabric{"pair"};
  Frames socket{fabric.on("h1")};
  const auto error_for = [&](ByteSpan datagram) {
    EXPECT_EQ(socket.ask({.kind = Send}, datagram)->error, 0);
    const auto taken = socket.take();
    const auto messages = messages_of(taken.bytes);
    return messages.size() == 1 ? error_of(messages[0]) : 1;
  };
  EXPECT_EQ(error_for(request(NldevCommand::Get, 0)), -EINVAL) << "no device";
  EXPECT_EQ(error_for(request(NldevCommand::Get, 0, 7)), -EINVAL) << "not this host's";
  EXPECT_EQ(error_for(request(NldevCommand::Set, 0, 0)), -EOPNOTSUPP);
  auto unknown = request(NldevCommand::Get, 0);
  unknown[4] = std::byte{0xFF};  // the operation
  EXPECT_EQ(error_for(unknown), -EINVAL);
  auto stranger = request(NldevCommand::Get, 0);
  stranger[5] = std::byte{63 << 2};  // the client
  EXPECT_EQ(error_for(stranger), -EINVAL);
  auto mapper = request(NldevCommand::Get, 0);
  mapper[5] = std::byte{2 << 2};
  EXPECT_EQ(error_for(mapper), -EINVAL) << "no service of the port mapper's is there";
  EXPECT_EQ(error_for(ByteSpan{unknown}.first(12)), 1) << "no message, no answer";
}

TEST(LiveNetlink, HangsUpOnWhoSpeaksAnotherProtocol) {
  const LiveFabric fabric{"pair"};
  const auto options = fabric.on("h1");
  {
    Frames socket{options};
    socket.send_raw(Frames::frame({.kind = Describe}, {}));
    EXPECT_TRUE(socket.is_hung_up()) << "nowhere to answer to";
  }
  {
    Frames socket{options, false};
    EXPECT_FALSE(socket.ask({.kind = Describe}).has_value()) << "it has not opened";
  }
  {
    Frames socket{options};
    const std::array<std::byte, 5> cut{std::byte{9}};
    EXPECT_FALSE(socket.ask({.kind = SendMany, .port = 77}, cut).has_value())
        << "a datagram that is not whole";
  }
  {
    Frames socket{options};
    EXPECT_FALSE(socket.ask({.kind = Datagram}).has_value()) << "the daemon's own";
  }
  {
    Frames socket{options, false};
    const auto refused =
        socket.ask({.kind = Open, .value = uabi::kNetlinkVersion, .port = SOCK_RAW},
                   std::as_bytes(std::span{std::string_view{"h9"}}));
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->error, EPROTONOSUPPORT);
    EXPECT_TRUE(socket.is_hung_up());
  }
  Random random{3};
  for (int i = 0; i < 50; ++i) {
    Frames socket{options};
    std::vector<std::byte> bytes(1 + random.below(64));
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random.below(256));
    }
    socket.send_raw(bytes);
    EXPECT_TRUE(socket.is_hung_up());
  }
  Frames still{options};
  EXPECT_EQ(still.ask({.kind = Describe})->error, 0) << "others are served";
}

TEST(LiveNetlink, SurvivesRandomDatagrams) {
  const LiveFabric fabric{"pair"};
  Frames socket{fabric.on("h1")};
  Random random{5};
  for (int i = 0; i < 500; ++i) {
    auto datagram = request(static_cast<NldevCommand>(random.below(26)),
                            static_cast<std::uint16_t>(random.below(0x400)), 0);
    datagram.resize(datagram.size() + random.below(40) * 4);
    for (std::uint64_t changed = random.below(4); changed > 0; --changed) {
      datagram[random.below(datagram.size())] = static_cast<std::byte>(random.below(256));
    }
    const auto sent = socket.ask({.kind = SendTo}, datagram);
    ASSERT_TRUE(sent.has_value()) << i;
    const auto taken = socket.take();
    ByteSpan rest = taken.bytes;
    while (!rest.empty()) {
      ASSERT_TRUE(wire::netlink::take_message(rest).has_value()) << i;
    }
  }
}

TEST(LiveNetlink, AReaderThatDoesNotReadLosesAndIsTold) {
  const LiveFabric fabric{"pair"};
  Frames slow{fabric.on("h1")};
  Frames sender{fabric.on("h1")};
  ASSERT_EQ(slow.ask({.kind = Bind, .port = 77})->error, 0);
  ASSERT_EQ(slow.ask({.kind = SetRoom, .value = 0})->error, 0);
  const std::vector<std::byte> datagram(4'000);
  int refused = 0;
  for (int i = 0; i < 1'000; ++i) {
    refused += sender.ask({.kind = SendTo, .port = 77}, datagram)->error == EAGAIN ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  bool is_told = false;
  std::size_t datagrams = 0;
  for (int i = 0; i < 1'000 && !is_told; ++i) {
    for (const NetlinkFrameHead& head : slow.take().heads) {
      is_told = is_told || head.kind == Overrun;
      datagrams += head.kind == Datagram ? 1 : 0;
    }
    usleep(1'000);
  }
  EXPECT_TRUE(is_told);
  EXPECT_EQ(datagrams + static_cast<std::size_t>(refused), 1'000U);
  EXPECT_EQ(sender.ask({.kind = SendTo, .port = 77}, datagram)->error, 0) << "it has read all";
}

/// The server alone, whose loop runs handler by handler.
TEST(NetlinkServer, SendsWhatAnswersADatagramBeforeItSaysThatItWasSent) {
  char pattern[] = "/tmp/weft-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  mkdir((folder + "/test").c_str(), 0700);
  const std::string path = folder + "/test/" + uabi::kNetlinkSocket;
  asio::io_context loop;
  {
    NetlinkServer* serving = nullptr;
    NetlinkServer server{
        loop,
        std::move(*os::listen_at(path)),
        {.requester_of =
             [](pid_t pid) {
               auto requester = std::make_shared<Requester>();
               requester->pid = pid;
               return requester;
             }, .find_host = [](std::string_view) { return std::optional{fabric::NodeIndex{0}}; },
                                      .on_request =
             [&](NetlinkServer::Id socket, std::vector<std::byte> datagram,
                                      const std::function<void()>& done) {
               EXPECT_TRUE(serving->sockets().answer(socket, {std::move(datagram)}));
               done();
             }, .on_offence = [](const Requester&, std::string_view what) { ADD_FAILURE() << what; }}
    };
    serving = &server;
    auto socket = *os::PacketSocket::connect(path);
    const auto is_readable = [](int fd) {
      pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
      return poll(&ready, 1, 0) == 1;
    };
    const auto ask = [&](const NetlinkFrameHead& head, ByteSpan payload) {
      std::array<int, 2> ends{};
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
      os::UniqueFd ours{ends[0]};
      const os::UniqueFd theirs{ends[1]};
      const int descriptor = theirs.get();
      EXPECT_TRUE(socket.send(Frames::frame(head, payload), {&descriptor, 1}));
      for (int turn = 0; turn < 100 && !is_readable(ours.get()); ++turn) {
        EXPECT_EQ(loop.run_one_for(std::chrono::seconds{20}), 1U);
      }
      EXPECT_TRUE(is_readable(ours.get()));
    };
    ask({.kind = Open, .value = uabi::kNetlinkVersion, .port = SOCK_RAW}, {});
    EXPECT_FALSE(is_readable(socket.fd()));
    ask({.kind = Send}, request(NldevCommand::Get, 0));
    EXPECT_TRUE(is_readable(socket.fd()));
  }
  std::filesystem::remove_all(folder);
}

/// A program that has its device open, as the verbs library tells the daemon.
class OpenProgram {
 public:
  explicit OpenProgram(const host::ProcessOptions& options) : program(options) {
    program.process->start_daemon_events();
    program.process->share_device(0, command_.get());
  }
  Program program;

 private:
  os::UniqueFd command_{memfd_create("weft-device", MFD_CLOEXEC)};
};

TEST(LiveNetlink, ShowsWhatProgramsHold) {
  const LiveFabric fabric{"pair"};
  Frames socket{fabric.on("h1")};
  const auto dump = [&](NldevCommand command, NldevAttribute table, NldevAttribute entry,
                        NldevAttribute wanted) {
    EXPECT_EQ(socket.ask({.kind = Send}, request(command, NLM_F_DUMP, 0))->error, 0);
    const auto taken = socket.take();
    std::vector<std::uint32_t> found;
    for (const Message& message : messages_of(taken.bytes)) {
      const auto of_message = numbers(message.payload, table, entry, wanted);
      found.insert(found.end(), of_message.begin(), of_message.end());
    }
    return found;
  };
  using A = NldevAttribute;
  EXPECT_TRUE(dump(NldevCommand::ResQpGet, A::ResQp, A::ResQpEntry, A::ResLqpn).empty());
  {
    OpenProgram open{fabric.on("h1")};
    const Program& program = open.program;
    // What it has told the daemon is heard in order, and this before the question.
    EXPECT_THAT(dump(NldevCommand::ResQpGet, A::ResQp, A::ResQpEntry, A::ResLqpn),
                ::testing::UnorderedElementsAre(program.qp->number().value(),
                                                program.bulk_qp->number().value()));
    EXPECT_THAT(dump(NldevCommand::ResMrGet, A::ResMr, A::ResMrEntry, A::ResLkey),
                ::testing::ElementsAre(program.region->lkey.value()));
    EXPECT_THAT(dump(NldevCommand::ResCqGet, A::ResCq, A::ResCqEntry, A::ResCqe),
                ::testing::ElementsAre(program.cq->capacity()));
    EXPECT_THAT(dump(NldevCommand::ResPdGet, A::ResPd, A::ResPdEntry, A::ResPid),
                ::testing::ElementsAre(static_cast<std::uint32_t>(getpid())));
    Frames elsewhere{fabric.on("h2")};
    EXPECT_EQ(elsewhere.ask({.kind = Send}, request(NldevCommand::ResQpGet, NLM_F_DUMP, 0))->error,
              0);
    const auto taken = elsewhere.take();
    EXPECT_EQ(messages_of(taken.bytes).size(), 1U) << "the other host has none: the end alone";
  }
}

}  // namespace
}  // namespace weft::daemon
