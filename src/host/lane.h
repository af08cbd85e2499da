#pragma once

// One lane as this process has it (docs/ARCHITECTURE.md, decision 3): where packets of some of the
// QPs that are connected to one other process go out, and where that process's packets for them
// come in.
//
// Threading: each of the two outgoing rings has a lock, since requests and answers often come from
// different threads; so has the queue of those who wait. Each of the two incoming rings has an
// owner: one who takes from it, at a time.

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
#include "host/refusals.h"
#include "host/tap_set.h"
#include "ring/lane.h"
#include "station/wait_queue.h"
#include "uabi/messages.h"
#include "wire/opcode.h"

namespace weft::host {

class Lane;

/// What the driver keeps of a CQ; CompletionQueue::driver_data points to it. Who polls the CQ looks
/// at the lanes that can complete something there, and says at each that it does.
struct CqDriverState {
  ring::DoorbellBitmap lanes;          // of the connected QPs that complete there
  std::atomic<Lane*> only_lane{};      // of those, if there is just one
  std::atomic<bool> takes_all{false};  // datagrams come by any lane, and what XRC SRQs receive
  std::atomic<std::uint32_t> empty_polls{};  // polls since one found something
  std::atomic<std::uint32_t> polls{};        // a hint: two at a time may count as one
  hca::CompletionQueue* cq{};
  std::atomic<std::int64_t> event_due_ns{};  // of one that is held back
  std::atomic<bool> is_timed{};              // it stands in the heap of those
};

/// What the responder answers without the application: WRITE, READ, atomics.
[[nodiscard]] bool is_one_sided(wire::Opcode opcode);

/// What the driver keeps of a QP; Qp::driver_data points to it.
struct QpDriverState : station::Waiter {
  hca::Qp* qp{};
  std::uint32_t hca{};                            // counted from 0 within the host
  std::array<CqDriverState*, 2> cqs{};            // where it completes
  std::atomic<Lane*> lane{};                      // of a connected QP, from RTR on
  std::atomic<std::int64_t> armed_ns{kNotArmed};  // its entry in the timer heap

  // Of a UD QP, under the QP's lock: the lane of the newest destination.
  Lid newest_dlid;
  Qpn newest_qpn;
  std::uint64_t newest_generation{};
  Lane* newest_lane{};

  std::uint32_t seen_lost_answers{};  // when a timer of it expired last; the maintenance's owner's

  std::vector<Membership> memberships;  // of a UD QP; MulticastGroups changes them

