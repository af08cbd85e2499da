#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "base/process_slot.h"
#include "base/random.h"
#include "hca/testing/loopback_pair.h"
#include "hca/xrc_relay.h"
#include "verbs/mtu.h"

/// An initiator (slot 1 of LID 1), a target at home in one process and an SRQ in another (slots 1
/// and 2 of LID 2). The test acts as their network, and as the daemon between the two processes.
namespace weft::hca {
namespace {

using testing::InFlightPacket;

constexpr std::uint32_t kDomain = 7;

/// Records an HCA's requests to its driver.
class ProxyEvents final : public HcaEvents {
 public:
  void completion_event(CompletionQueue&) override {}
  void async_event(const AsyncEvent&) override {}
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view) override {}
  void xrc_proxy_requested(const XrcProxyRequest& request) override { wanted.push_back(request); }
  void xrc_proxies_released(std::uint32_t, Qpn) override { ++dismissed; }

  std::vector<XrcProxyRequest> wanted;
  int dismissed{};
};

/// Counts calls that make memory persistent.
class CountedMemory final : public UserMemory {
 public:
  bool fault_in(std::span<std::byte> /*range*/, bool /*for_writing*/) override { return true; }
  bool persist(std::span<std::byte> range) override {
    ++flushes;
    bytes += range.size();
    return true;
  }
  std::uint64_t flushes{};
  std::uint64_t bytes{};
};

constexpr AccessFlags kAccess = AccessFlags{Access::RemoteWrite} | Access::RemoteRead |
                                Access::RemoteAtomic | Access::FlushPersistent;

/// One process of a host.
struct Host {
  Host(Lid its_lid, std::uint32_t its_slot)
      : lid(its_lid),
        slot(its_slot),
        hca(configuration(its_slot, user_memory), events),
        memory(1U << 16) {
    PortAttributes port;
    port.state = PortState::Active;
    port.pkeys = {kDefaultPKey};
    port.lid = lid;
    hca.set_port(PortNumber{1}, port);
    pd = *hca.allocate_pd();
    cq = *hca.create_cq(1'024);
    region = *hca.register_memory(*pd, 0, memory, kAccess | Access::LocalWrite);
  }
  static HcaConfiguration configuration(std::uint32_t slot, CountedMemory& memory) {
    HcaConfiguration made;
    made.user_memory = &memory;
    made.first_qpn = first_qpn_of(slot);
    made.limits.max_qp = 16;
    return made;
  }

  const Lid lid;
  const std::uint32_t slot;
  ProxyEvents events;
  CountedMemory user_memory;
  Hca hca;
  std::vector<std::byte> memory;
  ProtectionDomain* pd{};
  CompletionQueue* cq{};
  MemoryRegion* region{};
  std::vector<Qp*> qps;
};

class XrcRelayTest : public ::testing::Test {
 protected:
  XrcRelayTest() {
    home_domain_ = *home_.hca.open_xrc_domain(kDomain);
    owner_domain_ = *owner_.hca.open_xrc_domain(kDomain);
    srq_ = *owner_.hca.create_xrc_srq(*owner_.pd, *owner_domain_, *owner_.cq, 512, 1);
    QpInit init;
    init.type = QpType::XrcTarget;
    init.xrcd = home_domain_;
    target_ = *home_.hca.create_qp(init);
    init = {};
    init.type = QpType::XrcInitiator;
    init.pd = sender_.pd;
    init.send_cq = sender_.cq;
    init.capabilities.max_send_wr = 512;
    init.capabilities.max_send_sge = 1;
    initiator_ = *sender_.hca.create_qp(init);
    connect(*target_, sender_.lid, initiator_->number());
    connect(*initiator_, home_.lid, target_->number());
    sender_.qps = {initiator_};
    home_.qps = {target_};
  }

  static void connect(Qp& qp, Lid lid, Qpn peer) {
    using A = QpAttribute;
    const bool is_target = qp.type() == QpType::XrcTarget;
    QpAttributes to;
    to.state = QpState::Init;
    to.port = PortNumber{1};
    to.access = kAccess;
    ASSERT_TRUE(
        qp.modify(to, QpAttributeMask{A::State} | A::PKeyIndex | A::Port | A::RemoteAccess));
    to.state = QpState::Rtr;
    to.path_mtu = verbs::Mtu::Mtu256;
    to.dest_qpn = peer;
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 1;
    to.address.dlid = lid;
    to.address.port = PortNumber{1};
    QpAttributeMask mask =
        QpAttributeMask{A::State} | A::AddressVector | A::PathMtu | A::DestQpn | A::RqPsn;
    mask = is_target ? mask | A::MaxDestRdAtomic | A::MinRnrTimer : mask;
    ASSERT_TRUE(qp.modify(to, mask));
    if (!is_target) {
      to.state = QpState::Rts;
      to.timeout = TimeoutExponent{10};
      to.retry_count = 7;
      to.rnr_retry = 7;
      to.max_rd_atomic = 4;
      ASSERT_TRUE(qp.modify(to, QpAttributeMask{A::State} | A::Timeout | A::RetryCount |
                                    A::RnrRetry | A::SqPsn | A::MaxQpRdAtomic));
    }
  }

