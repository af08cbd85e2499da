#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "base/process_slot.h"
#include "fabric/counters.h"
#include "fabric/departure_clocks.h"
#include "fabric/standin_subnet_manager.h"
#include "hca/packet_record.h"
#include "host/clock.h"
#include "host/control_socket.h"
#include "host/lane.h"
#include "host/lane_memory.h"
#include "host/process.h"
#include "host/run_directory.h"
#include "host/shared_memory.h"

/// What a program makes of new tables from its daemon, which here is the test: the fabric is a pair
/// whose LIDs and P_Keys change as no daemon changes them yet.
namespace weft::host {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;

constexpr Duration kPatience = Duration::seconds(10);
constexpr fabric::NodeIndex kPeerNode{1};
constexpr std::uint32_t kPeerSlot = 1;
constexpr Lid kPeerLid{0x77};

class RecordedEvents final : public ProcessEvents {
 public:
  void completion_event(std::uint32_t, hca::CompletionQueue&) override {}
  void async_event(std::uint32_t, const hca::AsyncEvent& event) override {
    const std::lock_guard guard{lock_};
    types_.push_back(event.type);
  }
  void fabric_gone(std::string_view) override {}
  [[nodiscard]] bool wants_explanations() const override { return false; }
  void explain(std::string_view) override {}
  [[nodiscard]] bool has(hca::AsyncEventType type) {
    const std::lock_guard guard{lock_};
    return std::ranges::find(types_, type) != types_.end();
  }

 private:
  std::mutex lock_;
  std::vector<hca::AsyncEventType> types_;
};

/// A pair with one program, on h1, and a daemon that says what the test wants.
class TablesOfAProcess : public ::testing::Test {
 protected:
  TablesOfAProcess() : builder_(fabric::generate_pair()) {
    char pattern[] = "/tmp/weft-test-XXXXXX";
    run_ = mkdtemp(pattern);
    std::filesystem::create_directories(fabric_directory(run_, "test"));
    listener_ = std::move(*listen_at(control_path(run_, "test")));
    EXPECT_TRUE(fabric::StandInSubnetManager{builder_}.bring_up());
    own_port_ = builder_.node(fabric::NodeIndex{0}).first_port;
    peer_port_ = builder_.node(kPeerNode).first_port;
    page_ = std::move(*create_shared_memory("counters", fabric::CounterPage::bytes_needed()));
    attention_ = std::move(*create_shared_memory("attention", kAttentionPageBytes));
  }
  ~TablesOfAProcess() override {
    if (qp_ != nullptr) {
      EXPECT_TRUE(process_->destroy_qp(0, *qp_));
    }
    process_.reset();
    std::filesystem::remove_all(run_);
  }

  UniqueFd next_tables() {
    return std::move(*publish_memory("tables", builder_.build(++generation_)));
  }

  void start() {
    std::thread daemon{[this] {
      pollfd called{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      EXPECT_EQ(poll(&called, 1, static_cast<int>(kPatience.milliseconds())), 1);
      control_ = ControlSocket{UniqueFd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}};
      EXPECT_TRUE(control_.receive(kPatience));
      const UniqueFd tables = next_tables();
      const std::array descriptors{tables.get(), page_.get(), attention_.get(), clocks_.get()};
      uabi::Welcome welcome;
      welcome.self = {.node = 0, .slot = 1};
      EXPECT_TRUE(control_.send(welcome, descriptors));
    }};
    auto process =
        Process::open({.run = run_, .fabric = "test", .host = "h1", .limits = {}}, events_);
    daemon.join();
    ASSERT_TRUE(process) << process.error().reason;
    process_ = std::move(*process);
    hca::Hca& engine = *process_->hcas().front().engine;
    hca::QpInit init;
    init.pd = *engine.allocate_pd();
    init.send_cq = init.recv_cq = *process_->create_cq(0, 16);
    init.capabilities.max_inline_data = 8;
    qp_ = *process_->create_qp(0, init);
    connect();
  }

  /// To the first QP of the process in slot 1 of h2.
  void connect() {
    hca::QpAttributes to;
    to.port = PortNumber{1};
    to.path_mtu = wire::Mtu::Mtu256;
    to.dest_qpn = first_qpn_of(kPeerSlot);
    to.address.dlid = kPeerLid;
    const auto modify = [&](hca::QpState state, QpAttributeMask mask) {
      to.state = state;
      const auto modified = process_->modify_qp(*qp_, to, mask | QpAttribute::State);
      ASSERT_TRUE(modified) << modified.error().reason;
    };
    modify(hca::QpState::Init,
           QpAttributeMask{QpAttribute::PKeyIndex} | QpAttribute::Port | QpAttribute::RemoteAccess);
    modify(hca::QpState::Rtr, QpAttributeMask{QpAttribute::AddressVector} | QpAttribute::PathMtu |
                                  QpAttribute::DestQpn | QpAttribute::RqPsn |
                                  QpAttribute::MaxDestRdAtomic | QpAttribute::MinRnrTimer);
    modify(hca::QpState::Rts, QpAttributeMask{QpAttribute::Timeout} | QpAttribute::RetryCount |
                                  QpAttribute::RnrRetry | QpAttribute::SqPsn |
                                  QpAttribute::MaxQpRdAtomic);
  }

