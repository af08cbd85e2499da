// Packets out: which lane, and what happens when it has no room.

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/live_bug.h"
#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "hca/wire_length.h"
#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {
namespace {

constexpr unsigned kPostBudget = 64;   // trains; policy
constexpr unsigned kResumeBudget = 4;  // trains a QP before the next one has its turn; policy

}  // namespace

/// Where the packets of one Qp::transmit call go. Holds on to the lane that it sends on, so that a
/// series costs one lock and one bell. Remembers what was lost and where there was no room.
class LaneSink final : public hca::TransmitSink {
 public:
  LaneSink(Process::Impl* process, QpDriverState& qp_state, Process::Impl::Allowed allowed)
      : process_(process), qp_state_(qp_state), allowed_(allowed) {}
  ~LaneSink() override { let_go(); }
  LaneSink(const LaneSink&) = delete;
  LaneSink& operator=(const LaneSink&) = delete;

  [[nodiscard]] std::uint32_t max_train_bytes() const override {
    const Lane* const lane = qp_state_.lane.load(std::memory_order_relaxed);
    return lane != nullptr ? lane->max_train_bytes() : kMaxTrainBytes;
  }

  [[nodiscard]] bool send(hca::Flow flow, const hca::PacketHeader& header,
                          std::span<const ByteSpan> gather) override;
  [[nodiscard]] bool send_fast(hca::Flow flow, const hca::SinglePacket& packet) override;
  [[nodiscard]] bool send_to_proxy(const hca::PacketHeader& header,
                                   std::span<const ByteSpan> gather) override;

  /// Rings the bell of what was sent since the last call, if any, and gives the lane free.
  void let_go() {
    if (held_ != nullptr) {
      release(*std::exchange(held_, nullptr));
    }
  }

  [[nodiscard]] bool has_loss() const { return has_loss_; }
  [[nodiscard]] bool has_sent() const { return has_sent_; }
  [[nodiscard]] Lane* blocked() const { return blocked_; }

 private:
  [[nodiscard, gnu::always_inline]] bool send_by(Lane& lane, hca::Flow flow,
                                                 const hca::PacketHeader& header,
                                                 std::span<const ByteSpan> gather);
  void hold(Lane& lane, hca::Flow flow);
  void release(Lane& lane);
  [[gnu::noinline]] Lane& lane_of_datagram(const hca::PacketHeader& header);
  [[gnu::noinline]] bool send_multicast(const hca::PacketHeader& header,
                                        std::span<const ByteSpan> gather);
  [[nodiscard]] bool is_allowed(hca::Flow flow, bool has_payload) const {
    using Allowed = Process::Impl::Allowed;
    return allowed_ == Allowed::Everything ||
           (flow == hca::Flow::Response && (allowed_ == Allowed::OnlyResponses || !has_payload));
  }

  Process::Impl* process_;
  QpDriverState& qp_state_;
  Process::Impl::Allowed allowed_;
  Lane* held_{};  // its out_lock of this flow is ours
  hca::Flow held_flow_{};
  Lane* blocked_{};
  bool is_rung_{true};  // nothing was sent on the held lane since its bell
  bool is_urgent_{};    // what was sent since then includes a one-sided request
  bool has_loss_{};
  bool has_sent_{};
  bool has_delayed_{};  // and nobody was told yet
};

void LaneSink::hold(Lane& lane, hca::Flow flow) {
  if (held_ != &lane || held_flow_ != flow) {
    let_go();
    lane.out_lock(flow).lock();
    held_ = &lane;
    held_flow_ = flow;
  }
}

void LaneSink::release(Lane& lane) {
  const bool is_due = !std::exchange(is_rung_, true);
  if (is_due) {
    lane.ring_doorbell(std::exchange(is_urgent_, false));
  }
  lane.out_lock(held_flow_).unlock();
  if (is_due && lane.is_to_self()) {
    process_->hand_over(lane);
  }
  if (std::exchange(has_delayed_, false)) {
    process_->schedule_release();
  }
}

bool LaneSink::send_multicast(const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  let_go();
  return process_->send_multicast(header, gather);
}

Lane& LaneSink::lane_of_datagram(const hca::PacketHeader& header) {
  if (!process_->knows_lane(qp_state_, header)) {
    let_go();
  }
  return process_->lane_of_packet(qp_state_, header);
}

