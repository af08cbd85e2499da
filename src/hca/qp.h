#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/result.h"
#include "base/time.h"
#include "hca/packet.h"
#include "hca/port.h"
#include "hca/qp_core.h"
#include "hca/types.h"

namespace weft::hca {

class Hca;

/// Queue pair: the object that serialises (DESIGN.md, decision 6). Every public member takes the
/// QP's lock; its two engines and their shared core live inside. Created and destroyed by Hca.
class Qp {
 public:
  Qp(Hca& hca, LockPolicy policy, std::unique_ptr<QpCore> core,
     std::unique_ptr<Transport> transport);
  ~Qp();

  [[nodiscard]] Qpn number() const { return core_->number; }
  [[nodiscard]] QpType type() const { return core_->type; }

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

  // --- driver
  // ------------------------------------------------------------------------------------------------------
  /// A packet for this QP from the network; foreign data, everything is checked.
  void handle_packet(const Packet& packet, Instant now);
  void handle_timeout(Instant now);

  /// Lets the QP send; false when it has nothing more to send now.
  bool transmit(TransmitSink& sink, Instant now, unsigned budget);

  /// Cheap hints, valid after each call above: whether transmit would do something, and when
  /// handle_timeout is due.
  [[nodiscard]] bool wants_transmit() const {
    return wants_transmit_.load(std::memory_order_acquire);
  }
  [[nodiscard]] Instant deadline() const {
    return Instant{Duration::nanoseconds(deadline_ns_.load(std::memory_order_relaxed))};
  }

  void report_loss();

  /// Waits until no call that started before is inside (deregistration's fence).
  void pass_through() { const std::lock_guard guard{lock_}; }

  void check_invariants();

  void* user{};     ///< the C front end's object
  void* carrier{};  ///< the driver's object: lane binding, timers

 private:
  friend class Hca;
  Result<void> push(std::span<const SendWr> wrs);
  void publish_hints() { publish_hints(transport_->wants_transmit()); }
  void publish_hints(bool wants_transmit);
  void change_state(QpState from, QpState to);

  Hca& hca_;
  PolicyLock lock_;
  std::unique_ptr<QpCore> core_;
  std::unique_ptr<Transport> transport_;
  std::atomic<bool> wants_transmit_{false};
  std::atomic<std::int64_t> deadline_ns_{Instant::never().since_start().nanoseconds()};
};

}  // namespace weft::hca
