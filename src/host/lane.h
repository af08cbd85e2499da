#pragma once

// One lane, from this process's side (docs/ARCHITECTURE.md, decision 3): the rings that carry
// packets of some of its QPs to one other process, and that process's packets for them.
//
// Threads: each of the two outgoing rings has a lock, since requests and responses often come from
// different threads; so has the wait queue. Each of the two incoming rings has an owner, the one
// thread that takes from it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/path.h"
#include "hca/packet.h"
#include "hca/packet_record.h"
#include "hca/qp.h"
#include "hca/wire_length.h"
#include "host/fabric_map.h"
#include "host/lane_memory.h"
#include "host/live_links.h"
#include "host/multicast_groups.h"
#include "host/pair_memory.h"
#include "host/placement/peer_placement.h"
#include "host/refusals.h"
#include "host/tap_set.h"
#include "ring/lane.h"
#include "station/one_sided.h"
#include "station/polling_turns.h"
#include "station/wait_queue.h"
#include "uabi/messages.h"
#include "wire/opcode.h"

namespace weft::host {

class Lane;

/// What the driver keeps of a CQ; CompletionQueue::driver_data points to it. A thread that polls
/// the CQ looks at the lanes that can complete something there, and notes at each that it polls.
/// Every member that changes is atomic.
struct CqDriverState {
  ring::DoorbellBitmap lanes;          // of the connected QPs that complete there
  std::atomic<Lane*> only_lane{};      // of those, if there is just one
  std::atomic<bool> takes_all{false};  // it takes datagrams or an XRC SRQ's messages: by any lane
  std::atomic<std::uint32_t> empty_polls{};  // polls since one found something
  std::atomic<std::uint32_t> polls{};        // a hint: two at a time may count as one
  hca::CompletionQueue* cq{};
  std::atomic<std::int64_t> event_due_ns{};  // of its held event (HeldEvents)
  std::atomic<bool> is_timed{};              // it is in the heap of held events
};

/// What the driver keeps of a QP; Qp::driver_data points to it.
struct QpDriverState : station::Waiter {
  hca::Qp* qp{};
  std::uint32_t hca{};                            // counted from 0 within the host
  std::array<CqDriverState*, 2> cqs{};            // the CQs in which it completes
  std::atomic<Lane*> lane{};                      // of a connected QP, from RTR on
  std::atomic<std::int64_t> armed_ns{kNotArmed};  // its entry in the timer heap

  // Of a UD QP, under the QP's lock: the lane of the last datagram's destination (LaneBinder).
  Lid newest_dlid;
  Qpn newest_qpn;
  std::uint64_t newest_generation{};
  Lane* newest_lane{};

  // Of the newest WRITE or READ that was long enough to be placed.
  std::atomic<PlacementWay> placement_way{PlacementWay::NotTried};

  std::uint32_t seen_lost_answers{};  // when its timer last expired; under maintenance_owner

  std::vector<Membership> memberships;  // for a UD QP; changed by MulticastGroups

