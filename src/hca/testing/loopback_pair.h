#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/lock.h"
#include "base/random.h"
#include "hca/granted_memory.h"
#include "hca/hca.h"
#include "hca/train.h"
#include "verbs/mtu.h"

/// Two HCAs connected by an in-memory wire with virtual time, for the engines' tests.
namespace weft::hca::testing {

/// Records an HCA's notifications to its driver.
class RecordedEvents final : public HcaEvents {
 public:
  void completion_event(CompletionQueue& cq) override { completions.push_back(&cq); }
  void async_event(const AsyncEvent& event) override { events.push_back(event); }
  void bad_key(const BadKey& bad) override { bad_keys.push_back(bad); }
  [[nodiscard]] bool explains_errors() const override { return true; }
  void explain(std::string_view reason) override { reasons.emplace_back(reason); }
  [[nodiscard]] std::optional<std::uint64_t> placement_epoch(Qp& /*qp*/) override {
    ++epochs_asked;
    return lets_peers_place ? std::optional{granted.epoch()} : std::nullopt;
  }
  void grant_placement(Qp& qp, std::uint64_t epoch, const PlaceableMemory& memory) override {
    granted.grant(qp.number(), epoch, memory);
  }
  void withdraw_placement() override { granted.withdraw(); }

  [[nodiscard]] std::size_t count(AsyncEventType type) const {
    std::size_t count = 0;
    for (const AsyncEvent& event : events) {
      count += event.type == type ? 1 : 0;
    }
    return count;
  }

  std::vector<CompletionQueue*> completions;
  std::vector<AsyncEvent> events;
  std::vector<BadKey> bad_keys;
  std::vector<std::string> reasons;
  bool lets_peers_place{};
  std::size_t epochs_asked{};
  GrantedMemory granted;
};

/// A packet in flight, with a copy of its payload.
struct InFlightPacket {
  int to{};
  Flow flow{};
  PacketHeader header;
  std::vector<std::byte> payload;
  std::size_t pieces{};  // pieces of memory that the payload was gathered from
  [[nodiscard]] Packet packet() const { return {.header = header, .payload = payload}; }
};

/// One end: an HCA with PD, CQs, one QP and registered memory.
struct Side {
  explicit Side(const HcaConfiguration& configuration) : hca(configuration, events) {}

  RecordedEvents events;
  Hca hca;
  ProtectionDomain* pd{};
  CompletionQueue* send_cq{};
  CompletionQueue* recv_cq{};
  SharedReceiveQueue* srq{};
  XrcDomain* xrcd{};
  Qp* qp{};
  std::vector<std::byte> memory;
  MemoryRegion* region{};

  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return region->iova + offset;
  }
  [[nodiscard]] Sge sge(std::size_t offset, std::uint32_t length) const {
    return {.address = address(offset), .length = length, .lkey = region->lkey};
  }
};

/// Parameters of a LoopbackPair, the same for both ends unless noted.
struct PairOptions {
  QpType type{QpType::Rc};  // XrcInitiator: type of side a; side b has a target QP and an XRC SRQ
  LossModel loss_model{LossModel::Lossy};
  verbs::Mtu mtu{verbs::Mtu::Mtu256};
  std::uint32_t train_bytes{0};
  std::uint32_t depth{64};
  std::uint32_t cq_depth{1024};
  std::size_t memory_bytes{1U << 16};
  bool shared_receive_queue{};
  AccessFlags region_access{AccessFlags{Access::LocalWrite} | Access::RemoteWrite |
                            Access::RemoteRead | Access::RemoteAtomic | Access::FlushGlobal};
  AccessFlags qp_access{AccessFlags{Access::RemoteWrite} | Access::RemoteRead |
                        Access::RemoteAtomic | Access::FlushGlobal};
  Psn first_psn{Psn{0x100}};
  std::uint8_t max_rd_atomic{4};
  std::uint8_t timeout{14};
  std::uint8_t retry_count{7};
  std::uint8_t rnr_retry{7};
  std::uint8_t min_rnr_timer{12};
  QKey qkey{QKey{0x1111}};
  std::uint8_t source_path_bits{};
  TimeScale time_scale{};
  std::uint8_t port_count{1};
  UserMemory* user_memory{};  // of both sides
  LockPolicy lock_policy{LockPolicy::None};
  bool places{};  // both sides grant and place (hca/placement.h)
  PlacementPolicy placement{PlacementPolicy::Always};
  bool has_fast_path{};  // the wire accepts fast-path packets, and the engines use them
};

/// The LID of a side's port: 1 and 2 for first ports, 17 and 18 for second ports.
[[nodiscard]] constexpr Lid lid_of(int side, std::uint8_t port = 1) {
  return Lid{static_cast<std::uint32_t>(side + 1 + (port - 1) * 16)};
}

class LoopbackPair {
 public:
  explicit LoopbackPair(const PairOptions& options = {});

  Side& a() { return *sides_[0]; }
  Side& b() { return *sides_[1]; }
  Side& side(int index) { return *sides_[static_cast<std::size_t>(index)]; }

  /// Takes both QPs through INIT, RTR and RTS with the options' attributes.
  void connect();
  void to_init(Side& side);
  void to_rtr(Side& side, const Side& peer);
  void to_rts(Side& side);

  /// Transmits on both sides, delivers packets in order, and fires timers when nothing else is left
  /// to do. Ends when idle or after `until` of virtual time; true if idle.
  bool run(Duration until = Duration::seconds(100));

  /// Transmits on both sides, without delivering.
  void collect();
  /// The same for one side, with at most `packets` packets per QP.
  void collect_from(int side, unsigned packets);
  /// Posts to a side's QP and transmits, as a driver does.
  [[nodiscard]] Result<bool> post_and_transmit(int side, const SendWr& wr);
  /// Delivers the oldest packet on the wire; false if there is none.
  bool deliver_one();
  /// Advances to the next timer and fires it; false if there is none.
  bool fire_next_timer();

  [[nodiscard]] Instant now() const { return now_; }
  void wait(Duration time) { now_ = now_ + time; }

  /// Sees each packet as it enters the wire and may change it; false drops it.
  std::function<bool(InFlightPacket&)> filter;
  /// All packets that ever entered the wire, before the filter.
  std::vector<InFlightPacket> sent;
  std::deque<InFlightPacket> wire;
  /// Sees each part that is about to be placed; false refuses it.
  std::function<bool(const Placement&)> may_place;
  PlacementMeans means{PlacementMeans::SystemCall};
  std::size_t placements_asked{};     // how often the sink was asked by what it would place
  std::vector<PlacedTraffic> placed;  // of all parts that were
  Duration copy_takes;                // each message that is placed
  std::size_t fast_path_count{};      // how many of `sent` took the fast path

  std::vector<Wc> poll(CompletionQueue& cq);

 private:
  class Sink;
  PairOptions options_;
  std::array<std::unique_ptr<Side>, 2> sides_;
  Instant now_{Duration::milliseconds(1)};
};

}  // namespace weft::hca::testing
