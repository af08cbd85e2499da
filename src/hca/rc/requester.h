#pragma once

#include <cstdint>
#include <string_view>

#include "base/serial.h"
#include "base/time.h"
#include "hca/atomic_operation.h"
#include "hca/hca.h"
#include "hca/packet.h"
#include "hca/placement.h"
#include "hca/qp_core.h"
#include "hca/rc/credits.h"
#include "hca/rc/placement_choice.h"

namespace weft::hca {

/// The requester half of an RC QP (IBTA vol 1 §9.7.2, §9.7.5): turns send WQEs into request
/// packets, and ACKs, NAKs and responses into completions, in send-queue order. Guarded by the
/// requester's lock of the QP.
///
/// Send WQEs [head, next_new_) have PSNs. Of these, everything before the cursor (cursor_,
/// cursor_packet_) has been sent. A retry moves the cursor back; there is no other retransmission
/// state.
class RcRequester {
 public:
  RcRequester(QpCore& core, LossModel loss_model) : core_(core), loss_model_(loss_model) {}

  void start();  ///< the QP entered RTS from RTR
  void stop();   ///< the QP entered ERR or RESET

  /// Handles an acknowledgement or response packet from the peer.
  void handle_response(const Packet& packet, Instant now);
  /// Handles the retry timer or the end of an RNR wait, whichever is due.
  void handle_timeout(Instant now);
  /// Transmits requests, at most `budget` calls of sink.send; true if more could be sent at once.
  bool transmit(TransmitSink& sink, Instant now, unsigned& budget);
  /// A packet or its answer was lost: under LossModel::Reliable the next expiry of the retry timer
  /// counts.
  void on_loss() { loss_known_ = true; }
  /// Retries on the previous path do not count, whichever side migrated.
  void on_migration() { retries_left_ = core_.attributes.retry_count; }

  /// True if transmit() would send a packet, or execute a local operation.
  [[nodiscard]] bool needs_transmit() const {
    return cursor_ != core_.send_queue.tail() &&
           may_transmit();  // the second operand is costlier and seldom needed
  }
  [[nodiscard]] Instant deadline() const { return retry_at_ < rnr_until_ ? retry_at_ : rnr_until_; }

  void drain();  ///< the QP entered SQD

  /// In SQD, raises SqDrained once everything sent is acknowledged.
  void notify_if_drained() {
    if (core_.state() == QpState::Sqd) [[unlikely]] {
      report_drained();
    }
  }

  void check_invariants() const;

 private:
  enum class Step : std::uint8_t { Sent, Nothing, NoSpace };

  // Transmitting (requester_transmit.cc).
  [[nodiscard]] bool may_transmit() const;
  Step transmit_one(TransmitSink& sink, Instant now);
  [[nodiscard]] bool may_start(const SendWqe& wqe) const;
  void begin(SendWqe& wqe, Instant now);
  /// The part of a message that one packet or train carries.
  struct Part {
    std::uint32_t packets{};
    bool is_first{};
    bool is_last{};
  };
  void set_srq(PacketHeader& header, const SendWqe& wqe) const;
  [[nodiscard]] bool send_fast(TransmitSink& sink, const SendWqe& wqe);
  Step send_message_part(TransmitSink& sink, SendWqe& wqe, Instant now);
  [[gnu::always_inline]] Step send_part(TransmitSink& sink, SendWqe& wqe, Instant now, Part part);
  [[gnu::noinline]] Step send_read(TransmitSink& sink, SendWqe& wqe, Instant now);
  [[gnu::noinline]] Step send_atomic(TransmitSink& sink, SendWqe& wqe, Instant now);
  [[gnu::noinline]] Step send_atomic_write(TransmitSink& sink, SendWqe& wqe, Instant now);
  [[gnu::noinline]] Step send_flush(TransmitSink& sink, SendWqe& wqe, Instant now);
  [[gnu::noinline]] Step perform_locally(SendWqe& wqe);
  [[gnu::cold, gnu::noinline]] Step stall(SendWqe& wqe, WcStatus status);
  void advance_cursor();