bool LaneSink::send(hca::Flow flow, const hca::PacketHeader& header,
                    std::span<const ByteSpan> gather) {
  Lane* lane = qp_state_.lane.load(std::memory_order_acquire);
  if (!is_allowed(flow, !gather.empty())) {
    if (flow == hca::Flow::Response && lane != nullptr) {
      lane->queue.note_waiting_response();
    }
    return false;
  }
  if (header.dlid.is_multicast()) {
    return send_multicast(header, gather);
  }
  if (lane == nullptr) {
    lane = &lane_of_datagram(header);
  }
  return send_by(*lane, flow, header, gather);
}

/// Whoever may send nothing now, or to somebody else, is told by send().
[[gnu::flatten]] bool LaneSink::send_fast(hca::Flow flow, const hca::SinglePacket& packet) {
  Lane* const lane = qp_state_.lane.load(std::memory_order_acquire);
  if (lane == nullptr || !is_allowed(flow, !packet.payload.empty())) [[unlikely]] {
    return false;
  }
  hold(*lane, flow);
  if (!lane->send_fast(flow, packet)) [[unlikely]] {
    return false;
  }
  is_rung_ = false;
  is_urgent_ = is_urgent_ || (flow == hca::Flow::Request && is_one_sided(opcode_of(packet)));
  has_sent_ = true;
  return true;
}

bool LaneSink::send_to_proxy(const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  return send_by(lane_of_datagram(header), hca::Flow::Request, header, gather);
}

inline bool LaneSink::send_by(Lane& lane, hca::Flow flow, const hca::PacketHeader& header,
                              std::span<const ByteSpan> gather) {
  hold(lane, flow);
  const auto send = [&] {
    return lane.send(flow, header, gather, *process_->counters, process_->counters_lock);
  };
  SendOutcome outcome = send();
  if (outcome == SendOutcome::NoSpace &&
      process_->progress.shares_cpus.load(std::memory_order_relaxed) && lane.allow_growth(flow)) {
    outcome = send();
  }
  switch (outcome) {
    case SendOutcome::Sent:
      is_rung_ = false;
      is_urgent_ = is_urgent_ || is_one_sided(header.opcode);
      has_sent_ = true;
      if (header.packet_count > 1) {
        let_go();  // copying took a while: others have their turn, and the peer may begin
      }
      return true;
    case SendOutcome::Delayed:
      has_sent_ = has_delayed_ = true;
      return true;
    case SendOutcome::PartlyDelayed:
      has_sent_ = has_delayed_ = has_loss_ = true;
      return true;
    case SendOutcome::Lost:
      has_loss_ = true;
      return true;
    case SendOutcome::NoSpace:
      blocked_ = &lane;
      if (flow == hca::Flow::Response) {
        lane.queue.note_waiting_response();
      }
      return false;
  }
  return false;
}

/// The lane of a connected QP: to the process that its destination QPN names, on the node that owns
/// its DLID now.
void Process::Impl::bind(QpDriverState& qp_state) {
  if (qp_state.qp->type() == hca::QpType::Ud) {
    return;
  }
  const std::lock_guard guard{bind_lock};  // or an answer of older tables could come to stay
  const hca::QpAttributes attributes = qp_state.qp->query();
  auto node = map.node_of(attributes.address.dlid);
  if (!node && attributes.alternate_port.value() != 0) {
    node = map.node_of(attributes.alternate_address.dlid);  // the same, and it may go there
  }
  Lane& lane = node ? lanes.lane_to({*node, slot_of(attributes.dest_qpn)}, qp_state.qp->number(),
                                    attributes.dest_qpn)
                    : lanes.null_lane();
  if (qp_state.lane.load(std::memory_order_relaxed) == &lane) {
    return;
  }
  station::WaitQueue::leave(qp_state);
  for (CqDriverState* const cq : qp_state.cqs) {
    if (cq != nullptr && !cq->lanes.has(lane.number)) {
      cq->only_lane.store(cq->lanes.is_quiet() ? &lane : nullptr, std::memory_order_release);
      cq->lanes.add(lane.number);
    }
  }
  qp_state.lane.store(&lane, std::memory_order_release);
}

