#pragma once

// One lane as this process has it (DESIGN.md, decision 3): where packets to one other process go
// out, and where that process's packets come in.
//
// Threading: each of the two outgoing rings has a lock, since requests and answers often come from
// different threads; so has the line of those who wait. Each of the two incoming rings
// belongs to whoever holds the process's ownership of requests or of responses.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/path.h"
#include "hca/packet.h"
#include "hca/qp.h"
#include "host/fabric_map.h"
#include "host/lane_memory.h"
#include "host/refusals.h"
#include "host/shared_memory.h"
#include "host/tap_set.h"
#include "ring/lane.h"
#include "uabi/messages.h"

namespace weft::host {

class Lane;

/// What the driver keeps of a QP; Qp::carrier points to it.
struct QpCarrier : ListHook<struct WaitingForRoom> {
  hca::Qp* qp{};
  std::uint32_t hca{};                            // counted from 0 within the host
  std::atomic<Lane*> lane{};                      // of a connected QP, from RTR on
  std::atomic<std::int64_t> armed_ns{kNotArmed};  // its entry in the timer heap
  std::atomic<Lane*> waiting_on{};  // the lane in whose list it stands; changed under its line_lock

  // Of a UD QP, under the QP's lock: the lane of the newest destination.
  Lid newest_dlid;
  std::uint32_t newest_slot{};
  std::uint64_t newest_generation{};
  Lane* newest_lane{};

