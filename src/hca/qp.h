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
#include "hca/port.h"
#include "hca/qp_core.h"
#include "hca/types.h"

namespace weft::hca {

class Hca;

/// Queue pair: the object that serialises (docs/ARCHITECTURE.md, decision 6). Every public member
/// takes the lock of the half that it concerns, or both, the requester's first; the two engines and
/// their shared core live inside. Created and destroyed by Hca.
class Qp {
 public:
  Qp(Hca& hca, LockPolicy policy, std::unique_ptr<QpCore> core,
     std::unique_ptr<Transport> transport);
  ~Qp();

  [[nodiscard]] Qpn number() const { return core_->number; }
  [[nodiscard]] QpType type() const { return core_->type; }
  /// Of an XRC target, else null.
  [[nodiscard]] const XrcDomain* xrc_domain() const { return core_->xrcd; }

  // --- verbs
  // -------------------------------------------------------------------------------------------------------
  Result<void> post_send(const SendWr& wr);
  /// Several at once: all of them, or none when one is refused.
  Result<void> post_send(std::span<const SendWr> wrs);
  /// post_send, then transmit, as one step. True when it could send more.
  Result<bool> post_and_transmit(const SendWr& wr, TransmitSink& sink, Instant now,
                                 unsigned budget);
  Result<void> post_recv(const RecvWr& wr);
  Result<void> modify(const QpAttributes& attributes, QpAttributeMask mask);
  [[nodiscard]] QpAttributes query();
  /// Where its packets come and go; 0 in RESET.
  [[nodiscard]] PortNumber port() const {
    return PortNumber{port_.load(std::memory_order_acquire)};
  }

  // --- driver
  // ------------------------------------------------------------------------------------------------------
  /// A packet for this QP from the network; foreign data, everything is checked.
  void handle_packet(const Packet& packet, Instant now);
  void handle_timeout(Instant now);

  /// Lets the QP send; false when it has nothing more to send now.
  bool transmit(TransmitSink& sink, Instant now, unsigned budget);
  /// The same for its answers alone, after packets came: touches nothing of the requester's.
  bool answer(TransmitSink& sink, unsigned budget);

  /// Cheap hints, valid after each call above: whether transmit would do something, and when
  /// handle_timeout is due.
  [[nodiscard]] bool has_responses() const {
    return has_responses_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool needs_transmit() const {
    return needs_transmit_.load(std::memory_order_acquire) || has_responses();
  }
  [[nodiscard]] Instant deadline() const {
    return Instant{Duration::nanoseconds(deadline_ns_.load(std::memory_order_relaxed))};
  }

  void report_loss();

  // Of an XRC target (hca/xrc_relay.h).
  /// What HcaEvents::xrc_proxy_requested asked for with that serial; nothing: there is none.
  void handle_proxy(std::uint32_t slot, std::uint32_t serial, std::optional<Qpn> proxy);
  /// That process has the domain open no more.
  void handle_owner_gone(std::uint32_t slot);
  [[nodiscard]] bool has_proxy_in(std::uint32_t slot);

  /// The port's LID, P_Key table or link is not what it was.
  void take_port(PortNumber port, const PortAttributes& attributes);

  /// Waits until no call that started before is inside (deregistration's fence).
  void pass_through() { const std::scoped_lock guard{requester_lock_, responder_lock_}; }

  void check_invariants();

  /// For its transport: a packet was dropped for its key.
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
  /// Of the peer's host, but perhaps not of its process.
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
  std::atomic<std::uint8_t> port_{0};  // attributes.port, for those without a lock
  // By who writes, on cache lines of their own.
  alignas(64) PolicyLock requester_lock_;
  bool flushes_{};  // what was posted last completes as flushed
  std::atomic<bool> needs_transmit_{false};
  std::atomic<std::int64_t> deadline_ns_{Instant::never().since_start().nanoseconds()};
  alignas(64) PolicyLock responder_lock_;
  std::atomic<bool> has_responses_{false};
};

}  // namespace weft::hca