  /// Puts the packets that a QP of `from` sends onto the wire.
  class Sink final : public TransmitSink {
   public:
    Sink(XrcRelayTest& test, const Host& from) : test_(test), from_(from) {}
    [[nodiscard]] std::uint32_t max_train_bytes() const override { return 1'024; }
    [[nodiscard]] bool send(Flow flow, const PacketHeader& header,
                            std::span<const ByteSpan> gather) override {
      InFlightPacket in_flight_packet{.to = 0, .flow = flow, .header = header, .payload = {}};
      for (const ByteSpan piece : gather) {
        in_flight_packet.payload.insert(in_flight_packet.payload.end(), piece.begin(), piece.end());
      }
      const bool is_far =
          header.slid != header.dlid;  // links lose packets, a host's own memory does not
      if (!is_far || test_.random_.below(100) >= test_.loss_percent_) {
        test_.wire_.emplace_back(from_.slot, std::move(in_flight_packet));
      }
      return true;
    }

   private:
    XrcRelayTest& test_;
    const Host& from_;
  };

  Host& host_of(const PacketHeader& header) {
    return header.dlid == sender_.lid               ? sender_
           : slot_of(header.dest_qp) == owner_.slot ? owner_
                                                    : home_;
  }

  /// Acts as the daemon and the owner's driver.
  void make_proxies() {
    for (const XrcProxyRequest& request : std::exchange(home_.events.wanted, {})) {
      if (request.slot != owner_.slot || !owner_lives_) {
        target_->handle_proxy(request.slot, request.serial, std::nullopt);
        continue;
      }
      Qp* const proxy = *owner_.hca.create_proxy(*owner_domain_, request);
      owner_.qps.push_back(proxy);
      target_->handle_proxy(request.slot, request.serial, proxy->number());
    }
  }

  void send_all() {
    for (Host* const host : {&sender_, &home_, &owner_}) {
      Sink sink{*this, *host};
      for (Qp* const qp : host->qps) {
        while (qp->transmit(sink, now_, 64)) {
        }
      }
    }
  }

  void deliver_one() {
    const auto [slot, in_flight_packet] = std::move(wire_.front());
    wire_.pop_front();
    Packet packet = in_flight_packet.packet();
    packet.source_slot = slot;
    host_of(in_flight_packet.header).hca.handle_packet(PortNumber{1}, packet, now_);
  }

  /// Runs until nothing is left to do, or `packets` were delivered.
  void run(std::size_t packets = 1'000'000) {
    while (packets != 0) {
      send_all();
      make_proxies();
      send_all();
      if (!wire_.empty()) {
        deliver_one();
        --packets;
      } else if (initiator_->deadline() != Instant::never()) {
        now_ = std::max(now_, initiator_->deadline());
        initiator_->handle_timeout(now_);
      } else {
        return;
      }
    }
  }