  static constexpr std::int64_t kNotArmed = Instant::never().since_start().nanoseconds();
};

/// A resolved path of this lane and its counter: one SLID and DLID in one generation.
struct Route {
  Lid slid;
  Lid dlid;
  std::uint64_t generation{};
  fabric::Path path;
  fabric::PathEntry* counter{};
};

enum class LaneState : std::uint8_t {
  Opening,  // the daemon was asked; packets wait
  Open,
  Dead,  // no such process, or it is gone; packets are lost
};

/// What became of a packet that was handed to a lane.
enum class SendOutcome : std::uint8_t { Sent, Lost, NoRoom };

class Lane {
 public:
  static constexpr Duration kHeadOfQueueLifetime = Duration::milliseconds(1'074);  // HOQLife 18
  static constexpr Duration kReopenAfter = Duration::milliseconds(100);            // policy

  Lane(std::uint32_t number, uabi::ProcessAddress self, uabi::ProcessAddress peer,
       const FabricMap& map, TapSet& taps);

  const std::uint32_t number;  // among the lanes of this process
  const uabi::ProcessAddress self;
  const uabi::ProcessAddress peer;

  // --- sending

  PolicyLock& out_lock(hca::Flow flow) { return out(flow).lock; }

  PolicyLock line_lock{LockPolicy::Spin};
  IntrusiveList<QpCarrier, WaitingForRoom> waiting;  // the line
  std::atomic<std::uint32_t> line_length{0};
  [[nodiscard]] bool has_line() const { return line_length.load(std::memory_order_relaxed) != 0; }
  std::atomic<bool> responses_wait{false};  // a response found no room; somewhere in the line

  [[nodiscard]] LaneState state() const { return state_.load(std::memory_order_acquire); }

  /// Puts a packet or train into the ring, or loses it as its path says. `page` opens counters.
  /// With the flow's out_lock.
  [[nodiscard]] SendOutcome send(hca::Flow flow, const hca::PacketHeader& header,
                                 std::span<const ByteSpan> gather, fabric::CounterPage& page,
                                 PolicyLock& page_lock);

  /// A multicast copy: no path, no counter, no waiting. False: no room, or nobody there. With the
  /// out_lock of requests.
  [[nodiscard]] bool send_copy(hca::PacketHeader header, std::span<const ByteSpan> gather);

  /// After the last packet of a series, with the same hold of an out_lock: wakes the peer if it
  /// does not look. `is_urgent`: a one-sided request was among them, which wakes one who naps, too.
  void ring_doorbell(bool is_urgent);

  [[nodiscard]] bool is_to_self() const { return peer == self; }

  /// Whether the peer has read, and so answered, all that was sent to it. A dead peer has.
  [[nodiscard]] bool is_drained();

  /// With line_lock.
  void say_that_room_is_wanted();

  // --- life

  /// The lane's memory and the peer's attention page; from now on packets flow.
  void open(Mapping memory, Mapping attention, ring::LaneSide side);
  /// A lane to this process itself, in private memory.
  void open_to_self();
  /// Whoever calls holds both ownerships and has drained what came in. What waited for room goes
  /// to `heir`.
  void close(Lane& heir);
  void close_for_ever() { state_.store(LaneState::Dead, std::memory_order_release); }
  /// Dead for a while: true if the daemon should be asked again.
  [[nodiscard]] bool try_reopen();

  // --- receiving

  /// Valid while the lane is open and the caller has the ownership of the ring.
  alignas(64) ring::Consumer<> request_in;
  alignas(64) ring::Consumer<> response_in;

  /// After records were taken: wakes a peer that waits for room.
  void tell_room();
  [[nodiscard]] bool has_arrivals();
  void announce_sleep(ring::Sleep sleep);
  void announce_awake();
  /// Nobody here looks at this lane, and the peer has said since that somebody must.
  [[nodiscard]] bool was_rung() const;

  /// The port at which a packet from this lane arrives, if its addresses are what the lane's owner
  /// may use: SLID, SGID and P_Key of the peer's node, DLID of ours (DESIGN.md, decision 11).
  [[nodiscard]] const FabricMap::LocalPort* arrival(hca::Flow flow,
                                                    const hca::PacketHeader& header);
  /// Why arrival() just said no.
  [[nodiscard]] uabi::Misbehaviour lie(hca::Flow flow) const {
    return arrivals_[flow == hca::Flow::Response ? 1 : 0].lie;
  }
  [[nodiscard]] std::optional<uabi::Misbehaviour> lie_of_multicast(
      const hca::PacketHeader& header) const;

  Refusals refusals;

 private:
  /// One outgoing ring. The routes and counters of its packets are its own, so that the senders of
  /// the two share no cache line.
  struct alignas(64) Out {
    PolicyLock lock{LockPolicy::Spin};
    ring::Producer<> ring;
    Route* newest_route{};
    Instant full_since{Instant::never()};
    std::vector<std::unique_ptr<Route>> routes;
  };
  [[nodiscard]] Out& out(hca::Flow flow) { return outs_[flow == hca::Flow::Request ? 0 : 1]; }
  [[nodiscard]] Route& route(Out& out, const hca::PacketHeader& header, fabric::CounterPage& page,
                             PolicyLock& page_lock);
  [[nodiscard]] static bool may_discard(Out& out, const hca::PacketHeader& header);
  [[nodiscard]] MutableByteSpan write(ring::Producer<>& out, const hca::PacketHeader& header,
                                      std::span<const ByteSpan> gather, std::size_t payload_bytes);
  void wake_peer();

  const FabricMap& map_;
  TapSet& taps_;
  std::atomic<LaneState> state_{LaneState::Opening};
  Mapping memory_;
  Mapping attention_;
  std::unique_ptr<std::byte[]> private_memory_;
  LaneHead* head_{};
  AttentionPage* peer_attention_{};
  std::size_t my_side_{};
  std::size_t peer_side_{};
  std::array<Out, 2> outs_;  // requests, responses
  std::atomic<std::int64_t> died_at_ns_{};

  struct Arrival {
    Lid slid;
    Lid dlid;
    PKey pkey;
    std::optional<Gid> sgid;
    std::uint64_t generation{};
    std::optional<FabricMap::LocalPort> port;
    uabi::Misbehaviour lie{uabi::Misbehaviour::ForgedSource};
  };
  std::array<Arrival, 2> arrivals_;  // of requests, of responses: each under its ownership
};

}  // namespace weft::host
