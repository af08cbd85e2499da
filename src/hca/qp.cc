#include "hca/qp.h"

#include <limits>

#include "hca/hca.h"
#include "hca/qp_state_table.h"
#include "hca/wr_kind.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

[[nodiscard]] std::uint64_t total_length(std::span<const Sge> sges) {
  std::uint64_t length = 0;
  for (const Sge& sge : sges) {
    length += sge.length;
  }
  return length;
}

/// Checks the operands of a FLUSH, which carries no data (annex A19).
Result<void> check_flush(const SendWr& wr) {
  constexpr std::uint8_t kKnown = wire::kPlacementGlobal | wire::kPlacementPersistent;
  if (!wr.sges.empty()) {
    return fail(ErrorCode::InvalidArgument, "a FLUSH carries no data, and brings none back");
  }
  if (wr.flush.placement == 0 || (wr.flush.placement & ~kKnown) != 0 ||
      wr.flush.selectivity > wire::FlushSelectivity::Region) {
    return fail(
        ErrorCode::InvalidArgument,
        "a FLUSH asks for global visibility (1), persistence (2) or both, of a range (0) or "
        "a memory region (1): not for placement {:#x} and selectivity {}",
        wr.flush.placement, static_cast<unsigned>(wr.flush.selectivity));
  }
  if (wr.flush.selectivity == wire::FlushSelectivity::Range && wr.flush.length > 1U << 31) {
    return fail(ErrorCode::InvalidArgument, "a FLUSH of {} bytes; at most 2^31", wr.flush.length);
  }
  return {};
}

Result<void> check_lengths(const QpCore& core, const SendWr& wr, const DeviceLimits& limits) {
  const std::uint64_t length = total_length(wr.sges);
  if (wr.flags.has(Send::Inline)) {
    if (has(wr.opcode, WrTrait::TakesResponse)) {
      return fail(ErrorCode::InvalidArgument,
                  "a READ or atomic brings data back; it cannot be inline");
    }
    if (length > core.send_queue.max_inline_bytes()) {
      return fail(ErrorCode::InvalidArgument,
                  "{} bytes inline, the QP was created with max_inline_data {}", length,
                  core.send_queue.max_inline_bytes());
    }
  } else if (wr.sges.size() > core.send_queue.max_sge()) {
    return fail(ErrorCode::InvalidArgument, "{} SGEs, the QP was created with max_send_sge {}",
                wr.sges.size(), core.send_queue.max_sge());
  }
  if (length > limits.max_message_bytes) {
    return fail(ErrorCode::InvalidArgument, "a message of {} bytes; a port here carries at most {}",
                length, limits.max_message_bytes);
  }
  if (wr.opcode == WrOpcode::AtomicWrite && !wr.sges.empty()) {
    return fail(ErrorCode::InvalidArgument, "an ATOMIC WRITE carries its eight bytes itself");
  }
  if (wr.opcode == WrOpcode::Flush) {
    return check_flush(wr);
  }
  if (has(wr.opcode, WrTrait::Atomic) && length != 8) {
    return fail(ErrorCode::InvalidArgument,
                "an atomic's SGE must take the 8 bytes of the original value, not {}", length);
  }
  return {};
}