/// The tables changed: a LID may have come, or gone to another node. While it is quiesced no QP is
/// being destroyed.
void Process::Impl::bind_again() {
  const QuiesceGuard quiesced{*this};
  qps.for_each([this](hca::Qp& qp, QpDriverState& qp_state) {
    const hca::QpState state = qp.query().state;
    if (state == hca::QpState::Reset || state == hca::QpState::Init) {
      return;  // connected to nobody
    }
    const Lane* const before = qp_state.lane.load(std::memory_order_relaxed);
    bind(qp_state);
    if (qp_state.lane.load(std::memory_order_relaxed) != before) {
      settle(qp_state);
    }
  });
}

/// Whether lane_of_packet remembers the answer. Under the lock of the qp_state's QP.
bool Process::Impl::knows_lane(const QpDriverState& qp_state,
                               const hca::PacketHeader& header) const {
  return qp_state.newest_lane != nullptr && qp_state.newest_dlid == header.dlid &&
         qp_state.newest_qpn == header.dest_qp && qp_state.newest_generation == map.generation() &&
         qp_state.newest_lane->state() != LaneState::Dead;
}

/// Under the lock of the qp_state's QP.
Lane& Process::Impl::lane_of_packet(QpDriverState& qp_state, const hca::PacketHeader& header) {
  if (!knows_lane(qp_state, header)) {
    const std::uint64_t generation = map.generation();
    const auto node = map.node_of(header.dlid);
    qp_state.newest_qpn = header.dest_qp;
    qp_state.newest_lane = node ? &lanes.lane_to({*node, slot_of(header.dest_qp)},
                                                 qp_state.qp->number(), header.dest_qp)
                                : &lanes.null_lane();
    qp_state.newest_dlid = header.dlid;
    qp_state.newest_generation = generation;
  }
  return *qp_state.newest_lane;
}

/// What a QP may send on its lane: while others wait for it, nothing but acknowledgements. The rest
/// joins their queue, or who is asked most often would take all the room.
Process::Impl::Allowed Process::Impl::allowed_now(const QpDriverState& qp_state) {
  const Lane* const lane = qp_state.lane.load(std::memory_order_acquire);
  return lane != nullptr && lane->queue.has_waiters() && lane->state() == LaneState::Open
             ? Allowed::OnlyAcknowledgements
             : Allowed::Everything;
}

/// What a QP's transmit came to.
Process::Impl::Attempt Process::Impl::finish_attempt(QpDriverState& qp_state, LaneSink& sink,
                                                     bool has_more) {
  sink.let_go();
  if (sink.has_loss()) {
    qp_state.qp->report_loss();
  }
  return {.has_more = has_more, .has_sent = sink.has_sent(), .blocked = sink.blocked()};
}

Process::Impl::Attempt Process::Impl::attempt(QpDriverState& qp_state, Instant at, unsigned budget,
                                              Allowed allowed) {
  LaneSink sink{this, qp_state, allowed};
  const bool has_more = qp_state.qp->transmit(sink, at, budget);
  return finish_attempt(qp_state, sink, has_more);
}

void Process::Impl::wait_for_space(QpDriverState& qp_state, const Attempt& made) {
  Lane* const lane = made.blocked != nullptr ? made.blocked : qp_state.lane.load();
  join_queue(qp_state, lane != nullptr ? *lane : lanes.null_lane(), made.blocked != nullptr);
}

/// After requests came.
void Process::Impl::answer(QpDriverState& qp_state, unsigned budget) {
  if (!qp_state.qp->has_responses()) {
    return;
  }
  LaneSink sink{this, qp_state, allowed_now(qp_state)};
  const bool has_more = qp_state.qp->answer(sink, budget);
  const Attempt made = finish_attempt(qp_state, sink, has_more);
  if (made.has_more) {
    wait_for_space(qp_state, made);
  }
}

void Process::Impl::transmit_qp(QpDriverState& qp_state, Instant at, unsigned budget) {
  if (!qp_state.qp->needs_transmit()) {
    return;
  }
  const Attempt made = attempt(qp_state, at, budget, allowed_now(qp_state));
  if (made.has_more) {
    wait_for_space(qp_state, made);
  }
}

[[gnu::flatten]] Result<void> Process::Impl::post(QpDriverState& qp_state, const hca::SendWr& wr) {
  LaneSink sink{this, qp_state, allowed_now(qp_state)};
  const auto has_more = qp_state.qp->post_and_transmit(wr, sink, clock.read(), kPostBudget);
  if (!has_more) {
    return std::unexpected(has_more.error());
  }
  const Attempt made = finish_attempt(qp_state, sink, *has_more);
  if (made.has_more) {
    wait_for_space(qp_state, made);
    wake_thread();
  }
  arm(qp_state);
  return {};
}

