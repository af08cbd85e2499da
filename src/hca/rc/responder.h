#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/serial.h"
#include "hca/limits.h"
#include "hca/packet.h"
#include "hca/qp_core.h"
#include "hca/rc/fault_table.h"
#include "hca/xrc_relay.h"

namespace weft::hca {

/// The responder half of an RC QP (IBTA vol 1 §9.7.4): checks each request in the specification's
/// order, executes it, and records the response it owes as state that transmit() drains, so that
/// receiving never waits for sending (docs/ARCHITECTURE.md, decision 5). Guarded by the responder's
/// lock of the QP.
class RcResponder {
 public:
  RcResponder(QpCore& core, const DeviceLimits& limits);

  void start();  ///< the QP entered RTR
  void stop();   ///< the QP entered RESET, or ERR at the consumer's request

  /// After a fault of the peer, enters a closing state that receives nothing but still sends the
  /// NAK and the responses before it.
  void enter_error();

  /// Handles a request packet or train from the peer.
  void handle_request(const Packet& packet);
  /// Transmits owed responses and acknowledgements; true if more could be sent at once.
  bool transmit(TransmitSink& sink, unsigned& budget);
  [[nodiscard]] bool needs_transmit() const { return pending_count_ != 0 || ack_due_ || nak_due_; }
  void check_invariants() const;

  // SRQs of other processes (hca/xrc_relay.h, responder_relay.cc), for an XRC target.
  void handle_proxy_response(const Packet& packet);
  void handle_proxy(std::uint32_t slot, std::uint32_t serial, std::optional<Qpn> proxy);
  void handle_owner_gone(std::uint32_t slot);
  /// Gives up all proxies of the target, as when its connection ends.
  void release_proxies();
  [[nodiscard]] bool has_proxy_in(std::uint32_t slot);
  /// True if a request for a proxy waits to be sent.
  [[nodiscard]] bool wants_relay() const;
  /// Sends that request, after transmit(). True if there was no room.
  bool transmit_call(TransmitSink& sink);

 private:
  /// What answers a request, other than an acknowledgement.
  enum class Answer : std::uint8_t { Read, Atomic, ProxyRead };

  /// A READ or atomic whose response is to be sent, or sent again.
  struct Pending {
    Answer answer{};
    bool is_repeat{};  // a duplicate request, which uses no responder resource
    Psn psn;           // of the next response packet
    std::uint32_t bytes_left{};
    std::uint64_t address{};
    RKey rkey{};
    std::uint32_t xrc_srqn{};
    bool started{};  // the first response packet was sent
    Msn msn;
    std::uint64_t original{};  // atomic
  };
  /// The result of an executed atomic, for duplicates of its request.
  struct AtomicRecord {
    Psn psn;
    Msn msn;
    std::uint64_t original{};
    bool valid{};
  };
  struct Message {  // the SEND or WRITE in progress
    bool active{};
    bool is_write{};
    bool is_for_proxy{};      // a proxy keeps the message's state
    std::uint64_t bytes{};    // received so far
    std::uint64_t address{};  // WRITE
    RKey rkey{};
    std::uint32_t length{};  // WRITE: DMALen
    std::uint32_t xrc_srqn{};
  };

  /// The receive WQEs and memory that a request may use: the QP's, or for XRC those of the SRQ that
  /// its XRCETH names (annex A14). Looked up for each packet, since the SRQ may be destroyed
  /// between packets.
  struct Target {
    const ProtectionDomain* pd{};          // for R_Keys of requests
    const ProtectionDomain* receive_pd{};  // for L_Keys of receive WQEs
    SharedReceiveQueue* xrc_srq{};
    std::uint32_t owner_slot{};  // not 0: the process that owns the SRQ, if the SRQ exists
  };
  [[nodiscard]] Target target_of(std::uint32_t xrc_srqn) const;

  // Checks, in order; none has side effects (responder_check.cc).
  struct Refusal {
    RcFault fault{RcFault::None};
    std::string_view reason;
  };
  [[nodiscard]] Refusal check(const Packet& packet) const;
  [[nodiscard]] Refusal check_sequence(const wire::OpcodeInfo& first) const;
  [[nodiscard]] Refusal check_xrceth(const Packet& packet) const;
  [[nodiscard]] Refusal check_permission(const PacketHeader& header,
                                         const wire::OpcodeInfo& info) const;
  [[nodiscard]] Refusal check_flush_permission(const wire::Feth& feth) const;
  [[nodiscard]] Refusal check_length(const Packet& packet, const wire::OpcodeInfo& first,
                                     bool ends) const;
  [[nodiscard]] Refusal check_key(const Packet& packet, const wire::OpcodeInfo& first) const;