// Which mistakes in a send work request are refused when it is posted, and which its completion
// reports. The man page leaves this open; the specification has immediate results of Post Send
// Request (IBTA vol 1 §11.4.1.1) and completion statuses (§11.6.2). tests/verbs/post_error_test.cc
// provokes each.
//
//   mistake                                       result                                reported by
//   an operation that the service type lacks      invalid operation type                EINVAL
//   too many SGEs, a message above 2^31 bytes,
//   an atomic whose SGEs are not 8 bytes          invalid scatter/gather list           EINVAL
//   an address handle of another PD               invalid address handle; §10.2.2 lets  EINVAL
//                                                 a local QP operation error do as well
//   the QP is in RESET, INIT or RTR               invalid QP state                      EINVAL
//   the send queue is full                        too many work requests                ENOMEM
//   a datagram above the MTU                      local length error                    completion
//   an L_Key that does not open an SGE            local protection error                completion
//   a key that cannot be bound or invalidated     memory window bind error, local       completion
//                                                 protection error
Result<void> check_send(const QpCore& core, const SendWr& wr, const DeviceLimits& limits) {
  const QpState state = core.state();
  if (state == QpState::Reset || state == QpState::Init || state == QpState::Rtr) {
    return fail(ErrorCode::InvalidArgument,
                "a send cannot be posted in {}: move the QP to RTS first", name_of(state));
  }
  if (!is_offered(core.type, wr.opcode)) {
    return fail(ErrorCode::InvalidArgument, "a {} QP does not offer work request opcode {}",
                name_of(core.type), static_cast<unsigned>(wr.opcode));
  }
  if (core.type == QpType::Ud) {
    if (wr.ah == nullptr && state == QpState::Err) {
      return check_lengths(core, wr, limits);  // it is flushed at once: a marker
    }
    if (wr.ah == nullptr) {
      return fail(ErrorCode::InvalidArgument, "a UD send needs an address handle");
    }
    if (&wr.ah->pd() != &core.pd) {
      return fail(ErrorCode::InvalidArgument,
                  "the address handle belongs to another PD than the QP");
    }
  }
  if ((wr.binding != nullptr) != (wr.opcode == WrOpcode::BindMemoryWindow)) {
    return fail(ErrorCode::InvalidArgument,
                "a bind work request, and no other, says what its window shall show");
  }
  if (wr.registers != (wr.opcode == WrOpcode::RegisterMemory)) {
    return fail(ErrorCode::InvalidArgument, "programs register memory by calls, not by requests");
  }
  return check_lengths(core, wr, limits);
}

/// Fast path of check_send() for the most frequent work requests, including room in the queue.
/// False if the request is of another kind or breaks a rule.
[[nodiscard]] bool is_basic(const QpCore& core, const SendWr& wr, const DeviceLimits& limits) {
  const SendQueue& queue = core.send_queue;
  const bool is_inline = wr.flags.has(Send::Inline);
  const std::uint64_t length = wr.sges.empty() ? 0 : wr.sges.front().length;
  const std::uint64_t most = is_inline ? queue.max_inline_bytes() : limits.max_message_bytes;
  return core.has_fast_path && core.state() == QpState::Rts && core.type == QpType::Rc &&
         static_cast<std::size_t>(wr.opcode) < kWrKindCount && has(wr.opcode, WrTrait::Plain) &&
         wr.binding == nullptr && wr.sges.size() <= 1 &&
         (is_inline || wr.sges.size() <= queue.max_sge()) && length <= most && !queue.is_full();
}

/// Sink for a QP without a valid P_Key: no packet may leave (IBTA vol 1 §10.9.2), and to the engine
/// they look lost.
class Discard final : public TransmitSink {
 public:
  explicit Discard(const TransmitSink& instead_of)
      : max_train_bytes_(instead_of.max_train_bytes()) {}
  [[nodiscard]] std::uint32_t max_train_bytes() const override { return max_train_bytes_; }
  [[nodiscard]] bool send(Flow /*flow*/, const PacketHeader& /*header*/,
                          std::span<const ByteSpan> /*gather*/) override {
    return has_loss_ = true;
  }
  [[nodiscard]] bool has_loss() const { return has_loss_; }

 private:
  std::uint32_t max_train_bytes_;
  bool has_loss_{};
};

}  // namespace