/// Before a QP goes: acknowledgements of what it has received already, or the peer would take for
/// lost what its program has. Under a QuiesceGuard.
void Process::Impl::send_pending_responses(QpDriverState& qp_state) {
  Attempt made{.has_more = true, .has_sent = true, .blocked = nullptr};
  while (made.has_more && made.has_sent && made.blocked == nullptr) {
    made = attempt(qp_state, clock.read(), kPostBudget, Allowed::OnlyResponses);
  }
}

/// The queue of a dead lane is that of the one to nowhere, which every pass looks at.
void Process::Impl::join_queue(QpDriverState& qp_state, Lane& wanted, bool wants_space) {
  Lane& lane = wanted.state() != LaneState::Dead ? wanted : lanes.null_lane();
  lane.queue.join(qp_state, [&] {
    if (wants_space) {
      lane.request_space();
    }
  });
}

/// After every call of a QP that may have given it something to send or a new deadline.
void Process::Impl::settle(QpDriverState& qp_state) {
  if (qp_state.qp->needs_transmit()) {
    transmit_qp(qp_state, clock.read(), kPostBudget);
    if (waiting_count.load(std::memory_order_relaxed) != 0) {
      wake_thread();
    }
  }
  arm(qp_state);
}

void Process::Impl::arm_earlier(QpDriverState& qp_state) {
  const Instant deadline = qp_state.qp->deadline();
  const std::int64_t deadline_ns = deadline.since_start().nanoseconds();
  const std::int64_t armed_ns = qp_state.armed_ns.load(std::memory_order_relaxed);
  if (deadline_ns >= armed_ns) {
    return;  // it changed meanwhile
  }
  qp_state.armed_ns.store(deadline_ns, std::memory_order_relaxed);
  if (armed_ns != QpDriverState::kNotArmed) {
    timers.remove(qp_state);
  }
  if (timers.arm(qp_state, deadline)) {
    progress.sleeper.notify_deadline(deadline);
  }
}

/// Lets the QPs of one lane's wait queue send, when it is their turn.
class Process::Impl::QueueDriver {
 public:
  QueueDriver(Impl& process, Lane& lane, Instant at) : process_(process), lane_(lane), at_(at) {}

  [[nodiscard]] station::Turn take_turn(station::Waiter& waiter, Allowed allowed) {
    using Room = station::Turn::Room;
    QpDriverState& qp_state = qp_state_of(waiter);
    const Attempt made = process_.attempt(qp_state, at_, kResumeBudget, allowed);
    process_.arm(qp_state);
    blocked_ = made.blocked;
    return {.has_more = made.has_more,
            .has_sent = made.has_sent,
            .room = made.blocked == nullptr  ? Room::Found
                    : made.blocked == &lane_ ? Room::NoneHere
                                             : Room::NoneElsewhere};
  }
  void want_room() { lane_.request_space(); }
  void wait_elsewhere(station::Waiter& waiter) {
    process_.join_queue(qp_state_of(waiter), *blocked_, true);
  }
  void wait_again_if_needed(station::Waiter& waiter) {
    if (qp_state_of(waiter).qp->needs_transmit()) {
      process_.join_queue(qp_state_of(waiter), lane_, false);
    }
  }

 private:
  [[nodiscard]] static QpDriverState& qp_state_of(station::Waiter& waiter) {
    return static_cast<QpDriverState&>(waiter);
  }

  Impl& process_;
  Lane& lane_;
  const Instant at_;
  Lane* blocked_{};  // of the newest turn
};

bool Process::Impl::resume_waiting() {
  const std::lock_guard owner{progress.maintenance_owner};
  return resume_waiting_as_owner();
}

bool Process::Impl::resume_waiting_as_owner() {
  if (waiting_count.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  bool has_sent = false;
  const Instant at = os::now();
  const std::size_t count = lanes.count();
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes[i]->queue.has_waiters()) {
      QueueDriver driver{*this, *lanes[i], at};
      has_sent = lanes[i]->queue.serve(driver) || has_sent;
    }
  }
  return has_sent;
}

}  // namespace weft::host
