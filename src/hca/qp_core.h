#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/time.h"
#include "hca/completion_queue.h"
#include "hca/events.h"
#include "hca/limits.h"
#include "hca/memory_region.h"
#include "hca/packet.h"
#include "hca/receive_queue.h"
#include "hca/send_queue.h"
#include "hca/types.h"
#include "hca/xrc.h"

namespace weft::hca {

/// Pieces of registered memory (or inline data) that make up a stretch of a message, in order.
/// Keep one: making it writes a kilobyte.
class Gather {
 public:
  static constexpr std::size_t kMaxPieces = 64;  // max_sge of every device is below
  void clear() { count_ = 0; }
  /// A piece that begins where the one before ends becomes part of it (R-RVT-5).
  void add(ByteSpan piece) {
    if (count_ != 0 && pieces_[count_ - 1].data() + pieces_[count_ - 1].size() == piece.data()) {
      ByteSpan& before = pieces_[count_ - 1];
      before = {before.data(), before.size() + piece.size()};
    } else {
      pieces_[count_++] = piece;
    }
  }
  [[nodiscard]] std::span<const ByteSpan> pieces() const { return {pieces_.data(), count_}; }

 private:
  std::array<ByteSpan, kMaxPieces> pieces_;
  std::size_t count_{};
};

/// The two halves of a QP (IBTA vol 1 §9.7): what executes the send queue and takes the answers,
/// and what takes requests and answers them. Those of RC run at the same time, each under its own
/// lock, since the thread that serves a one-sided request is seldom the one that posts.
enum class Half : std::uint8_t { Requester, Responder };

/// What every engine of one QP shares: identity, attributes, queues and the ways to complete, fail
/// and flush. The send queue and what completes it belong to the requester, the receive queue and
/// what completes it to the responder; attributes, route and state change with both locks held.
/// Nothing here calls out but HcaEvents.
class QpCore {
 public:
  QpCore(QpType type, Qpn number, ProtectionDomain& pd, CompletionQueue* send_cq,
         CompletionQueue* recv_cq, SharedReceiveQueue* srq, bool signal_all,
         const QpCapabilities& capabilities, MemoryTable& memory, HcaEvents& events);

  const QpType type;
  const wire::Transport wire_transport;  ///< what the opcodes of its packets say
  const Qpn number;
  ProtectionDomain& pd;
  CompletionQueue* const send_cq;  ///< null: an XRC target, which has no send queue
  CompletionQueue* const recv_cq;  ///< null: XRC, which has no receive queue
  SharedReceiveQueue* const srq;
  /// Whose memory receives may fill: with an SRQ its PD, which need not be the QP's, for it is the
  /// SRQ that they were posted to (IBTA vol 1 §10.2.9). Of an XRC target each request says.
  const ProtectionDomain& receive_pd;
  const bool signal_all;
  MemoryTable& memory;
  HcaEvents& events;
  class Qp* owner{};             ///< for events
  class Transport* transport{};  ///< told of state changes
  TimeScale time_scale;          ///< of the retry and RNR timers
  bool has_fast_path{true};
  XrcDomain* xrcd{};  ///< of an XRC target, else null
  const XrcSrqTable* xrc_srqs{};
  std::optional<XrcProxyFor> proxy_for{};  ///< of a target's proxy

  QpAttributes attributes;      ///< attributes.state is the QP's state
  PacketRoute route;            ///< connected QPs: made from attributes.address
  PKey pkey;                    ///< the value at attributes.pkey_index; not valid: none any more
  PacketRoute alternate_route;  ///< made from attributes.alternate_address; of port 0: none
  PKey alternate_pkey;          ///< at attributes.alternate_pkey_index
  struct PortSource {
    Lid lid;
    std::uint8_t path_mask{};
  };
  std::array<PortSource, 3> sources;  ///< by port number
  SendQueue send_queue;
  ReceiveWqe
      current_receive;  ///< the receive WQE that a message is filling, with has_current_receive
  bool has_current_receive{};
  SharedReceiveQueue* current_xrc_srq{};  ///< that `current_receive` is of, and so stays
  ReceiveQueue receive_queue;             ///< empty with an SRQ

