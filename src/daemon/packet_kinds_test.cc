// On a live fabric, data of a program, SMPs, other MADs and datagrams of the kernel side meet the
// same links: the same rules, the same counters at the same ports, and one clock for each link.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "daemon/testing/live_program.h"
#include "fabric/link_model.h"
#include "fabric/topology.h"
#include "host/control_socket.h"
#include "os/run_directory.h"
#include "uabi/messages.h"
#include "wire/mad/mad.h"
#include "wire/mad/smp.h"

namespace weft::daemon {
namespace {

using nlohmann::json;
using testing::LiveFabric;
using testing::Program;

constexpr Duration kWaitLimit = Duration::seconds(20);

enum class Kind : std::uint8_t { Data, Smp, Gmp, Datagram };

[[nodiscard]] host::ControlSocket connect(const LiveFabric& fabric) {
  const host::ProcessOptions options = fabric.on("h1");
  auto socket = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  EXPECT_TRUE(socket) << socket.error().reason;
  return std::move(*socket);
}

[[nodiscard]] host::Received ask(const host::ControlSocket& socket, const uabi::Message& question) {
  EXPECT_TRUE(socket.send(question));
  auto received = socket.receive(kWaitLimit);
  EXPECT_TRUE(received) << received.error().reason;
  return std::move(*received);
}

[[nodiscard]] std::string text_of(const LiveFabric& fabric, const uabi::Message& question) {
  const host::ControlSocket socket = connect(fabric);
  EXPECT_TRUE(socket.send(question));
  std::string whole;
  while (true) {
    const auto received = socket.receive(kWaitLimit);
    EXPECT_TRUE(received) << received.error().reason;
    const auto* const text = received ? received->message.get_if<uabi::Text>() : nullptr;
    if (text == nullptr) {
      ADD_FAILURE() << "no text";
      return whole;
    }
    whole += text->text;
    if (text->is_last) {
      return whole;
    }
  }
}

/// An open port of h1 that asks agents of other ports.
class UmadAsker {
 public:
  UmadAsker(const LiveFabric& fabric, Kind kind) : kind_(kind), control_(connect(fabric)) {
    auto opened =
        ask(control_,
            uabi::OpenUmad{.version = uabi::kVersion, .node = "h1", .device = "weft0", .port = 1});
    EXPECT_TRUE(opened.message.holds<uabi::UmadOpened>());
    mads_ = host::ControlSocket{std::move(opened.descriptors.front())};
    const auto answer =
        ask(control_, uabi::RegisterUmadAgent{.mgmt_class = class_number(), .class_version = 1});
    agent_ = answer.message.get<uabi::UmadAnswer>().agent;
  }

  /// For what the node is, or for the class's ClassPortInfo.
  void ask_of(Lid lid) const {
    constexpr std::uint16_t kClassPortInfo = 1;
    const wire::MadHeader header{
        .mgmt_class = static_cast<wire::ManagementClass>(class_number()),
        .method = wire::MadMethod::Get,
        .transaction_id = 7,
        .attribute_id = kind_ == Kind::Smp
                            ? static_cast<std::uint16_t>(wire::SmpAttribute::NodeInfo)
                            : kClassPortInfo};
    uabi::UmadMad message;
    message.header.agent = agent_;
    message.header.timeout_ms = 5'000;
    message.header.qpn = kind_ == Kind::Smp ? kQp0 : kQp1;
    message.header.lid = lid;
    message.mad.resize(wire::kMadBytes);
    wire::pack(header, std::span{message.mad}.first<wire::kSizeOf<wire::MadHeader>>());
    EXPECT_TRUE(mads_.send(message));
  }
  /// Whether an answer came, and not the request back.
  [[nodiscard]] bool is_answered() const {
    const auto received = mads_.receive(kWaitLimit);
    const auto* const mad = received ? received->message.get_if<uabi::UmadMad>() : nullptr;
    return mad != nullptr && mad->header.status == 0;
  }

 private:
  [[nodiscard]] std::uint8_t class_number() const {
    return static_cast<std::uint8_t>(kind_ == Kind::Smp ? wire::ManagementClass::SubnLidRouted
                                                        : wire::ManagementClass::Perf);
  }

  Kind kind_;
  host::ControlSocket control_;
  host::ControlSocket mads_;
  std::uint32_t agent_{};
};

/// h1 and h2 on s1, and a packet from h1 to h2.
class PacketsOnLinks : public ::testing::TestWithParam<Kind> {
 protected:
  /// What rules know the kind by; other packets of the kind may be about.
  [[nodiscard]] static std::string kind_in_rules() {
    switch (GetParam()) {
      case Kind::Data:
        return "opcode=rc-rdma-write-only";
      case Kind::Smp:
        return "qp=0";
      case Kind::Gmp:
        return "qp=1";
      case Kind::Datagram:
        return "dlid=0xc000";
    }
    return {};
  }
  void add_rule(const std::string& what) {
    EXPECT_EQ(text_of(fabric, uabi::AddFault{.rule = what + " count=1 " + kind_in_rules()})
                  .find("refused"),
              std::string::npos);
  }