/// Holds the lock of one half, or both locks if the halves are not separate. On destruction it acts
/// on a failure that the half found, with both locks.
class Qp::Hold {
 public:
  [[gnu::always_inline]] Hold(Qp& qp, Half half) : qp_(qp), half_(half) {
    if (!qp.has_halves_) [[unlikely]] {
      qp.requester_lock_.lock();
      qp.responder_lock_.lock();
    } else {
      own_lock().lock();
    }
  }
  [[gnu::always_inline]] ~Hold() {
    const bool is_failing = qp_.core_->is_failing(half_);
    if (!qp_.has_halves_) [[unlikely]] {
      qp_.responder_lock_.unlock();
      qp_.requester_lock_.unlock();
    } else {
      own_lock().unlock();
    }
    if (is_failing) [[unlikely]] {
      qp_.enter_error_if_failing();
    }
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  [[nodiscard]] PolicyLock& own_lock() const {
    return half_ == Half::Requester ? qp_.requester_lock_ : qp_.responder_lock_;
  }

  Qp& qp_;
  const Half half_;
};

Qp::Qp(Hca& hca, LockPolicy policy, std::unique_ptr<QpCore> core,
       std::unique_ptr<Transport> transport)
    : hca_(hca),
      core_(std::move(core)),
      transport_(std::move(transport)),
      has_halves_(transport_->has_halves()),
      requester_lock_(policy),
      responder_lock_(policy) {
  core_->owner = this;
  core_->transport = transport_.get();
}

Qp::~Qp() = default;

void Qp::enter_error_if_failing() {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  core_->enter_error_if_failing();
  publish_port();
  publish_hints();
}

Result<void> Qp::post_send(const SendWr& wr) { return post_send({&wr, 1}); }

Result<void> Qp::post_send(std::span<const SendWr> wrs) {
  {
    const Hold hold{*this, Half::Requester};
    auto pushed = push(wrs);
    publish_requester(transport_->needs_transmit());
    if (!pushed || !flushes_) {
      return pushed;
    }
  }
  flush_posted();
  return {};
}

Result<bool> Qp::post_and_transmit(const SendWr& wr, TransmitSink& sink, Instant now,
                                   unsigned budget) {
  {
    const Hold hold{*this, Half::Requester};
    if (is_basic(*core_, wr, hca_.configuration().limits)) [[likely]] {
      core_->send_queue.push_plain(wr);
      flushes_ = false;
    } else if (auto pushed = push({&wr, 1}); !pushed) {
      return std::unexpected(std::move(pushed.error()));
    }
    if (!flushes_) [[likely]] {
      const bool more = transmit_requests(sink, now, budget);
      publish_requester(more);
      return more;
    }
  }
  flush_posted();
  return false;
}

/// Work requests posted in ERR or SQE complete at once as flushed (IBTA vol 1 §10.3.1).
void Qp::flush_posted() {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  if (core_->state() == QpState::Err || core_->state() == QpState::Sqe) {
    core_->explain_flush();
    while (!core_->send_queue.is_empty()) {
      core_->complete_head(WcStatus::WorkRequestFlushed);
    }
    transport_->on_state_change(core_->state(), core_->state());
    core_->enter_error_if_failing();
  }
  flushes_ = false;
  publish_hints();
}

Result<void> Qp::push(std::span<const SendWr> wrs) {
  for (const SendWr& wr : wrs) {
    if (auto checked = check_send(*core_, wr, hca_.configuration().limits); !checked) {
      return checked;
    }
  }
  if (wrs.size() > core_->send_queue.room()) {
    return fail(ErrorCode::OutOfMemory,
                "the send queue has no room for {} work requests: {} of {} are not complete yet",
                wrs.size(), core_->send_queue.depth() - core_->send_queue.room(),
                core_->send_queue.depth());
  }
  for (const SendWr& wr : wrs) {
    core_->send_queue.push(wr);
    if ((wr.remote_qkey.value() & 0x8000'0000) != 0 &&
        core_->type == QpType::Ud) {  // R-QP-7, IBTA vol 1 §10.2.5
      core_->send_queue.address(core_->send_queue.tail() - 1).remote_qkey = core_->attributes.qkey;
    }
  }
  flushes_ = core_->state() == QpState::Err || core_->state() == QpState::Sqe;
  return {};
}

Result<void> Qp::post_recv(const RecvWr& wr) {
  {
    const Hold hold{*this, Half::Responder};
    if (is_xrc(core_->type)) {
      return fail(ErrorCode::InvalidArgument,
                  "an {} QP has no receive queue: post to the XRC SRQ that senders name",
                  name_of(core_->type));
    }
    if (core_->srq != nullptr) {
      return fail(ErrorCode::InvalidArgument, "the QP takes its receives from an SRQ: post there");
    }
    if (core_->scaling.table != nullptr) {
      return fail(ErrorCode::InvalidArgument,
                  "the QP receives through an indirection table: post to its work queues");
    }
    if (core_->state() == QpState::Reset) {
      return fail(ErrorCode::InvalidArgument,
                  "a receive cannot be posted in RESET: move the QP to INIT first");
    }
    if (auto pushed = core_->receive_queue.push(wr); !pushed) {
      return pushed;
    }
    if (core_->state() != QpState::Err) {
      return {};
    }
  }
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  if (core_->state() == QpState::Err) {
    core_->explain_flush();
    core_->flush();
  }
  return {};
}

QpAttributes Qp::query() {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  QpAttributes attributes = core_->attributes;
  attributes.current_state = attributes.state;
  return attributes;
}

void Qp::handle_packet(const Packet& packet, Instant now) {
  if (const Taken taken = take_packet(packet, now, false); taken != Taken::Done) [[unlikely]] {
    take_otherwise(taken, packet, now);
  }
}

/// Slow path of handle_packet: a packet that may change the migration state concerns both halves,
/// and is handled again afterwards. A response to an XRC target, which has no requester, is a
/// proxy's and concerns the responder.
void Qp::take_otherwise(Taken taken, const Packet& packet, Instant now) {
  if (taken == Taken::ProcessMigReq) {
    process_mig_req(packet);
    static_cast<void>(take_packet(packet, now, true));
    return;
  }
  const Hold hold{*this, Half::Responder};
  if (!core_->pkey.matches(packet.header.pkey)) {
    report_bad_key(packet.header, BadKey::Kind::PKey);
    return;
  }
  transport_->handle_proxy_response(packet);
  publish_responder(transport_->has_responses());
}

/// Caller must hold the lock of a half.
void Qp::report_bad_key(const PacketHeader& header, BadKey::Kind kind) {
  const bool is_datagram = core_->type == QpType::Ud;
  BadKey bad{.kind = kind,
             .port = core_->attributes.port,
             .source = header.slid,
             .destination = header.dlid,
             .sl = header.sl,
             .source_qp = is_datagram ? header.extension.deth.src_qp : Qpn{},
             .destination_qp = core_->number,
             .source_gid = header.has_grh ? header.grh.sgid : Gid{},
             .key = header.pkey.value()};
  if (kind == BadKey::Kind::QKey) {
    bad.key = header.extension.deth.qkey.value();
  }
  hca_.report_bad_key(bad);
}

/// Returns ProcessMigReq without having done anything if the packet's MigReq bit must be handled
/// first.
Qp::Taken Qp::take_packet(const Packet& packet, Instant now, bool checks_mig_req) {
  const wire::OpcodeInfo* info = wire::opcode_info(packet.header.opcode);
  const Half half =
      info != nullptr && wire::is_response(info->operation) ? Half::Requester : Half::Responder;
  const Hold hold{*this, half};
  if (info != nullptr && info->transport != core_->wire_transport) {
    return Taken::Done;
  }
  if (core_->type == (half == Half::Responder ? QpType::XrcInitiator : QpType::XrcTarget)) {
    // annex A14: this type has no such half
    return half == Half::Requester ? Taken::ProxyResponse : Taken::Done;
  }
  if (core_->may_change_migration(packet.header) && !checks_mig_req) [[unlikely]] {
    return Taken::ProcessMigReq;
  }
  // §9.6.1.1: the P_Key, then for a connected QP the peer's address.
  const bool is_same_pkey = core_->pkey == packet.header.pkey && core_->pkey.is_full_member();
  if (!(is_same_pkey && core_->pkey.is_valid()) && !core_->pkey.matches(packet.header.pkey)) {
    report_bad_key(packet.header, BadKey::Kind::PKey);
    return Taken::Done;
  }
  if (core_->type != QpType::Ud) {
    const AddressVector& address = core_->attributes.address;
    if (!is_of_peer(packet)) {
      return Taken::Done;
    }
    if (packet.header.slid != core_->route.dlid || (address.is_global && packet.header.has_grh &&
                                                    packet.header.grh.sgid != address.grh.dgid)) {
      return Taken::Done;
    }
  }
  transport_->handle_packet(packet, now);
  if (half == Half::Requester || !has_halves_) {
    publish_requester(transport_->needs_transmit());
  }
  if (half == Half::Responder) {
    publish_responder(transport_->has_responses());
  }
  return Taken::Done;
}

void Qp::handle_timeout(Instant now) {
  const Hold hold{*this, Half::Requester};
  transport_->handle_timeout(now);
  publish_requester(transport_->needs_transmit());
}

bool Qp::transmit_requests(TransmitSink& sink, Instant now, unsigned budget) {
  if (core_->pkey.is_valid()) [[likely]] {
    return transport_->transmit(sink, now, budget);
  }
  Discard discard{sink};
  const bool more = transport_->transmit(discard, now, budget);
  if (discard.has_loss()) {
    transport_->on_loss();
  }
  return more;
}

bool Qp::transmit_answers(TransmitSink& sink, unsigned budget) {
  if (core_->pkey.is_valid()) [[likely]] {
    return transport_->transmit_answers(sink, budget);
  }
  Discard discard{sink};
  return transport_->transmit_answers(discard, budget);
}

bool Qp::answer(TransmitSink& sink, unsigned budget) {
  const Hold hold{*this, Half::Responder};
  const bool more = transmit_answers(sink, budget);
  publish_responder(more);
  return more;
}

bool Qp::transmit(TransmitSink& sink, Instant now, unsigned budget) {
  bool more = has_responses() && answer(sink, budget);
  if (needs_transmit_.load(std::memory_order_acquire)) {
    const Hold hold{*this, Half::Requester};
    const bool more_requests = transmit_requests(sink, now, budget);
    publish_requester(more_requests);
    more = more || more_requests;
  }
  return more;
}

void Qp::report_loss() {
  const Hold hold{*this, Half::Requester};
  transport_->on_loss();
}

void Qp::handle_proxy(std::uint32_t slot, std::uint32_t serial, std::optional<Qpn> proxy) {
  const Hold hold{*this, Half::Responder};
  transport_->handle_proxy(slot, serial, proxy);
  publish_responder(transport_->has_responses());
}

void Qp::handle_owner_gone(std::uint32_t slot) {
  const Hold hold{*this, Half::Responder};
  transport_->handle_owner_gone(slot);
  publish_responder(transport_->has_responses());
}

bool Qp::has_proxy_in(std::uint32_t slot) {
  const Hold hold{*this, Half::Responder};
  return transport_->has_proxy_in(slot);
}

/// Two QPs that end keys may hold their responders' locks and wait for each other, which is no
/// request that uses a key.
void Qp::fence_key(Half half) {
  const bool holds_responder = half == Half::Responder || !has_halves_;
  if (holds_responder) {  // the flag is of that lock: the requester's half must not clear it
    is_fencing_.store(true, std::memory_order_seq_cst);
  }
  hca_.wait_for_responders();
  if (holds_responder) {
    is_fencing_.store(false, std::memory_order_release);
  }
}

void Qp::wait_for_responder() {
  SpinWait spin;
  while (!responder_lock_.try_lock()) {
    if (is_fencing_.load(std::memory_order_acquire)) {
      return;
    }
    spin.pause();
  }
  responder_lock_.unlock();
}

void Qp::check_invariants() {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  transport_->check_invariants();
}

/// Other threads read the hints constantly, so they are written only when they change.
void Qp::publish_requester(bool needs_transmit) {
  if (needs_transmit_.load(std::memory_order_relaxed) != needs_transmit) {
    needs_transmit_.store(needs_transmit, std::memory_order_release);
  }
  const std::int64_t deadline_ns = transport_->deadline().since_start().nanoseconds();
  if (deadline_ns_.load(std::memory_order_relaxed) != deadline_ns) {
    deadline_ns_.store(deadline_ns, std::memory_order_relaxed);
  }
}

void Qp::publish_responder(bool has_responses) {
  if (has_responses_.load(std::memory_order_relaxed) != has_responses) {
    has_responses_.store(has_responses, std::memory_order_release);
  }
}

}  // namespace weft::hca