  [[nodiscard]] QpState state() const { return attributes.state; }
  [[nodiscard]] std::uint32_t mtu_bytes() const { return wire::bytes(attributes.path_mtu); }
  [[nodiscard]] std::uint32_t packets(std::uint64_t message_bytes) const {
    return wire::packets(message_bytes, attributes.path_mtu);
  }
  /// Whole packets of `bytes`, at least one.
  [[nodiscard]] std::uint32_t train_packets(std::uint32_t bytes) const {
    return std::max(1U, bytes >> wire::log2_bytes(attributes.path_mtu));
  }

  /// An opcode of RC as this QP sends it: the reliable transports differ in the upper three bits
  /// only, which are 0 for RC (Table 38). Those of other engines stay as they are.
  [[nodiscard]] wire::Opcode opcode(wire::Opcode rc) const {
    return static_cast<wire::Opcode>(static_cast<std::uint8_t>(rc) | transport_bits_);
  }

  /// A header towards the connected peer: route, P_Key, destination QPN; one packet. It is the
  /// half's own and kept from packet to packet, since most of it stays as it is; extensions, and
  /// what a datagram changes, are the caller's.
  [[nodiscard]] PacketHeader& header(Half half, wire::Opcode opcode, Psn psn) {
    PacketHeader& header = headers_[static_cast<std::size_t>(half)].header;
    header.opcode = header.last_opcode = this->opcode(opcode);
    header.packet_count = 1;
    header.solicited = header.ack_request = false;
    header.psn = psn;
    return header;
  }

  /// Whether packets towards the peer may take the fast path (TransmitSink::send_fast).
  [[nodiscard]] bool has_fast_path_header() const { return prepared_.has_fast_path_header; }
  /// The same header as header() makes, in words: without a GRH. `flags` are of packet_record.h.
  [[nodiscard]] SinglePacket single(wire::Opcode opcode, Psn psn, std::uint64_t flags) const {
    const std::uint64_t own = static_cast<std::uint8_t>(this->opcode(opcode));
    SinglePacket packet;
    packet.first = prepared_.first | own | own << 8 | flags;
    packet.addresses = prepared_.addresses;
    packet.third = prepared_.third | std::uint64_t{psn.value()} << 32;
    return packet;
  }

  [[nodiscard]] Lid source_lid(const PacketRoute& to) const {
    const PortSource& source = sources[to.source_port.value()];
    return Lid{source.lid.value() | (to.source_path_bits & source.path_mask)};
  }

  /// The first of the LIDs of the port in use.
  [[nodiscard]] Lid own_lid() const { return sources[route.source_port.value()].lid; }

  /// After a change of the route, the P_Key, the path MTU, the destination QPN or the migration
  /// state.
  void refresh_header();

  // --- automatic path migration (IBTA vol 1 §17.2.8; path_migration.cc)

  [[nodiscard]] bool has_alternate_path() const { return alternate_route.source_port.value() != 0; }
  /// The peer has said that it is ready, and there is somewhere to go.
  [[nodiscard]] bool may_migrate() const {
    return attributes.migration == MigrationState::Armed && alternate_pkey.is_valid();
  }
  /// Whether the MigReq bit of a packet may say something new; it is process_mig_req() that knows.
  [[nodiscard]] bool may_change_migration(const PacketHeader& header) const {
    return attributes.migration != MigrationState::Migrated &&
           (header.migrated || attributes.migration == MigrationState::Rearm);
  }
  /// What a peer's packet says of the path, with both locks: it is armed, or has migrated.
  void process_mig_req(const PacketHeader& header);
  /// The alternate path becomes the primary one, and the other way round. With both locks.
  void migrate();
  /// The requester found the primary path dead: as fail(), but migrate() is what happens.
  void request_migration() { fail(Half::Requester, kMigrates); }

  Gather gathered;  ///< by the newest gather()

  /// Bytes [offset, offset + length) of the message of send WQE `index`, through its lkeys.
  /// LocalProtectionError names the SGE to the explanations.
  [[nodiscard]] WcStatus gather(std::uint64_t index, std::uint64_t offset, std::uint32_t length);