  // Execution (responder.cc).
  void handle_expected(const Packet& packet);
  [[gnu::noinline]] void handle_checked(const Packet& packet);
  [[nodiscard]] bool take_single(const Packet& packet, const wire::OpcodeInfo& info);
  [[nodiscard]] bool place_send(const Packet& packet);
  [[nodiscard]] bool place_write(const Packet& packet);
  [[gnu::cold, gnu::noinline]] void handle_singles_of(const Packet& train);
  [[gnu::cold, gnu::noinline]] void handle_unexpected(const Packet& packet, std::int32_t offset);
  [[gnu::cold, gnu::noinline]] void refuse(const Packet& packet, const Refusal& refusal);
  [[gnu::cold, gnu::noinline]] void refuse_invalidated_key(const Packet& packet);
  void execute(const Packet& packet);
  void grant_placement(RKey reached);
  void grant_placement(const wire::Reth& reached);
  void execute_send(const Packet& packet, const wire::OpcodeInfo& first, bool ends);
  void execute_write(const Packet& packet, const wire::OpcodeInfo& first, bool ends);
  [[gnu::noinline]] void execute_read(const Packet& packet);
  [[gnu::noinline]] void execute_atomic_write(const Packet& packet);
  [[gnu::noinline]] void execute_flush(const Packet& packet);
  void push_empty_read(Psn psn);
  [[gnu::noinline]] void execute_atomic(const Packet& packet, const wire::OpcodeInfo& info);
  void record_atomic(const PacketHeader& request, std::uint64_t original);
  void complete_receive(const Packet& packet, const wire::OpcodeInfo& last, std::uint64_t bytes);
  void record_executed(const Packet& packet, std::uint32_t psns);
  [[nodiscard]] bool ensure_receive_wqe();

  // Duplicates (responder_duplicate.cc).
  void handle_duplicate(const Packet& packet);
  void handle_duplicate_read(const Packet& packet);
  void handle_duplicate_atomic(Psn psn);
  void answer_again(Psn psn);
  [[nodiscard]] Pending* pending_until(Psn end);

  // SRQs of other processes (responder_relay.cc).
  [[gnu::cold, gnu::noinline]] void relay_request(const Packet& packet);
  [[nodiscard]] Refusal check_before_relaying(const Packet& packet) const;
  void relay_expected(const Packet& packet);
  void hold(const Packet& packet);
  void begin_relay(const PacketHeader& request, std::uint32_t slot, std::uint32_t packets,
                   bool is_chunk);
  void take_chunk(const Packet& packet);
  void end_call(std::uint32_t executed);
  void end_message_call(std::uint32_t executed);
  void end_atomic_relay(std::uint64_t original);
  void end_flush_call();
  void fail_relay(std::uint32_t executed, const Refusal& refusal);
  void process_held();
  void fail_requests();

  // Responses (responder_transmit.cc).
  enum class Step : std::uint8_t { Sent, NoSpace, Failed, Waits };
  [[gnu::noinline]] Step transmit_proxy_read(TransmitSink& sink, Pending& pending);
  [[gnu::noinline]] Step transmit_read(TransmitSink& sink, Pending& pending);
  [[gnu::noinline]] Step transmit_atomic(TransmitSink& sink, const Pending& pending);
  [[nodiscard]] bool transmit_acknowledge(TransmitSink& sink, wire::Syndrome syndrome, Psn psn);
  [[nodiscard]] wire::Syndrome positive_syndrome() const;
  void schedule_ack(Psn psn);
  void schedule_nak(wire::Syndrome syndrome, Psn psn);
  void report_established();
  [[nodiscard]] PacketHeader& read_response(const Pending& pending, std::uint32_t count, bool last);
  void advance_read(Pending& pending, std::uint32_t bytes, std::uint32_t packets);

  Pending& pending_at(std::uint32_t index) {
    return pending_[(pending_head_ + index) % static_cast<std::uint32_t>(pending_.size())];
  }
  void push_pending_back(const Pending& pending);
  void push_repeat(const Pending& pending);
  void pop_pending();

  QpCore& core_;
  Psn expected_;
  Msn msn_;
  Message message_;
  Target target_;        ///< of the request being handled
  bool gap_reported_{};  ///< a NAK for the expected PSN was sent; further gaps are silent (IBTA vol
                         ///< 1 §9.7.5.2)
  bool established_reported_{};
  bool closing_{};  ///< in error by a fault of the peer: only its NAK and the responses before it
                    ///< are still sent

  std::vector<Pending>
      pending_;  ///< ring of twice the responder resources, so that repeats have room
  std::uint32_t pending_head_{};
  std::uint32_t pending_count_{};
  std::uint32_t repeats_{};  ///< how many of those pending
  std::vector<AtomicRecord> atomics_;
  std::uint32_t next_atomic_{};

  bool ack_due_{};
  Psn ack_psn_;
  bool nak_due_{};
  wire::Syndrome nak_{};
  Psn nak_psn_;

  std::unique_ptr<XrcRelay> relay_;  ///< made when a request first names an SRQ of another process
};

}  // namespace weft::hca