  void send_tables() {
    const UniqueFd tables = next_tables();
    const std::array descriptors{tables.get()};
    EXPECT_TRUE(control_.send(uabi::TablesChanged{}, descriptors));
  }

  void post() {
    hca::SendWr wr;
    wr.flags = hca::Send::Inline;
    ASSERT_TRUE(process_->post_send(*qp_, wr));
  }

  /// Whether the program asks for the lane to its peer.
  bool asks_for_lane(Duration patience) {
    auto received = control_.receive(patience);
    const auto* const asked = received ? std::get_if<uabi::OpenLane>(&received->message) : nullptr;
    return asked != nullptr &&
           asked->peer == uabi::ProcessAddress{.node = kPeerNode.value(), .slot = kPeerSlot};
  }

  /// Gives the lane, and returns the first packet of it.
  hca::PacketHeader first_packet() {
    const UniqueFd lane = std::move(*create_shared_memory("lane", kPairMemoryBytes));
    lane_ = std::move(*map_shared(lane, Protection::ReadWrite, kPairMemoryBytes, kPairMemoryBytes));
    const uabi::ProcessAddress peer{.node = kPeerNode.value(), .slot = kPeerSlot};
    const std::uint32_t index =
        Lane::index_for(process_->address(), qp_->number(), peer, first_qpn_of(kPeerSlot));
    auto ends = ring::lane_ends(lane_rings(lane_.bytes(), index), kLaneShape, ring::LaneSide::B);
    const std::array descriptors{lane.get(), attention_.get()};
    uabi::Lane message;
    message.peer = peer;
    EXPECT_TRUE(control_.send(message, descriptors));
    hca::Packet packet;
    const Instant deadline = now() + kPatience;
    while (ends.request_in.front().state != ring::Consumer<>::State::Record) {
      if (now() > deadline) {
        ADD_FAILURE() << "no packet";
        return packet.header;
      }
      std::this_thread::yield();
    }
    EXPECT_EQ(hca::read_record(ends.request_in.front().body, packet), "");
    return packet.header;
  }

  bool comes(hca::AsyncEventType type) {
    const Instant deadline = now() + kPatience;
    while (!events_.has(type) && now() < deadline) {
      std::this_thread::yield();
    }
    return events_.has(type);
  }

  std::string run_;
  UniqueFd listener_;
  fabric::TablesBuilder builder_;
  std::uint64_t generation_{};
  fabric::PortIndex own_port_;
  fabric::PortIndex peer_port_;
  UniqueFd page_;
  UniqueFd attention_;
  UniqueFd clocks_ =
      std::move(*create_shared_memory("clocks", fabric::DepartureClocks::bytes_needed(64)));
  ControlSocket control_;
  Mapping lane_;
  RecordedEvents events_;
  std::unique_ptr<Process> process_;
  hca::Qp* qp_{};
};

TEST_F(TablesOfAProcess, AQpFindsItsLaneWhenItsPeersLidBecomesKnown) {
  builder_.set_lid(peer_port_, Lid{}, 0);
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_FALSE(asks_for_lane(Duration::milliseconds(100)));
  builder_.set_lid(peer_port_, kPeerLid, 0);
  send_tables();
  EXPECT_TRUE(asks_for_lane(kPatience));
  post();
  EXPECT_EQ(first_packet().dlid, kPeerLid);
}

TEST_F(TablesOfAProcess, AConnectedQpSendsWithItsPortsNewPKeyAndLid) {
  builder_.set_lid(peer_port_, kPeerLid, 0);
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(asks_for_lane(kPatience));
  constexpr PKey kNewPKey{0x8123};
  constexpr Lid kNewLid{0x55};
  builder_.set_pkeys(own_port_, {{kNewPKey}});
  builder_.set_lid(own_port_, kNewLid, 0);
  send_tables();
  EXPECT_TRUE(comes(hca::AsyncEventType::LidChange));
  EXPECT_TRUE(comes(hca::AsyncEventType::PKeyChange));
  post();
  const hca::PacketHeader header = first_packet();
  EXPECT_EQ(header.pkey, kNewPKey);
  EXPECT_EQ(header.slid, kNewLid);
}

}  // namespace
}  // namespace weft::host
