#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "host/lane.h"
#include "host/lane_memory.h"
#include "host/process.h"
#include "host/testing/tables_daemon.h"
#include "os/clock.h"
#include "os/shared_memory.h"
#include "verbs/mtu.h"

/// What a program makes of new tables from its daemon, which here is the test: the fabric is a pair
/// whose ports change as no daemon changes them yet.
namespace weft::host {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;
using testing::TablesDaemon;

constexpr Duration kWaitLimit = TablesDaemon::kWaitLimit;
constexpr fabric::NodeIndex kPeerNode = TablesDaemon::kPeerNode;
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
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view) override {}
  [[nodiscard]] bool has(hca::AsyncEventType type) {
    const std::lock_guard guard{lock_};
    return std::ranges::find(types_, type) != types_.end();
  }
  [[nodiscard]] std::vector<hca::AsyncEventType> take() {
    const std::lock_guard guard{lock_};
    return std::exchange(types_, {});
  }

 private:
  std::mutex lock_;
  std::vector<hca::AsyncEventType> types_;
};

/// A pair with one program, on h1, and a daemon that says what the test wants.
class TablesOfAProcess : public ::testing::Test {
 protected:
  ~TablesOfAProcess() override {
    for (hca::Qp* const qp : qps_) {
      EXPECT_TRUE(process_->destroy_qp(0, *qp));
    }
  }

  void start() {
    std::thread daemon{[this] { daemon_.admit_program(); }};
    auto process =
        Process::open({.run = daemon_.run, .fabric = "test", .host = "h1", .limits = {}}, events_);
    daemon.join();
    ASSERT_TRUE(process) << process.error().reason;
    process_ = std::move(*process);
    hca::Hca& engine = *process_->hcas().front().engine;
    hca::QpInit& init = init_;
    init.pd = *engine.allocate_pd();
    init.send_cq = init.recv_cq = *process_->create_cq(0, 16);
    init.capabilities.max_inline_data = 8;
    init.capabilities.max_send_wr = 8;
    qp_ = qps_.emplace_back(*process_->create_qp(0, init));
    connect(*qp_, {});
  }

  /// Another QP, on the same lane.
  hca::Qp& beside() {
    const auto lane_of = [&](const hca::Qp& qp) {
      return station::lane_index_for(process_->address(), qp.number(),
                                     {.node = kPeerNode.value(), .slot = kPeerSlot},
                                     first_qpn_of(kPeerSlot));
    };
    do {
      qps_.push_back(*process_->create_qp(0, init_));
    } while (lane_of(*qps_.back()) != lane_of(*qp_));
    return *qps_.back();
  }