  // Direct placement (requester_placement.cc).
  [[nodiscard]] static bool is_atomic(const SendWqe& wqe) {
    return wqe.opcode == WrOpcode::CompareSwap || wqe.opcode == WrOpcode::FetchAdd;
  }
  /// An atomic whose address is not aligned is left to the responder, which refuses it.
  [[nodiscard]] bool is_one_sided(const SendWqe& wqe) const {
    return wqe.length != 0 && core_.type == QpType::Rc &&
           (wqe.opcode == WrOpcode::RdmaWrite || wqe.opcode == WrOpcode::RdmaRead ||
            (is_atomic(wqe) && wqe.remote_address % kAtomicBytes == 0));
  }
  /// A system call executes no atomic.
  [[nodiscard]] bool is_for_calls(const SendWqe& wqe) const {
    return wqe.length >= core_.least_placed_bytes && !is_atomic(wqe);
  }
  /// As far as that is known before anybody asks.
  [[nodiscard]] bool is_placeable(const SendWqe& wqe) const {
    return (is_for_calls(wqe) || is_atomic(wqe) || pages_.are_shared()) && is_one_sided(wqe);
  }
  /// Nothing before the WQE at the cursor is under way.
  [[nodiscard]] bool is_oldest() const { return core_.send_queue.head() == cursor_; }
  /// Nor is anything posted behind it yet.
  [[nodiscard]] bool is_alone() const {
    return is_oldest() && core_.send_queue.tail() == cursor_ + 1;
  }
  /// What to do about a one-sided request before it becomes packets. Under
  /// PlacementPolicy::WhereQuicker, those that are quicker as packets are not placed by a system
  /// call.
  enum class Attempt : std::uint8_t { None, AskForPages, Place };
  [[nodiscard]] Attempt attempt_for(const SendWqe& wqe, Instant now) {
    const bool is_worth_a_call = is_for_calls(wqe) && (core_.placement == PlacementPolicy::Always ||
                                                       (is_alone() && choice_.places(now)));
    return pages_.are_shared() || is_worth_a_call                           ? Attempt::Place
           : core_.placement != PlacementPolicy::Never && pages_.asks_now() ? Attempt::AskForPages
                                                                            : Attempt::None;
  }
  void time_packets(const SendWqe& wqe, Instant now);
  void end_timing(Instant now) {
    if (choice_.is_timing()) [[unlikely]] {
      choice_.end_timing(now);
    }
  }
  /// A shorter one waits only for messages that could be placed themselves: behind others it is
  /// sooner there as packets.
  [[nodiscard]] bool may_wait(const SendWqe& wqe, bool are_pages_shared) const {
    return has_only_placeable_ || (are_pages_shared && wqe.length >= kLeastAwaitingBytes);
  }
  /// It will be placed once what is under way is acknowledged.
  [[nodiscard]] bool waits_to_place(const SendWqe& wqe) const {
    return places_ && !is_oldest() && is_one_sided(wqe) && may_wait(wqe, pages_.are_shared()) &&
           (pages_.are_shared() ||
            (core_.placement == PlacementPolicy::Always && is_for_calls(wqe)));
  }
  enum class Placed : std::uint8_t { Yes, Later, No };
  [[gnu::noinline]] Placed try_to_place(TransmitSink& sink, SendWqe& wqe, Instant now,
                                        Attempt attempt);
  [[nodiscard]] PlacementMeans means_for(TransmitSink& sink, const SendWqe& wqe, Attempt attempt);
  [[nodiscard]] PlacementMeans place(TransmitSink& sink, SendWqe& wqe);
  [[nodiscard]] PlacementMeans place_part(TransmitSink& sink, const SendWqe& wqe,
                                          std::uint32_t offset, std::uint32_t bytes);

  [[nodiscard]] std::uint32_t outstanding_packets() const {
    return static_cast<std::uint32_t>(next_psn_.value() - unacknowledged_.value()) & Psn::kMask;
  }

  // Responses (requester_receive.cc).
  bool acknowledge_before(Psn psn);
  [[nodiscard]] bool finish_only_message(Psn psn, Instant now);
  void handle_acknowledge(const Packet& packet, Instant now);
  [[gnu::noinline]] void handle_read_response(const Packet& packet, Instant now);
  [[gnu::noinline]] void handle_atomic_response(const Packet& packet, Instant now);
  [[gnu::cold, gnu::noinline]] void handle_rnr(Psn psn, std::uint8_t timer_code, Instant now);
  [[gnu::cold, gnu::noinline]] void handle_nak(Psn psn, wire::Syndrome syndrome, Instant now);
  void finish_in_order();
  void progressed(Instant now);
  [[nodiscard]] SendWqe* wqe_of(Psn psn, std::uint64_t& index);

  // Retrying and failing (requester_retry.cc).
  [[gnu::cold, gnu::noinline]] void report_drained();
  [[nodiscard]] bool is_failing() const { return core_.is_failing(Half::Requester); }
  void rewind_to(Psn psn);
  [[gnu::cold, gnu::noinline]] bool start_migration();
  [[gnu::cold, gnu::noinline]] bool retry_from(Psn psn, Instant now, std::string_view why);
  void arm_retry_timer(Instant now);
  [[gnu::cold, gnu::noinline]] void fail_head(WcStatus status, std::string_view reason);

  QpCore& core_;
  const LossModel loss_model_;

  Psn next_psn_;                       ///< of the next WQE that starts
  Psn unacknowledged_;                 ///< oldest PSN not acknowledged
  std::uint64_t next_new_{};           ///< first send WQE without PSNs
  std::uint64_t cursor_{};             ///< send WQE to transmit next
  std::uint32_t cursor_packet_{};      ///< packets of it already sent
  std::uint32_t reads_outstanding_{};  ///< READs and atomics started and not done
  RcCredits credits_;
  std::uint8_t retries_left_{};
  std::uint8_t rnr_retries_left_{};
  bool loss_known_{};
  bool stalled_{};  ///< a WQE failed locally and waits until it is the oldest
  bool rewound_{};  ///< retrying since the last progress, so another sequence error adds nothing
  bool drained_reported_{};
  bool places_{};  ///< the newest attempt found the peer's memory open
  PlacementChoice choice_;
  SharedPagesChoice pages_;
  bool has_only_placeable_{};  ///< no WQE that has PSNs and is not done had to be packets
  Instant retry_at_{Instant::never()};
  Instant rnr_until_{Instant::never()};
};

}  // namespace weft::hca