  static constexpr std::int64_t kNotArmed = Instant::never().since_start().nanoseconds();
};

/// Counters of packets lost or damaged on one hop of a path; null where no rule does that.
struct HopLosses {
  fabric::PathEntry* lost{};
  fabric::PathEntry* damaged{};
};

/// The resolved path of one SLID, DLID and SL in one generation of the tables, and its counter.
struct Route {
  std::uint64_t route_key{};  // hca::route_key_of
  std::uint64_t generation{};
  fabric::Path path;
  fabric::PathEntry* counter{};
  bool is_timed{};     // packets take time or meet rules of faults, or some still are under way
  LaneDelay* delay{};  // made for the first of them
  LaneDelay* late{};   // of packets that a rule holds back, so that others overtake them
  std::vector<HopLosses> losses;  // by hop, of a path with faults
};

/// State of a lane; see Lane::open() and close().
enum class LaneState : std::uint8_t {
  Opening,  // the daemon was asked for it; packets wait
  Open,
  Dead,  // the peer process does not exist or is gone; packets are lost
};

/// The fate of a packet passed to a lane.
enum class SendOutcome : std::uint8_t {
  Sent,           // it is in the ring
  Delayed,        // it is in flight, for the time that its path takes
  PartlyDelayed,  // some packets of a train, or copies, are in flight; the others are lost
  Lost,
  NoSpace,
};

/// A lane; see above for its threading rules.
class Lane {
 public:
  static constexpr Duration kHeadOfQueueLifetime = Duration::milliseconds(1'074);  // HOQLife 18
  static constexpr Duration kReopenAfter = Duration::milliseconds(100);            // policy

  /// `index`: among the lanes of the pair. `waiting` counts the QPs in the wait queues of all
  /// lanes. `placement`: with the peer; null if that is this process.
  Lane(std::uint32_t number, std::uint32_t index, uabi::ProcessAddress self,
       uabi::ProcessAddress peer, const FabricMap& map, TapSet& taps, LiveLinks& links,
       std::atomic<std::uint32_t>& waiting, PeerPlacement* placement = nullptr);

  const std::uint32_t number;  // among the lanes of this process
  const std::uint32_t index;
  const uabi::ProcessAddress self;
  const uabi::ProcessAddress peer;
  PeerPlacement* const placement;

  // --- sending

  PolicyLock& out_lock(hca::Flow flow) { return out(flow).lock; }

  station::WaitQueue queue;  // of QPs that found no space, and of those behind them

  [[nodiscard]] LaneState state() const { return state_.load(std::memory_order_acquire); }

  /// Puts a packet or train into the ring, or drops it as its path says. `page`, under `page_lock`,
  /// opens counters. With the flow's out_lock held.
  [[nodiscard]] SendOutcome send(hca::Flow flow, const hca::PacketHeader& header,
                                 std::span<const ByteSpan> gather, fabric::CounterPage& page,
                                 PolicyLock& page_lock) {
    return send_on(out(flow), header, gather, page, page_lock);
  }

  /// Puts a packet into the ring if its route is the last one that send() found open. False: send()
  /// must decide (hca::TransmitSink::send_fast). With the flow's out_lock held.
  [[nodiscard, gnu::always_inline]] bool send_fast(hca::Flow flow, const hca::SinglePacket& packet);

  /// The paths there and back of what is placed.
  struct PlacementPath {
    std::uint64_t route_key{~std::uint64_t{0}};  // not a valid key
    std::uint64_t generation{};
    PlacementWay way{PlacementWay::NotGranted};  // Placed: nothing on the paths speaks against it
    fabric::PathEntry* requests{};
    fabric::PathEntry* answers{};

    /// Counts the packets that were spared. With the out_lock of requests held.
    void count(const hca::PlacedTraffic& traffic) const {
      requests->count(traffic.request_packets, traffic.request_words);
      answers->count(traffic.answer_packets, traffic.answer_words);
    }
  };
  /// Those of what would be sent with the addresses of `request`. With the out_lock of requests
  /// held.
  [[nodiscard]] PlacementPath find_placement_path(const hca::PacketHeader& request,
                                                  fabric::CounterPage& page, PolicyLock& page_lock);

  /// Lets a ring without space grow to its full size; true if it was not permitted before. With the
  /// flow's out_lock held.
  [[nodiscard]] bool allow_growth(hca::Flow flow) { return out(flow).ring.allow_growth(); }

  /// Puts one copy of a multicast packet into the ring: no path, no counter, no waiting. False: no
  /// space, or the lane is not open. With the out_lock of requests held.
  [[nodiscard]] bool send_copy(const hca::PacketHeader& header, std::span<const ByteSpan> gather);

  /// The same for a copy that takes the time of `transit`, and is held back for longer by a rule.
  [[nodiscard]] bool delay_copy(const hca::PacketHeader& header, std::span<const ByteSpan> gather,
                                const fabric::Transit& transit, Duration held_back);

  /// The longest train that fits the rates of the paths used so far, in payload bytes.
  [[nodiscard]] std::uint32_t max_train_bytes() const {
    return max_train_bytes_.load(std::memory_order_relaxed);
  }

  /// Moves the packets that have arrived by `now` into the ring; true if there were any. `delay`
  /// belongs to this lane and was taken from LiveLinks::due.
  bool release(LaneDelay& delay, Instant now);
  /// Tries again what has arrived and found no space; true if any found some.
  bool release_blocked(Instant now);

  /// Wakes the peer if it does not look at this lane. Call after the last packet of a series,
  /// before the out_lock is released. `is_urgent`: a napping thread is woken, too
  /// (station::SeriesUrgency).
  void ring_doorbell(bool is_urgent);

  [[nodiscard]] bool is_to_self() const { return peer == self; }

  /// True if the peer has read and answered all requests, none being under way, or is dead.
  [[nodiscard]] bool is_drained();

  /// True if a packet of this QP, or an answer to one, may be lost: the peer has read everything,
  /// or links have lost answers of this lane since the last call for this QP.
  [[nodiscard]] bool may_have_lost(QpDriverState& qp_state);

  /// Asks the peer to wake us when there is space in its incoming rings. With the lock of the queue
  /// held.
  void request_space();

  // --- life cycle

  /// Opens the lane in memory that is joined with the peer and outlives this.
  void open(const PairMemory& memory, ring::LaneSide side);
  /// Opens a lane to this process itself, in memory that is not joined.
  void open_to_self(const PairMemory& memory);
  /// The peer is gone. The caller owns both incoming rings and has drained them. QPs that wait for
  /// this lane wait for `replacement` from now on.
  void close(Lane& replacement);
  /// Marks the lane dead without a replacement, as when the daemon is gone.
  void close_permanently() { state_.store(LaneState::Dead, std::memory_order_release); }
  /// To Opening if the lane has been dead for a while: true if the daemon should be asked again.
  [[nodiscard]] bool try_reopen();

  // --- receiving

  /// An incoming ring and its owner. The members are the owner's, but for has_record(); they have a
  /// meaning while the lane is open.
  struct alignas(64) In {
    PolicyLock owner{LockPolicy::Spin};
    ring::Consumer<> ring;
    hca::Packet packet;  // the packet being delivered

    /// True if there may be a record, for any thread: it must become the owner and look again.
    /// While the owner goes on, the word may be part of a body that is being written; the thread
    /// sanitizer would take that for a race.
    [[nodiscard, gnu::no_sanitize_thread]] bool has_record() const {
      const void* const word = next_word_.load(std::memory_order_acquire);
      return word != nullptr && __atomic_load_n(static_cast<const std::uint32_t*>(word),
                                                __ATOMIC_RELAXED) != ring::kNoRecord;
    }
    /// Call after the owner took records, or made the ring: the place of the next record.
    void publish_next_word() { next_word_.store(ring.next_word(), std::memory_order_release); }

   private:
    std::atomic<const std::byte*> next_word_{};  // in memory that is never unmapped (PairMemory)
  };
  [[nodiscard]] In& in(hca::Flow flow) { return ins_[index_of(flow)]; }
  [[nodiscard]] bool has_record() const { return ins_[0].has_record() || ins_[1].has_record(); }
  /// True if the peer waits for space in one of these rings; a hint, for any thread.
  [[nodiscard]] bool space_is_wanted() const {
    const LaneHead* const head = this->head();
    return head != nullptr &&
           head->wants_space[peer_side()].value.load(std::memory_order_relaxed) != 0;
  }

  /// Who takes what comes by this lane (docs/ARCHITECTURE.md, decision 4).
  station::PollingTurns turns;

  // What follows is for owners of the incoming rings.

  /// Wakes a peer that waits for space. Call after records were taken, or if there were none.
  void signal_space();
  /// Asks the peer to ring from now on.
  void announce_sleep(ring::Sleep sleep);
  /// The word in which the peer reads whether this process sleeps; null for a lane to itself.
  [[nodiscard]] ring::Attention* own_attention() const;
  /// True if the peer has rung, or no thread has asked it to.
  [[nodiscard]] bool has_doorbell() const;

  /// The port at which a packet of the peer arrives, if it has addresses that the peer may use:
  /// SLID, SGID and P_Key of its own node, DLID of ours (docs/ARCHITECTURE.md, decision 11). Else
  /// null, and fault() has the reason.
  [[nodiscard]] const FabricMap::LocalPort* arrival(hca::Flow flow,
                                                    const hca::PacketHeader& header);
  [[nodiscard]] uabi::RecordFault fault(hca::Flow flow) const {
    return arrivals_[index_of(flow)].fault;
  }
  /// The ports at which a multicast packet of the peer arrives; null, and multicast_fault() has the
  /// reason, if the peer may not send it. For the owner of the request ring.
  [[nodiscard]] const std::vector<FabricMap::MulticastArrival>* multicast_arrivals(
      const hca::PacketHeader& header);
  [[nodiscard]] uabi::RecordFault multicast_fault() const { return multicast_arrival_.fault; }

  Refusals refusals;

 private:
  /// The route that send_fast() may use: the last one by which send() put a packet into the ring
  /// that took no time, met no capture and had not waited for space. New tables end it by their
  /// generation; whatever else changes one of these conditions clears it.
  struct FastPath {
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // not a valid key
    std::uint64_t route_key{kNone};
    std::uint64_t generation{};
    fabric::PathEntry* counter{};
  };

  /// One outgoing ring. It has routes and counters of its own, so that the senders of requests and
  /// of responses share no cache line.
  struct alignas(64) Out {
    PolicyLock lock{LockPolicy::Spin};
    ring::Producer<> ring;
    FastPath fast_path;
    Route* newest_route{};
    Instant full_since{Instant::never()};
    std::vector<std::unique_ptr<Route>> routes;
    std::vector<std::unique_ptr<LaneDelay>> delays;
    LaneDelay* copies{};                    // of multicast packets
    LaneDelay* late_copies{};               // those that a rule holds back
    std::size_t delayed{};                  // packets in all of them
    std::atomic<std::uint32_t> blocked{0};  // delays without space; changed under the lock
  };
  [[nodiscard]] static constexpr std::size_t index_of(hca::Flow flow) {
    return flow == hca::Flow::Request ? 0 : 1;
  }
  [[nodiscard]] Out& out(hca::Flow flow) { return outs_[index_of(flow)]; }
  void take_ends(const ring::LaneEnds& out, const ring::LaneEnds& in);
  [[nodiscard, gnu::noinline]] SendOutcome send_on(Out& out, const hca::PacketHeader& header,
                                                   std::span<const ByteSpan> gather,
                                                   fabric::CounterPage& page,
                                                   PolicyLock& page_lock);
  [[nodiscard]] Route& route(Out& out, const hca::PacketHeader& header, fabric::CounterPage& page,
                             PolicyLock& page_lock);
  [[nodiscard, gnu::noinline]] Route& find_route(Out& out, const hca::PacketHeader& header,
                                                 fabric::CounterPage& page, PolicyLock& page_lock);
  [[nodiscard]] bool may_discard(Instant& full_since, wire::Opcode opcode) const;

  [[nodiscard, gnu::noinline]] SendOutcome delay_packet(Out& out, Route& route,
                                                        const hca::PacketHeader& header,
                                                        std::span<const ByteSpan> gather);
  [[nodiscard]] SendOutcome delay_singles(Out& out, Route& route, const hca::PacketHeader& header,
                                          std::span<const ByteSpan> gather);
  struct Singles;
  void delay_single(Out& out, Route& route, const hca::Packet& single, Singles& made);
  void show(const Route& route, const fabric::CrossedCopy& copy, const hca::Packet& single);
  void open_losses(Route& route, ServiceLevel sl, fabric::CounterPage& page,
                   PolicyLock& page_lock) const;
  [[nodiscard]] static bool takes_time(const Route& route);
  static void count_wait(Out& out, const Route& route, Instant at) {
    if (out.full_since != Instant::never()) {
      route.counter->count_wait(at - out.full_since);
      out.full_since = Instant::never();
    }
  }
  [[nodiscard]] LaneDelay& new_delay(Out& out, hca::Flow flow);
  void commit_delayed(Out& out, LaneDelay& delay, const station::DelayedPacket& packet);
  bool release_arrived(Out& out, LaneDelay& delay, Instant now);
  void drop_delayed(Out& out);
  [[nodiscard, gnu::noinline]] static SendOutcome drop_unroutable(LaneState state,
                                                                  const Route& route,
                                                                  const hca::PacketHeader& header,
                                                                  std::size_t payload_bytes);
  [[nodiscard, gnu::noinline]] SendOutcome handle_full_ring(Out& out, const Route& route,
                                                            const hca::PacketHeader& header,
                                                            std::size_t payload_bytes);
  [[nodiscard, gnu::always_inline]] static inline MutableByteSpan write(
      ring::Producer<>& out, const hca::PacketHeader& header, std::span<const ByteSpan> gather,
      std::size_t payload_bytes);

  /// The words that both processes share, for any thread; null before the lane was open.
  [[nodiscard]] LaneHead* head() const { return head_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t own_side() const { return own_side_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t peer_side() const { return 1 - own_side(); }

  const FabricMap& map_;
  TapSet& taps_;
  LiveLinks& links_;
  std::atomic<std::uint32_t> max_train_bytes_{kMaxTrainBytes};
  std::atomic<LaneState> state_{LaneState::Opening};
  std::atomic<LaneHead*> head_{};  // set when first opened, and kept; null for a lane to itself
  std::atomic<std::size_t> own_side_{};  // may change when it is opened again
  AttentionPage* peer_attention_{};
  std::array<Out, 2> outs_;  // requests, responses
  std::array<In, 2> ins_;
  PlacementPath placement_path_;  // the newest; under the out_lock of requests
  std::atomic<std::int64_t> died_at_ns_{};

  /// The addresses of the last packet, and what was found out about them.
  struct Addresses {
    Lid slid;
    Lid dlid;
    PKey pkey;
    std::optional<Gid> sgid;
    std::uint64_t generation{};
    uabi::RecordFault fault{uabi::RecordFault::ForgedSource};
  };
  struct Arrival : Addresses {
    std::optional<FabricMap::LocalPort> port;
  };
  struct Arrivals : Addresses {
    std::optional<std::vector<FabricMap::MulticastArrival>> ports;
  };
  [[nodiscard]] bool update_addresses(Addresses& known, const hca::PacketHeader& header) const;
  [[nodiscard]] std::optional<uabi::RecordFault> validate_addresses(
      const hca::PacketHeader& header) const;

  std::array<Arrival, 2> arrivals_;
  Arrivals multicast_arrival_;  // for requests
};

inline bool Lane::send_fast(hca::Flow flow, const hca::SinglePacket& packet) {
  Out& out = this->out(flow);
  const FastPath& fast_path = out.fast_path;
  if (fast_path.route_key != hca::route_key_of(packet) ||
      fast_path.generation != map_.generation() ||
      !out.ring.put(hca::record_bytes(packet),
                    [&](std::byte* to) { hca::write_record(packet, to); })) [[unlikely]] {
    return false;
  }
  fast_path.counter->count(1, hca::single_length_words(opcode_of(packet), packet.payload.size()));
  return true;
}

}  // namespace weft::host