  void post(WrOpcode opcode, std::uint64_t wr_id, std::uint32_t length, std::uint64_t remote = 0) {
    const std::array sges{
        Sge{.address = 0x100, .length = length, .lkey = sender_.region->lkey}
    };
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = Send::Signaled;
    if (opcode == WrOpcode::Flush) {
      wr.flush = {.length = length, .placement = wire::kPlacementPersistent};
    } else {
      wr.sges = sges;
    }
    wr.remote_address = remote;
    wr.rkey = owner_.region->rkey;
    wr.xrc_srqn = srq_->xrc().number;
    wr.compare_add = 1;
    const auto posted = initiator_->post_send(wr);
    ASSERT_TRUE(posted) << posted.error().reason;
  }
  void receive(std::uint64_t wr_id) {
    const std::array sges{
        Sge{.address = 0x8000, .length = 8'000, .lkey = owner_.region->lkey}
    };
    ASSERT_TRUE(srq_->post({.wr_id = wr_id, .sges = sges}));
  }
  static std::vector<Wc> poll(CompletionQueue& cq) {
    std::vector<Wc> found(512);
    found.resize(cq.poll(found));
    return found;
  }

  Random random_{11};
  std::uint64_t loss_percent_{};
  Instant now_{Duration::milliseconds(1)};
  std::deque<std::pair<std::uint32_t, InFlightPacket>> wire_;
  Host sender_{Lid{1}, 1};
  Host home_{Lid{2}, 1};
  Host owner_{Lid{2}, 2};
  bool owner_lives_{true};
  XrcDomain* home_domain_{};
  XrcDomain* owner_domain_{};
  SharedReceiveQueue* srq_{};
  Qp* target_{};
  Qp* initiator_{};
};

/// Links drop a tenth of all packets: each message is received once and in order, and each FETCH
/// ADD and FLUSH is executed once.
TEST_F(XrcRelayTest, ExecutesEachRequestOnceOverABadNetwork) {
  loss_percent_ = 10;
  constexpr std::uint64_t kRounds = 60;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    receive(round);
    post(WrOpcode::Send, 5 * round, static_cast<std::uint32_t>(round * 97 % 4'000));
    post(WrOpcode::FetchAdd, 5 * round + 1, 8, 0x4000);
    post(WrOpcode::RdmaRead, 5 * round + 2, static_cast<std::uint32_t>(round * 211 % 5'000),
         0x6000);
    post(WrOpcode::RdmaWrite, 5 * round + 3, 3'000, 0x1000);
    post(WrOpcode::Flush, 5 * round + 4, 3'000, 0x1000);
  }
  run();
  const auto sent = poll(*sender_.cq);
  ASSERT_EQ(sent.size(), 5 * kRounds);
  for (std::uint64_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(sent[i].status, WcStatus::Success);
  }
  const auto received = poll(*owner_.cq);
  ASSERT_EQ(received.size(), kRounds);
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(received[i].wr_id, i);
    EXPECT_EQ(received[i].byte_length, i * 97 % 4'000);
    EXPECT_EQ(received[i].qpn, target_->number());
    EXPECT_EQ(received[i].src_qpn, initiator_->number());
  }
  EXPECT_EQ(std::to_integer<std::uint64_t>(owner_.memory[0x4000]), kRounds);
  EXPECT_EQ(owner_.user_memory.flushes, kRounds);
  EXPECT_EQ(owner_.user_memory.bytes, kRounds * 3'000);
  EXPECT_EQ(home_.user_memory.flushes, 0U);
}

/// A response is accepted only from the process that has the request; a proxy accepts requests only
/// from its home.
TEST_F(XrcRelayTest, BelievesNoOtherProcess) {
  receive(1);
  post(WrOpcode::Send, 1, 100);
  run(1);  // the request is at home; the proxy's is on the wire
  send_all();
  make_proxies();
  send_all();
  ASSERT_EQ(wire_.size(), 1U);
  InFlightPacket forged = wire_.front().second;
  forged.header.opcode = forged.header.last_opcode = wire::Opcode::XrcAcknowledge;
  forged.header.dest_qp = target_->number();
  forged.header.extension.response = {};
  Packet answer{.header = forged.header, .payload = {}};
  answer.source_slot = 3;
  home_.hca.handle_packet(PortNumber{1}, answer, now_);
  EXPECT_FALSE(target_->has_responses()) << "an answer of a process that was not asked";
  Packet request = wire_.front().second.packet();
  request.source_slot = 3;
  owner_.hca.handle_packet(PortNumber{1}, request, now_);
  EXPECT_EQ(srq_->size(), 1U) << "a request of a process that is not the target's home";
  run();
  EXPECT_EQ(poll(*owner_.cq).size(), 1U);
  EXPECT_EQ(poll(*sender_.cq).at(0).status, WcStatus::Success);
}

TEST_F(XrcRelayTest, RefusesWhatIsUnderWayToAnOwnerThatGoes) {
  receive(1);
  post(WrOpcode::Send, 1, 3'000);
  run(3);
  owner_lives_ = false;
  owner_.qps.clear();
  target_->handle_owner_gone(owner_.slot);
  run();
  EXPECT_EQ(poll(*sender_.cq).at(0).status, WcStatus::RemoteAccessError);
  EXPECT_EQ(target_->query().state, QpState::Err);
  EXPECT_EQ(home_.events.dismissed, 0) << "there is nobody left to tell";
}

/// If a READ's memory disappears during its response, the NAK names the PSN after the last packet
/// sent.
TEST_F(XrcRelayTest, RefusesAReadWhoseOwnerGoesInItsMiddle) {
  post(WrOpcode::RdmaRead, 1, 30'000);
  run(8);
  owner_lives_ = false;
  owner_.qps.clear();
  target_->handle_owner_gone(owner_.slot);
  run();
  EXPECT_EQ(poll(*sender_.cq).at(0).status, WcStatus::RemoteAccessError);
}

/// A target that enters the error state releases its proxies, which flush the receives in use.
TEST_F(XrcRelayTest, ReleasesItsProxiesWithItsConnection) {
  receive(1);
  post(WrOpcode::Send, 1, 3'000);
  run(4);  // three trains are at home, of which the proxy has one
  QpAttributes error;
  error.state = QpState::Err;
  ASSERT_TRUE(target_->modify(error, QpAttribute::State));
  EXPECT_EQ(home_.events.dismissed, 1);
  ASSERT_FALSE(owner_.qps.empty());
  ASSERT_TRUE(owner_.qps[0]->modify(error, QpAttribute::State));
  const auto flushed = poll(*owner_.cq);
  ASSERT_EQ(flushed.size(), 1U);
  EXPECT_EQ(flushed[0].status, WcStatus::WorkRequestFlushed);
  EXPECT_EQ(flushed[0].qpn, target_->number());
}

}  // namespace
}  // namespace weft::hca