  /// The same of a whole message that lies in one piece; false if this one does not, or may not be
  /// read.
  [[nodiscard]] bool gather_one(std::uint64_t index, ByteSpan& payload) const {
    if (send_queue.is_inline(index)) {
      payload = send_queue.inline_data(index);
      return true;
    }
    const std::span<const Sge> sges = send_queue.sges(index);
    if (sges.size() != 1) {
      return sges.empty();
    }
    const Sge& sge = sges.front();
    const MemoryTable::Found found =
        memory.find(pd, sge.lkey, sge.address, sge.length, AccessFlags{});
    payload = found.memory;
    return found.fault == KeyFault::None;
  }

  /// Carries out a work request that sends nothing: LOCAL_INV or the binding of a window.
  [[nodiscard]] [[gnu::noinline]] WcStatus perform_locally(const SendWqe& wqe);

  /// Memory that a request of the peer names.
  [[nodiscard]] MemoryTable::Found find_for_peer(RKey rkey, std::uint64_t address,
                                                 std::uint64_t length, AccessFlags needed) const {
    return find_for_peer(pd, rkey, address, length, needed);
  }
  /// The same of another PD: an XRC SRQ's.
  [[nodiscard]] MemoryTable::Found find_for_peer(const ProtectionDomain& of, RKey rkey,
                                                 std::uint64_t address, std::uint64_t length,
                                                 AccessFlags needed) const {
    return memory.find(of, rkey, address, length, needed, number);
  }

  /// Memory of `of` that a FLUSH is about.
  [[nodiscard]] MemoryTable::Found find_to_flush(const ProtectionDomain& of,
                                                 const PacketHeader& flush) const;

  /// Writes `payload` at byte `offset` of a scatter list of the send queue (needs LocalWrite).
  [[nodiscard]] WcStatus scatter(std::span<const Sge> sges, std::uint64_t offset,
                                 ByteSpan payload) {
    return scatter(pd, sges, offset, payload);
  }
  /// The same for memory of another PD: that of receives.
  [[nodiscard]] WcStatus scatter(const ProtectionDomain& of, std::span<const Sge> sges,
                                 std::uint64_t offset, ByteSpan payload);

  /// Next receive WQE of the RQ or SRQ; false when there is none.
  [[nodiscard]] bool take_receive_wqe(ReceiveWqe& into);
  /// The same into `current_receive`, of an XRC SRQ.
  [[nodiscard]] bool take_current_receive(SharedReceiveQueue& from);
  /// Without a completion: nobody fills `current_receive` any more.
  void discard_receive();
  /// What is left of this QP in its CQs goes.
  void remove_completions();
  /// Its PD, CQs, SRQ and XRC domain may not be destroyed (1); they may again (-1).
  void count_uses(int by);

  // A half whose CQ takes no more completions fails: a local work queue catastrophic error (IBTA
  // vol 1 §11.6.3.2), which QpFatal tells since no completion can.

  /// Ends the oldest send WQE: pushes its completion if it is signaled or failed, and retires it.
  void complete_head(WcStatus status, std::uint32_t byte_length = 0);

  /// Pushes a receive completion; wr_id, qpn and pkey index are filled in here.
  void complete_receive(const ReceiveWqe& wqe, Wc& wc, bool solicited);
  /// The same of `current_receive`, with success: `make(Wc&)` fills in the rest.
  template <class Make>
  void complete_current_receive(bool solicited, Make make) {
    if (current_xrc_srq != nullptr) [[unlikely]] {
      Wc wc;
      make(wc);
      complete_receive(current_receive, wc, solicited);
      return;
    }
    const auto make_all = [&](Wc& wc) {
      make(wc);
      wc.wr_id = current_receive.wr_id;
      wc.qpn = number;
      wc.pkey_index = attributes.pkey_index;
    };
    if (!recv_cq->push_made(solicited, WcStatus::Success, make_all)) [[unlikely]] {
      fail_without_cq(Half::Responder);
    }
  }

  /// One half found that the QP must go to the error state, which concerns the other, too: Qp calls
  /// enter_error before long, with both locks. Until then this half does nothing more.
  void fail(Half half, std::string_view reason) {
    failures_[static_cast<std::size_t>(half)] = reason;
  }
  [[nodiscard]] bool is_failing(Half half) const {
    return !failures_[static_cast<std::size_t>(half)].empty();
  }
  /// With both locks. Carries out request_migration() as well.
  void enter_error_if_failing();