  static constexpr std::int64_t kNotArmed = Instant::never().since_start().nanoseconds();
};

/// Counters of what is lost or damaged on one hop of a path; none where no rule does that.
struct HopLosses {
  fabric::PathEntry* lost{};
  fabric::PathEntry* damaged{};
};

/// A resolved path of this lane and its counter: one SLID, DLID and SL in one generation.
struct Route {
  std::uint64_t route_key{};  // hca::route_key_of
  std::uint64_t generation{};
  fabric::Path path;
  fabric::PathEntry* counter{};
  bool is_timed{};     // its packets take time or meet faults, or such are under way still
  LaneDelay* delay{};  // made with the first of them
  LaneDelay* late{};   // of packets that a fault holds back, so that others overtake them
  std::vector<HopLosses> losses;  // by hop, of a path with faults
};

enum class LaneState : std::uint8_t {
  Opening,  // the daemon was asked; packets wait
  Open,
  Dead,  // no such process, or it is gone; packets are lost
};

/// What became of a packet that was handed to a lane.
enum class SendOutcome : std::uint8_t {
  Sent,           // it lies in the ring
  Delayed,        // it is under way, for as long as its path takes
  PartlyDelayed,  // so are some packets of a train, or copies; others are lost
  Lost,
  NoSpace,
};

class Lane {
 public:
  static constexpr Duration kHeadOfQueueLifetime = Duration::milliseconds(1'074);  // HOQLife 18
  static constexpr Duration kReopenAfter = Duration::milliseconds(100);            // policy

  /// `index`: among the lanes of the pair. `waiting` counts who waits for room on any lane.
  Lane(std::uint32_t number, std::uint32_t index, uabi::ProcessAddress self,
       uabi::ProcessAddress peer, const FabricMap& map, TapSet& taps, LiveLinks& links,
       std::atomic<std::uint32_t>& waiting);

  /// Which of its pair's lanes a QP pair is bound to: both processes find the same.
  [[nodiscard]] static std::uint32_t index_for(uabi::ProcessAddress self, Qpn own,
                                               uabi::ProcessAddress peer, Qpn other);

  const std::uint32_t number;  // among the lanes of this process
  const std::uint32_t index;
  const uabi::ProcessAddress self;
  const uabi::ProcessAddress peer;

  // --- sending

  PolicyLock& out_lock(hca::Flow flow) { return out(flow).lock; }

  station::WaitQueue queue;  // of QPs that found no room, and of those behind them

  [[nodiscard]] LaneState state() const { return state_.load(std::memory_order_acquire); }

  /// Puts a packet or train into the ring, or loses it as its path says. `page` opens counters.
  /// With the flow's out_lock.
  [[nodiscard]] SendOutcome send(hca::Flow flow, const hca::PacketHeader& header,
                                 std::span<const ByteSpan> gather, fabric::CounterPage& page,
                                 PolicyLock& page_lock) {
    return send_on(out(flow), header, gather, page, page_lock);
  }

  /// The same for a packet whose way is the newest one of send(), and has nothing to say
  /// (hca::TransmitSink::send_fast). With the flow's out_lock.
  [[nodiscard, gnu::always_inline]] bool send_fast(hca::Flow flow, const hca::SinglePacket& packet);

  /// There was no room: true if the ring may grow from now on, and did not so far. With the flow's
  /// out_lock.
  [[nodiscard]] bool allow_growth(hca::Flow flow) { return out(flow).ring.allow_growth(); }

  /// A multicast copy: no path, no counter, no waiting. False: no room, or nobody there. With the
  /// out_lock of requests.
  [[nodiscard]] bool send_copy(const hca::PacketHeader& header, std::span<const ByteSpan> gather);

  /// The same, of a copy that takes time, and is held back for more of it.
  [[nodiscard]] bool delay_copy(const hca::PacketHeader& header, std::span<const ByteSpan> gather,
                                const fabric::Transit& transit, Duration held_back);

  /// Longest train that its paths should carry at once, as far as they are known.
  [[nodiscard]] std::uint32_t max_train_bytes() const {
    return max_train_bytes_.load(std::memory_order_relaxed);
  }

  /// Moves what has arrived by `now` into the ring; true if anything was. `delay` is one of this
  /// lane's and was taken from LiveLinks::due.
  bool release(LaneDelay& delay, Instant now);
  /// Tries again where there was no room.
  bool release_blocked(Instant now);

  /// After the last packet of a series, with the same hold of an out_lock: wakes the peer if it
  /// does not look. `is_urgent`: a one-sided request was among them, which wakes one who naps, too.
  void ring_doorbell(bool is_urgent);

  [[nodiscard]] bool is_to_self() const { return peer == self; }

  /// Whether the peer has read and answered all that was sent to it; what is under way it has not.
  /// A dead peer has.
  [[nodiscard]] bool is_drained();

  /// Whether a packet of this QP, or an answer to one, may be lost: all was read and nothing has
  /// come, or answers on this lane were lost since it was asked last.
  [[nodiscard]] bool may_have_lost(QpDriverState& qp_state);

  /// With the lock of the queue.
  void request_space();

  // --- life

  /// From now on packets flow, by memory that is joined and outlives this.
  void open(const PairMemory& memory, ring::LaneSide side);
  /// A lane to this process itself, in memory that was not joined.
  void open_to_self(const PairMemory& memory);
  /// Whoever calls owns both incoming rings and has drained them. What waited for room goes to
  /// `heir`.
  void close(Lane& replacement);
  void close_permanently() { state_.store(LaneState::Dead, std::memory_order_release); }
  /// Dead for a while: true if the daemon should be asked again.
  [[nodiscard]] bool try_reopen();

  // --- receiving

  /// A ring that packets come in by, and whose it is. What lies here is the owner's, of a lane that
  /// is open.
  struct alignas(64) In {
    PolicyLock owner{LockPolicy::Spin};
    ring::Consumer<> ring;
    hca::Packet packet;  // the one that is being delivered

    /// Whether something lies in the ring: for anybody, who then becomes the owner and looks again.
    /// While the owner goes on, the word may belong to a body that is just written; the thread
    /// sanitizer, who takes that for a race, looks away.
    [[nodiscard, gnu::no_sanitize_thread]] bool has_record() const {
      const void* const word = next_word_.load(std::memory_order_acquire);
      return word != nullptr && __atomic_load_n(static_cast<const std::uint32_t*>(word),
                                                __ATOMIC_RELAXED) != ring::kNoRecord;
    }
    /// The owner has taken something, or has made the ring: where the news will be from now on.
    void publish_next_word() { next_word_.store(ring.next_word(), std::memory_order_release); }

   private:
    std::atomic<const std::byte*> next_word_{};  // in memory that stays (PairMemory)
  };
  [[nodiscard]] In& in(hca::Flow flow) { return ins_[index_of(flow)]; }
  [[nodiscard]] bool has_record() const { return ins_[0].has_record() || ins_[1].has_record(); }
  /// The peer waits for room in one of these rings; a hint, for anybody.
  [[nodiscard]] bool space_is_wanted() const {
    const LaneHead* const head = this->head();
    return head != nullptr &&
           head->wants_space[peer_side()].value.load(std::memory_order_relaxed) != 0;
  }

  /// Who takes what comes by this lane (docs/ARCHITECTURE.md, decision 4).
  struct PollingTurns {
    alignas(64) std::atomic<std::uint64_t> polls{0};  // of the application, for what comes by here
    alignas(64) std::atomic<bool> thread_is_hot{false};
    std::atomic<bool> sends_wait{false};  // the hot thread leaves a SEND to the application
    // What the thread saw of `polls` when it looked last; its own.
    std::uint64_t seen_polls{};
    Instant polled_at{};
    bool polls_now{};        // SENDs are the application's business
    bool polled_recently{};  // so are answers
  };
  PollingTurns turns;

  // What follows is for owners.

  /// After records were taken, or none were there: wakes a peer that waits for room.
  void signal_space();
  void announce_sleep(ring::Sleep sleep);
  /// Whether this process looks at the lane, as the peer reads it; null for a lane to itself.
  [[nodiscard]] ring::Attention* own_attention() const;
  /// Nobody here looks at this lane, and the peer has said since that somebody must.
  [[nodiscard]] bool has_doorbell() const;

  /// The port at which a packet from this lane arrives, if its addresses are what the lane's owner
  /// may use: SLID, SGID and P_Key of the peer's node, DLID of ours (docs/ARCHITECTURE.md, decision
  /// 11).
  [[nodiscard]] const FabricMap::LocalPort* arrival(hca::Flow flow,
                                                    const hca::PacketHeader& header);
  /// Why arrival() just said no.
  [[nodiscard]] uabi::RecordFault fault(hca::Flow flow) const {
    return arrivals_[index_of(flow)].fault;
  }
  /// The ports at which a multicast packet from this lane arrives, with the ownership of requests;
  /// nothing, and multicast_fault() says why, if its owner may not send it.
  [[nodiscard]] const std::vector<FabricMap::MulticastArrival>* multicast_arrivals(
      const hca::PacketHeader& header);
  [[nodiscard]] uabi::RecordFault multicast_fault() const { return multicast_arrival_.fault; }

  Refusals refusals;

 private:
  /// A way that packets may go without a look at it: the addresses and tables that it was seen
  /// open with. send() says so of each packet that it put into the ring and that took no time, met
  /// no capture and had not waited for room; whatever changes that but new tables, takes it back.
  struct FastPath {
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // more than LIDs and SL
    std::uint64_t route_key{kNone};
    std::uint64_t generation{};
    fabric::PathEntry* counter{};
  };

  /// One outgoing ring. The routes and counters of its packets are its own, so that the senders of
  /// the two share no cache line.
  struct alignas(64) Out {
    PolicyLock lock{LockPolicy::Spin};
    ring::Producer<> ring;
    FastPath fast_path;
    Route* newest_route{};
    Instant full_since{Instant::never()};
    std::vector<std::unique_ptr<Route>> routes;
    std::vector<std::unique_ptr<LaneDelay>> delays;
    LaneDelay* copies{};                    // of multicast packets
    LaneDelay* late_copies{};               // those that a fault holds back
    std::size_t delayed{};                  // packets in all of them
    std::atomic<std::uint32_t> blocked{0};  // so many of them are; changed under the lock
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

  /// The words that both processes see, for anybody; null before the lane was open.
  [[nodiscard]] LaneHead* head() const { return head_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t own_side() const { return own_side_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t peer_side() const { return 1 - own_side(); }

  const FabricMap& map_;
  TapSet& taps_;
  LiveLinks& links_;
  std::atomic<std::uint32_t> max_train_bytes_{kMaxTrainBytes};
  std::atomic<LaneState> state_{LaneState::Opening};
  std::atomic<LaneHead*> head_{};        // once open, for good; none to self
  std::atomic<std::size_t> own_side_{};  // when it opens again, it may be the other one
  AttentionPage* peer_attention_{};
  std::array<Out, 2> outs_;  // requests, responses
  std::array<In, 2> ins_;
  std::atomic<std::int64_t> died_at_ns_{};

  /// What was found out about the newest addresses.
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
  Arrivals multicast_arrival_;  // of requests
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
