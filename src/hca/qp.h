#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/process_slot.h"
#include "base/result.h"
#include "base/time.h"
#include "hca/packet.h"
#include "hca/qp_core.h"
#include "hca/types.h"

namespace weft::hca {

class Hca;

/// Queue pair (IBTA vol 1 §10.2.4): the unit of serialisation (docs/ARCHITECTURE.md, decision 6).
/// Any thread may call any public member, which takes the lock of the half concerned, or both, the
/// requester's first. Created and destroyed by Hca.
class Qp {
 public:
  Qp(Hca& hca, LockPolicy policy, std::unique_ptr<QpCore> core,
     std::unique_ptr<Transport> transport);
  ~Qp();

  [[nodiscard]] Qpn number() const { return core_->number; }
  /// The number by which packets call it: its own, unless it was created with another (R-QP-6).
  [[nodiscard]] Qpn external_number() const { return core_->external_number; }
  [[nodiscard]] QpType type() const { return core_->type; }
  /// Null unless this is an XRC target.
  [[nodiscard]] const XrcDomain* xrc_domain() const { return core_->xrcd; }

  // --- verbs
  /// Posts a send work request. Refused with the reason; nothing is posted then.
  Result<void> post_send(const SendWr& wr);
  /// Posts several: all of them, or none if any is refused.
  Result<void> post_send(std::span<const SendWr> wrs);
  /// post_send() and transmit() under one acquisition of the lock. True if more could be sent at
  /// once.
  Result<bool> post_and_transmit(const SendWr& wr, TransmitSink& sink, Instant now,
                                 unsigned budget);
  /// Posts a receive work request to the QP's own receive queue.
  Result<void> post_recv(const RecvWr& wr);
  /// Modify QP (hca/qp_state_table.h): `mask` says which attributes count. Refused as a whole.
  Result<void> modify(const QpAttributes& attributes, QpAttributeMask mask);
  /// The attributes as Query QP returns them.
  [[nodiscard]] QpAttributes query();
  /// The port that the QP uses; 0 in RESET.
  [[nodiscard]] PortNumber port() const {
    return PortNumber{port_.load(std::memory_order_acquire)};
  }

  // --- driver
  /// Handles a packet from the network. Its content is untrusted and fully checked.
  void handle_packet(const Packet& packet, Instant now);
  /// Handles expired timers; to be called at deadline().
  void handle_timeout(Instant now);

  /// Transmits up to `budget` packets or trains; true if more could be sent at once.
  bool transmit(TransmitSink& sink, Instant now, unsigned budget);
  /// The same for responses only, after packets were received: does not touch the requester's half.
  bool answer(TransmitSink& sink, unsigned budget);

  /// Lock-free hints, up to date after each call above: whether responses wait, whether transmit()
  /// would send something, and when handle_timeout() is due.
  [[nodiscard]] bool has_responses() const {
    return has_responses_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool needs_transmit() const {
    return needs_transmit_.load(std::memory_order_acquire) || has_responses();
  }
  [[nodiscard]] Instant deadline() const {
    return Instant{Duration::nanoseconds(deadline_ns_.load(std::memory_order_relaxed))};
  }

  /// The network dropped a packet of this QP or its answer, or the peer is gone: the next expiry of
  /// the retry timer counts (LossModel::Reliable).
  void report_loss();

  // For XRC targets (hca/xrc_relay.h).
  /// The driver's answer to HcaEvents::xrc_proxy_requested with that serial; nullopt if there is
  /// none.
  void handle_proxy(std::uint32_t slot, std::uint32_t serial, std::optional<Qpn> proxy);
  /// Process `slot` has closed the XRC domain or died.
  void handle_owner_gone(std::uint32_t slot);
  /// True if the target has a proxy, or has requested one, in process `slot`.
  [[nodiscard]] bool has_proxy_in(std::uint32_t slot);

  /// The port's LID, P_Key table or link has changed.
  void take_port(PortNumber port, const PortAttributes& attributes);

  /// Returns when every call that was inside at the time has left: the fence of deregistration.
  void pass_through() { const std::scoped_lock guard{requester_lock_, responder_lock_}; }

  /// The fence of a key that a work request or a peer's invalidation ends: on return, no responder
  /// of the HCA is inside a request that found the key good. For `half`, whose lock is held.
  void fence_key(Half half);
  /// The part of it that concerns this QP.
  void wait_for_responder();

  /// Aborts if an invariant is broken (hca/invariant.h).
  void check_invariants();

  /// For the transport: a packet was dropped because of its key.
  void report_bad_key(const PacketHeader& header, BadKey::Kind kind);

  void* user{};         ///< the C front end's object
  void* driver_data{};  ///< the driver's object: lane binding, timers

 private:
  friend class Hca;
  enum class Taken : std::uint8_t { Done, ProcessMigReq, ProxyResponse };
  [[nodiscard]] Taken take_packet(const Packet& packet, Instant now, bool checks_mig_req);
  [[gnu::cold, gnu::noinline]] void take_otherwise(Taken taken, const Packet& packet, Instant now);
  [[gnu::cold, gnu::noinline]] void process_mig_req(const Packet& packet);
  [[gnu::noinline]] Result<void> push(std::span<const SendWr> wrs);
  bool transmit_requests(TransmitSink& sink, Instant now, unsigned budget);
  bool transmit_answers(TransmitSink& sink, unsigned budget);
  class Hold;
  /// True if the packet may come from the peer's process; a slot of 0 means unknown.
  [[nodiscard]] bool is_of_peer(const Packet& packet) const {
    return packet.source_slot == 0 || packet.source_slot == slot_of(core_->attributes.dest_qpn);
  }
  void publish_port() { port_.store(core_->attributes.port.value(), std::memory_order_release); }
  void publish_requester(bool needs_transmit);
  void publish_responder(bool has_responses);
  void publish_hints() {
    publish_requester(transport_->needs_transmit());
    publish_responder(transport_->has_responses());
  }
  [[gnu::cold, gnu::noinline]] void enter_error_if_failing();
  [[gnu::noinline]] void flush_posted();
  void change_state(QpState from, QpState to);
  Result<void> load_alternate_path(QpAttributes& next, PacketRoute& route, PKey& pkey) const;

  Hca& hca_;
  std::unique_ptr<QpCore> core_;
  std::unique_ptr<Transport> transport_;
  const bool has_halves_;
  std::atomic<std::uint8_t> port_{0};  // attributes.port, for readers without a lock
  // Grouped by the half that writes them, on separate cache lines.
  alignas(64) PolicyLock requester_lock_;
  bool flushes_{};  // work requests posted now complete as flushed
  std::atomic<bool> needs_transmit_{false};
  std::atomic<std::int64_t> deadline_ns_{Instant::never().since_start().nanoseconds()};
  alignas(64) PolicyLock responder_lock_;
  std::atomic<bool> is_fencing_{false};  // who holds that lock waits in fence_key()
  std::atomic<bool> has_responses_{false};
};

}  // namespace weft::hca