  /// To the first QP of the process in slot 1 of h2.
  void connect(hca::Qp& qp, ServiceLevel sl) {
    hca::QpAttributes to;
    to.address.sl = sl;
    to.port = PortNumber{1};
    to.path_mtu = verbs::Mtu::Mtu256;
    to.dest_qpn = first_qpn_of(kPeerSlot);
    to.address.dlid = kPeerLid;
    const auto modify = [&](hca::QpState state, QpAttributeMask mask) {
      to.state = state;
      const auto modified = process_->modify_qp(qp, to, mask | QpAttribute::State);
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

  void post() { post(*qp_); }
  void post(hca::Qp& qp) {
    hca::SendWr wr;
    wr.opcode = hca::WrOpcode::RdmaWrite;  // which needs no credit
    wr.flags = hca::Send::Inline;
    ASSERT_TRUE(process_->post_send(qp, wr));
  }

  /// What the own port has sent.
  fabric::PortDetails::BySl sent() {
    const auto tables = daemon_.builder.build(1);
    const auto view = *fabric::TablesView::open(tables);
    const std::array pages{
        fabric::OwnedCounterPage{daemon_.counter_page(), fabric::NodeIndex{0}}
    };
    const fabric::CounterLedger ledger{view.ports().size()};
    return ledger.details(ledger.read(view, pages), daemon_.own_port).xmit_data;
  }

  /// Whether the program asks for the lane to its peer.
  bool asks_for_lane(Duration wait_limit) {
    auto received = daemon_.control.receive(wait_limit);
    const auto* const asked = received ? received->message.get_if<uabi::OpenLane>() : nullptr;
    return asked != nullptr &&
           asked->peer == uabi::ProcessAddress{.node = kPeerNode.value(), .slot = kPeerSlot};
  }

  /// Gives the lane, and returns the first packet of it.
  hca::PacketHeader first_packet() {
    const os::UniqueFd lane = std::move(*os::create_shared_memory("lane", kPairMemoryBytes));
    lane_ = std::move(
        *os::map_shared(lane, os::Protection::ReadWrite, kPairMemoryBytes, kPairMemoryBytes));
    const uabi::ProcessAddress peer{.node = kPeerNode.value(), .slot = kPeerSlot};
    const std::uint32_t index =
        station::lane_index_for(process_->address(), qp_->number(), peer, first_qpn_of(kPeerSlot));
    auto ends = ring::lane_ends(lane_rings(lane_.bytes(), index), kLaneShape, ring::LaneSide::B);
    const std::array descriptors{lane.get(), daemon_.attention.get()};
    uabi::Lane message;
    message.peer = peer;
    EXPECT_TRUE(daemon_.control.send(message, descriptors));
    hca::Packet packet;
    const Instant deadline = os::now() + kWaitLimit;
    while (ends.request_in.front().state != ring::Consumer<>::State::Record) {
      if (os::now() > deadline) {
        ADD_FAILURE() << "no packet";
        return packet.header;
      }
      std::this_thread::yield();
    }
    EXPECT_EQ(hca::read_record(ends.request_in.front().body, packet), "");
    return packet.header;
  }

  bool comes(hca::AsyncEventType type) {
    const Instant deadline = os::now() + kWaitLimit;
    while (!events_.has(type) && os::now() < deadline) {
      std::this_thread::yield();
    }
    return events_.has(type);
  }

  /// Every event up to now; those of the tables sent last have come when the mark has.
  std::vector<hca::AsyncEventType> seen() {
    EXPECT_TRUE(comes(hca::AsyncEventType::ClientReregister));
    return events_.take();
  }

  TablesDaemon daemon_;
  os::Mapping lane_;
  RecordedEvents events_;
  std::unique_ptr<Process> process_;
  hca::QpInit init_;
  std::vector<hca::Qp*> qps_;
  hca::Qp* qp_{};
};

TEST_F(TablesOfAProcess, AQpFindsItsLaneWhenItsPeersLidBecomesKnown) {
  daemon_.builder.set_lid(daemon_.peer_port, Lid{}, 0);
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_FALSE(asks_for_lane(Duration::milliseconds(100)));
  daemon_.builder.set_lid(daemon_.peer_port, kPeerLid, 0);
  daemon_.send_tables();
  EXPECT_TRUE(asks_for_lane(kWaitLimit));
  post();
  EXPECT_EQ(first_packet().dlid, kPeerLid);
}

TEST_F(TablesOfAProcess, AConnectedQpSendsWithItsPortsNewPKeyAndLid) {
  daemon_.builder.set_lid(daemon_.peer_port, kPeerLid, 0);
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(asks_for_lane(kWaitLimit));
  constexpr PKey kNewPKey{0x8123};
  constexpr Lid kNewLid{0x55};
  daemon_.builder.set_pkeys(daemon_.own_port, {{kNewPKey}});
  daemon_.builder.set_lid(daemon_.own_port, kNewLid, 0);
  daemon_.send_tables();
  EXPECT_TRUE(comes(hca::AsyncEventType::LidChange));
  EXPECT_TRUE(comes(hca::AsyncEventType::PKeyChange));
  post();
  const hca::PacketHeader header = first_packet();
  EXPECT_EQ(header.pkey, kNewPKey);
  EXPECT_EQ(header.slid, kNewLid);
}

TEST_F(TablesOfAProcess, PacketsCountByServiceLevelThoughTheyShareALaneAndItsFastPath) {
  daemon_.builder.set_lid(daemon_.peer_port, kPeerLid, 0);
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(asks_for_lane(kWaitLimit));
  hca::Qp& high = beside();
  connect(high, ServiceLevel{5});
  post();
  EXPECT_EQ(first_packet().sl, ServiceLevel{});
  post();
  post(high);
  post(high);
  post(high);
  post();
  constexpr std::uint64_t kWords = 10;  // LRH, BTH, RETH and ICRC
  fabric::PortDetails::BySl expected{};
  expected[0] = 3 * kWords;
  expected[5] = 3 * kWords;
  EXPECT_EQ(sent(), expected);
}

struct PortEvent {
  hca::AsyncEventType event;
  void (*change)(fabric::TablesBuilder&, fabric::PortIndex);
};
/// The rows of hca/async_event_test.cc that are left to drivers, each with what raises it.
constexpr auto kPortEvents = std::to_array<PortEvent>({
    {hca::AsyncEventType::PortError,
     [](fabric::TablesBuilder& builder, fabric::PortIndex port) {
       builder.set_link_state(port, fabric::PortState::Down);
     }},
    {hca::AsyncEventType::PortActive,
     [](fabric::TablesBuilder& builder, fabric::PortIndex port) {
       builder.set_link_state(port, fabric::PortState::Active);
     }},
    {hca::AsyncEventType::LidChange,
     [](fabric::TablesBuilder& builder, fabric::PortIndex port) {
       builder.set_lid(port, Lid{0x44}, 2);
     }},
    {hca::AsyncEventType::PKeyChange,
     [](fabric::TablesBuilder& builder, fabric::PortIndex port) {
       builder.set_pkeys(port, std::array{PKey{0x8123}, kDefaultPKey});
     }},
    {hca::AsyncEventType::GidChange,
     [](fabric::TablesBuilder& builder, fabric::PortIndex port) {
       builder.set_gids(port, std::array{
                                  Gid{                          kDefaultGidPrefix, Guid{1}}});
     }      },
    {hca::AsyncEventType::SmChange,
     [](fabric::TablesBuilder& builder, fabric::PortIndex port) {
       builder.set_subnet_manager(port, Lid{0x99}, ServiceLevel{3});
     }},
});

TEST_F(TablesOfAProcess, EachChangeOfAPortIsToldByItsEventAndNoOther) {
  ASSERT_NO_FATAL_FAILURE(start());
  for (const PortEvent& row : kPortEvents) {
    row.change(daemon_.builder, daemon_.own_port);
    daemon_.builder.request_reregistration(daemon_.own_port);
    daemon_.send_tables();
    auto events = seen();
    std::erase(events, hca::AsyncEventType::ClientReregister);
    EXPECT_EQ(events, std::vector{row.event}) << "row " << &row - kPortEvents.data();
  }
  const hca::PortAttributes port = process_->hcas().front().engine->port(PortNumber{1});
  EXPECT_EQ(port.sm_lid, Lid{0x99});
  EXPECT_EQ(port.sm_sl, ServiceLevel{3});
  daemon_.builder.request_reregistration(daemon_.own_port);
  daemon_.send_tables();
  EXPECT_EQ(seen(), std::vector{hca::AsyncEventType::ClientReregister});
  daemon_.builder.set_tapped(daemon_.own_port, true);  // which is nobody's business
  daemon_.builder.set_lid(daemon_.peer_port, kPeerLid, 0);
  daemon_.builder.request_reregistration(daemon_.own_port);
  daemon_.send_tables();
  EXPECT_EQ(seen(), std::vector{hca::AsyncEventType::ClientReregister});
}

TEST_F(TablesOfAProcess, TheEndOfTheDaemonIsFatalToTheDevice) {
  ASSERT_NO_FATAL_FAILURE(start());
  daemon_.control = {};
  EXPECT_TRUE(comes(hca::AsyncEventType::DeviceFatal));
  EXPECT_EQ(qp_->query().state, hca::QpState::Err);
}

}  // namespace
}  // namespace weft::host