  void send(std::optional<Lid> elsewhere = {}) {
    const Lid lid = elsewhere.value_or(b.lid());
    switch (GetParam()) {
      case Kind::Data:
        a.connect(lid, b.qp->number(), kShort, 7);
        b.connect(a.lid(), a.qp->number(), kShort, 7);
        a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
        break;
      case Kind::Smp:
      case Kind::Gmp:
        asker.emplace(fabric, GetParam());
        asker->ask_of(lid);
        break;
      case Kind::Datagram:  // who has h2's address is asked of the broadcast group
        resolver.emplace(connect(fabric));
        static_cast<void>(
            ask(*resolver, uabi::OpenRdmaCm{.version = uabi::kVersion, .host = "h1"}));
        {
          const auto made =
              ask(*resolver, uabi::CreateRdmaCmId{.port_space = 0x0106, .qp_type = 2});
          uabi::RdmaCmAddress h2{.family = uabi::RdmaCmFamily::Ip4, .port = 7};
          h2.octets = {std::byte{127}, std::byte{77}, std::byte{0}, std::byte{2}};
          static_cast<void>(ask(*resolver, uabi::ResolveRdmaCmAddress{
                                               .id = made.message.get<uabi::RdmaCmAnswer>().value,
                                               .destination = h2,
                                               .timeout_ms = 2'000}));
        }
        break;
    }
  }

  [[nodiscard]] std::uint64_t counter(const char* name, const char* port) {
    const json status =
        json::parse(text_of(fabric, uabi::Query{.kind = uabi::QueryKind::Counters}));
    for (const json& each : status["ports"]) {
      if (each["name"] == port) {
        return each["counters"][name];
      }
    }
    ADD_FAILURE() << "no port " << port;
    return 0;
  }
  /// Until the counter has grown by one; a program counts when it looks at its QPs.
  void expect_one(const char* name, const char* port, std::uint64_t before) {
    const Instant deadline = os::now() + kWaitLimit;
    while (counter(name, port) == before && os::now() < deadline) {
      a.process->make_progress(*a.cq);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(counter(name, port), before + 1);
  }

  static constexpr std::uint8_t kShort = 10;  // 4 ms

  LiveFabric fabric{"star:2"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  std::optional<UmadAsker> asker;
  std::optional<host::ControlSocket> resolver;
};

TEST_P(PacketsOnLinks, ThatARuleLosesAreDiscardsOfTheirLink) {
  const std::uint64_t before = counter("xmit_discards", "s1:2");
  add_rule("drop out=s1:2");
  send();
  expect_one("xmit_discards", "s1:2", before);
}

TEST_P(PacketsOnLinks, ThatARuleDamagesAreErrorsWhereTheyArrive) {
  const std::uint64_t before = counter("rcv_errors", "h2:1");
  add_rule("corrupt in=h2:1");
  send();
  expect_one("rcv_errors", "h2:1", before);
}

INSTANTIATE_TEST_SUITE_P(LiveKinds, PacketsOnLinks,
                         ::testing::Values(Kind::Data, Kind::Smp, Kind::Gmp, Kind::Datagram));

class PacketsByLid : public PacketsOnLinks {};

TEST_P(PacketsByLid, ThatNoTableRoutesAreRelayErrorsOfTheSwitch) {
  const std::uint64_t before = counter("rcv_switch_relay_errors", "s1:1");
  send(Lid{0x500});
  if (GetParam() == Kind::Data) {  // and is sent again
    const Instant deadline = os::now() + kWaitLimit;
    while (counter("rcv_switch_relay_errors", "s1:1") == before && os::now() < deadline) {
      a.process->make_progress(*a.cq);
    }
    EXPECT_GT(counter("rcv_switch_relay_errors", "s1:1"), before);
  } else {
    expect_one("rcv_switch_relay_errors", "s1:1", before);
  }
}

INSTANTIATE_TEST_SUITE_P(LiveKinds, PacketsByLid,
                         ::testing::Values(Kind::Data, Kind::Smp, Kind::Gmp));

/// A packet of 4 KiB takes 33 ms at 1 Mb/s; a MAD and its answer take 5.
TEST(LiveClocks, MakeAMadWaitForDataOnASlowLink) {
  fabric::Topology topology = *fabric::generate("star:2");
  topology.links[1].rate_gbps = 0.001;
  LiveFabric fabric{topology};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number(), 18, 7);
  b.connect(a.lid(), a.qp->number(), 18, 7);
  const UmadAsker asker{fabric, Kind::Gmp};
  // The first packet waits until the daemon has joined the two programs; a MAD would pass it.
  a.post(hca::WrOpcode::RdmaWrite, 0, 8, b.address(), b.region->rkey);
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
  constexpr std::uint32_t kBytes = 4'096;
  const Instant start = os::now();
  a.post(hca::WrOpcode::RdmaWrite, 0, kBytes, b.address(), b.region->rkey);
  asker.ask_of(b.lid());
  EXPECT_TRUE(asker.is_answered());
  EXPECT_GE(os::now() - start, fabric::LinkRate{1}.duration(kBytes));
  EXPECT_EQ(a.wait().status, hca::WcStatus::Success);
}

}  // namespace
}  // namespace weft::daemon