  /// Moves the QP to the error state and flushes: every send WQE from the head and every receive
  /// WQE of its own RQ completes with WorkRequestFlushed, in order; with an SRQ QpLastWqeReached is
  /// raised (R-RVT-14). No effect when the QP is in error or reset already.
  void enter_error(std::string_view reason);

  /// Completes all that waits with WorkRequestFlushed, sends first.
  void flush();
  /// Why what is posted now does.
  void explain_flush();

  /// UC and UD: a send completes in error, the QP goes to SQE, what follows on the SQ is flushed
  /// (IBTA vol 1 §10.3.1.x).
  void enter_send_queue_error(std::string_view reason);

  void raise(AsyncEventType type);

  /// fmt-style reason for WEFT_EXPLAIN; costs nothing unless wanted.
  template <class Make>
  void explain(Make make) {
    if (events.explains_errors()) {
      events.explain(make());
    }
  }

 private:
  [[gnu::cold, gnu::noinline]] void fail_without_cq(Half half);
  static constexpr std::string_view kMigrates = "the primary path is dead";
  [[nodiscard]] bool arrives_on(const PacketRoute& path, const AhAttributes& address, PKey key,
                                const PacketHeader& header) const;
  [[gnu::cold, gnu::noinline]] WcStatus no_access(std::string_view kind, LKey lkey,
                                                  std::uint64_t address, std::uint64_t bytes);

  struct alignas(64) Kept {
    PacketHeader header;
  };
  /// The words of a record's beginning, without what changes from packet to packet.
  struct Prepared {
    std::uint64_t first{};
    std::uint64_t addresses{};
    std::uint64_t third{};
    bool has_fast_path_header{};
  };
  Prepared prepared_;                         // made by refresh_header()
  const std::uint8_t transport_bits_;         // of XRC, else 0
  std::array<Kept, 2> headers_;               // by half
  std::array<std::string_view, 2> failures_;  // by half; empty: none
};

/// One QP type's protocol. Requester side (drains the SQ) and responder side (answers the peer).
class Transport {
 public:
  virtual ~Transport() = default;

  /// Whether the halves stand apart, each under its own lock; else every call holds both.
  [[nodiscard]] virtual bool has_halves() const { return false; }

  /// A packet or train whose destination QPN, transport, P_Key and (connected) source were checked
  /// by Qp. With the lock of the half whose packet it is.
  virtual void handle_packet(const Packet& packet, Instant now) = 0;

  /// Emits what may go now, at most `budget` calls of sink.send; true if more could go at once
  /// (budget or no room). Answers by the responder, requests by the requester.
  virtual bool transmit_answers(TransmitSink& /*sink*/, unsigned& /*budget*/) { return false; }
  virtual bool transmit(TransmitSink& sink, Instant now, unsigned& budget) = 0;

  [[nodiscard]] virtual bool has_responses() const { return false; }
  [[nodiscard]] virtual bool needs_transmit() const = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
  virtual void handle_timeout(Instant now) = 0;

  /// The state changed (attributes are already those of `to`).
  virtual void on_state_change(QpState from, QpState to) = 0;

  /// The carrier dropped a packet of this QP, or one that answered it, or its peer is gone: timers
  /// count from now on (docs/ARCHITECTURE.md, decision 7). Drivers whose network loses silently
  /// (sim) say so once by `Hca` configuration instead.
  virtual void on_loss() = 0;

  /// The QP has another path from now on.
  virtual void on_migration() {}

  // Of an XRC target whose domain other processes share (hca/xrc_relay.h), with the responder's
  // lock: an answer of a proxy, that there is one or none, that a process has left the domain.
  virtual void handle_proxy_response(const Packet& /*packet*/) {}
  virtual void handle_proxy(std::uint32_t /*slot*/, std::uint32_t /*serial*/,
                            std::optional<Qpn> /*proxy*/) {}
  virtual void handle_owner_gone(std::uint32_t /*slot*/) {}
  [[nodiscard]] virtual bool has_proxy_in(std::uint32_t /*slot*/) { return false; }
  /// The QP is being destroyed.
  virtual void on_destruction() {}

  virtual void check_invariants() const = 0;
};

}  // namespace weft::hca
