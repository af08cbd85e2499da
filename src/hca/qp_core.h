#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "hca/completion_queue.h"
#include "hca/events.h"
#include "hca/limits.h"
#include "hca/memory_region.h"
#include "hca/packet.h"
#include "hca/placement.h"
#include "hca/receive_queue.h"
#include "hca/receive_scaling.h"
#include "hca/send_queue.h"
#include "hca/types.h"
#include "hca/xrc.h"
#include "verbs/mtu.h"

namespace weft::hca {

/// The pieces of registered memory (or inline data) that make up part of a message, in order. Reuse
/// one: constructing it writes a kilobyte.
class Gather {
 public:
  static constexpr std::size_t kMaxPieces = 64;  // max_sge of every device is below this
  void clear() { count_ = 0; }
  /// Merges a piece that starts where the previous one ends (R-RVT-5).
  void add(ByteSpan piece) {
    if (count_ != 0 && pieces_[count_ - 1].data() + pieces_[count_ - 1].size() == piece.data()) {
      ByteSpan& before = pieces_[count_ - 1];
      before = {before.data(), before.size() + piece.size()};
    } else {
      pieces_[count_++] = piece;
    }
  }
  /// What a lookup of `length` bytes has found. More pieces than there is room for are copied
  /// together.
  void add(const MemoryTable::Found& found, std::uint64_t length) {
    if (found.pages == nullptr && count_ + 1 < kMaxPieces) [[likely]] {
      add(found.memory);
    } else {
      add_pieces(found, length);
    }
  }
  [[nodiscard]] std::span<const ByteSpan> pieces() const { return {pieces_.data(), count_}; }

 private:
  void add_pieces(const MemoryTable::Found& found, std::uint64_t length);
  void copy_together();

  std::array<ByteSpan, kMaxPieces> pieces_;
  std::size_t count_{};
  std::vector<std::byte> copied_;  // what `pieces_` had no room for
};

/// The two halves of a QP (IBTA vol 1 §9.7). The requester executes the send queue and handles
/// responses; the responder executes requests and sends responses. The halves of an RC QP run
/// concurrently, each under its own lock, since a one-sided request is usually served on a
/// different thread than the one that posts.
enum class Half : std::uint8_t { Requester, Responder };

/// State that the engines of one QP share: identity, attributes, queues, and how to complete, fail
/// and flush. The requester's lock guards the send queue and its completions, the responder's lock
/// the receive queue and its completions; attributes, route and state change only with both held.
/// Nothing here calls out of the HCA except through HcaEvents.
class QpCore {
 public:
  QpCore(QpType type, Qpn number, ProtectionDomain& pd, CompletionQueue* send_cq,
         CompletionQueue* recv_cq, SharedReceiveQueue* srq, bool signal_all,
         const QpCapabilities& capabilities, MemoryTable& memory, HcaEvents& events);

  const QpType type;
  const wire::Transport wire_transport;  ///< transport bits of its packets' opcodes
  const Qpn number;
  ProtectionDomain& pd;
  CompletionQueue* const send_cq;  ///< null for an XRC target, which has no send queue
  CompletionQueue* const recv_cq;  ///< null without a receive queue: XRC, receive scaling
  SharedReceiveQueue* const srq;
  /// The PD whose memory receives may fill. With an SRQ this is the SRQ's PD, which may differ from
  /// the QP's (IBTA vol 1 §10.2.9). For an XRC target each request determines it.
  const ProtectionDomain& receive_pd;
  const bool signal_all;
  MemoryTable& memory;
  HcaEvents& events;
  class Qp* owner{};             ///< named in events
  class Transport* transport{};  ///< notified of state changes
  TimeScale time_scale;          ///< scales the retry and RNR timers
  bool has_fast_path{true};
  PlacementPolicy placement{PlacementPolicy::Always};
  std::uint32_t least_placed_bytes{kLeastPlacedBytes};  ///< of messages that may be placed
  XrcDomain* xrcd{};                                    ///< null unless this is an XRC target
  const XrcSrqTable* xrc_srqs{};
  std::optional<XrcProxyFor> proxy_for{};  ///< set for a proxy QP
  Qpn external_number{number};             ///< in packets: DETH.SrcQP and BTH.DestQP
  ReceiveScaling scaling{};                ///< UD: a table, or a receive queue

  QpAttributes attributes;      ///< attributes.state is the QP's state
  PacketRoute route;            ///< connected QPs: derived from attributes.address
  PKey pkey;                    ///< value at attributes.pkey_index; invalid if it was removed
  PacketRoute alternate_route;  ///< derived from attributes.alternate_address; port 0: none
  PKey alternate_pkey;          ///< value at attributes.alternate_pkey_index
  /// What a port contributes to source LIDs.
  struct PortSource {
    Lid lid;
    std::uint8_t path_mask{};
  };
  std::array<PortSource, 3> sources;  ///< by port number
  SendQueue send_queue;
  ReceiveWqe current_receive;  ///< valid if has_current_receive: the receive WQE that the current
                               ///< message fills
  bool has_current_receive{};
  SharedReceiveQueue*
      current_xrc_srq{};       ///< the SRQ that current_receive came from, which is kept alive
  ReceiveQueue receive_queue;  ///< empty if the QP uses an SRQ

  [[nodiscard]] QpState state() const { return attributes.state; }
  [[nodiscard]] std::uint32_t mtu_bytes() const { return verbs::bytes(attributes.path_mtu); }
  [[nodiscard]] std::uint32_t packets(std::uint64_t message_bytes) const {
    return verbs::packets(message_bytes, attributes.path_mtu);
  }
  /// Number of whole packets in `bytes`, at least one.
  [[nodiscard]] std::uint32_t train_packets(std::uint32_t bytes) const {
    return std::max(1U, bytes >> verbs::log2_bytes(attributes.path_mtu));
  }

  /// An RC opcode as this QP sends it: the reliable transports differ only in the upper three bits,
  /// which are 0 for RC (IBTA vol 1 Table 38). Opcodes of UC and UD are returned unchanged.
  [[nodiscard]] wire::Opcode opcode(wire::Opcode rc) const {
    return static_cast<wire::Opcode>(static_cast<std::uint8_t>(rc) | transport_bits_);
  }

  /// The half's own header to the connected peer, for one packet: route, P_Key and destination QPN
  /// are set. It is kept between packets, since most of it does not change; the caller sets
  /// extensions, and for datagrams the destination.
  [[nodiscard]] PacketHeader& header(Half half, wire::Opcode opcode, Psn psn) {
    PacketHeader& header = headers_[static_cast<std::size_t>(half)].header;
    header.opcode = header.last_opcode = this->opcode(opcode);
    header.packet_count = 1;
    header.solicited = header.ack_request = false;
    header.psn = psn;
    return header;
  }

  /// True if packets to the peer may use the fast path (TransmitSink::send_fast).
  [[nodiscard]] bool has_fast_path_header() const { return prepared_.has_fast_path_header; }
  /// The header of header() as record words, without a GRH. `flags` are bits of packet_record.h.
  [[nodiscard]] SinglePacket single(wire::Opcode opcode, Psn psn, std::uint64_t flags) const {
    const std::uint64_t own = static_cast<std::uint8_t>(this->opcode(opcode));
    SinglePacket packet;
    packet.first = prepared_.first | own | own << 8 | flags;
    packet.addresses = prepared_.addresses;
    packet.third = prepared_.third | std::uint64_t{psn.value()} << 32;
    return packet;
  }

  /// The source LID on a route, with its path bits as far as the port's LMC allows.
  [[nodiscard]] Lid source_lid(const PacketRoute& to) const {
    const PortSource& source = sources[to.source_port.value()];
    return Lid{source.lid.value() | (to.source_path_bits & source.path_mask)};
  }

  /// The base LID of the QP's port.
  [[nodiscard]] Lid own_lid() const { return sources[route.source_port.value()].lid; }

  /// To be called after the route, P_Key, path MTU, destination QPN or migration state changed.
  void refresh_header();

  // --- automatic path migration (IBTA vol 1 §17.2.8; path_migration.cc)

  [[nodiscard]] bool has_alternate_path() const { return alternate_route.source_port.value() != 0; }
  /// The peer has armed migration, and the alternate path can be used.
  [[nodiscard]] bool may_migrate() const {
    return attributes.migration == MigrationState::Armed && alternate_pkey.is_valid();
  }
  /// Cheap filter: true if the packet's MigReq bit may change the migration state. If so,
  /// process_mig_req() decides.
  [[nodiscard]] bool may_change_migration(const PacketHeader& header) const {
    return attributes.migration != MigrationState::Migrated &&
           (header.migrated || attributes.migration == MigrationState::Rearm);
  }
  /// Handles the MigReq bit of a received packet: the peer has armed migration, or has migrated
  /// (IBTA vol 1 §17.2.8). Caller must hold both locks.
  void process_mig_req(const PacketHeader& header);
  /// Swaps primary and alternate path. Caller must hold both locks.
  void migrate();
  /// The requester found the primary path dead. Deferred like fail(), but leads to migrate().
  void request_migration() { fail(Half::Requester, kMigrates); }

  // --- direct placement (hca/placement.h)

  /// Grants the peer the region that it has reached by `rkey`, if it is one that a peer can place
  /// into. With the responder's lock.
  [[gnu::noinline]] void grant_placement(RKey rkey);
  /// To be called when the QP's attributes or state changed. With both locks.
  void withdraw_placement() {
    if (std::exchange(has_granted_, false)) [[unlikely]] {
      events.withdraw_placement();
    }
  }
  /// To be called when a key was invalidated or bound anew, by `half`: on return nobody reaches
  /// memory by what it stood for.
  void end_key(RKey rkey, Half half);
  /// The pieces of memory that a READ of send WQE `index` fills with bytes [offset, offset +
  /// length); empty if they are not plain memory that it may write.
  [[nodiscard]] std::span<const MutableByteSpan> find_targets(std::uint64_t index,
                                                              std::uint64_t offset,
                                                              std::uint32_t length);

  Gather gathered;  ///< by the newest gather(): the requester's
  Gather answered;  ///< the responder's: what a READ takes from memory that is not in one piece

  /// Collects bytes [offset, offset + length) of the message of send WQE `index` through its
  /// L_Keys. If the result is LocalProtectionError, the faulty SGE has been explained.
  [[nodiscard]] WcStatus gather(std::uint64_t index, std::uint64_t offset, std::uint32_t length);

  /// Fast variant for a whole message in one piece; false if it has several or an access fault.
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
    return found.fault == KeyFault::None && found.pages == nullptr;
  }

  /// Executes a work request that sends no packet: LOCAL_INV or a memory window bind.
  [[nodiscard]] [[gnu::noinline]] WcStatus perform_locally(const SendWqe& wqe);

  /// Looks up memory that a request of the peer names.
  [[nodiscard]] MemoryTable::Found find_for_peer(RKey rkey, std::uint64_t address,
                                                 std::uint64_t length, AccessFlags needed) const {
    return find_for_peer(pd, rkey, address, length, needed);
  }
  /// The same in the PD `of`, that of an XRC SRQ.
  [[nodiscard]] MemoryTable::Found find_for_peer(const ProtectionDomain& of, RKey rkey,
                                                 std::uint64_t address, std::uint64_t length,
                                                 AccessFlags needed) const {
    return memory.find(of, rkey, address, length, needed, number);
  }

  /// Looks up the memory in `of` that the FLUSH request `flush` names.
  [[nodiscard]] MemoryTable::Found find_to_flush(const ProtectionDomain& of,
                                                 const PacketHeader& flush) const;

  /// Writes `payload` at byte `offset` of a scatter list of the send queue (needs LocalWrite).
  [[nodiscard]] WcStatus scatter(std::span<const Sge> sges, std::uint64_t offset,
                                 ByteSpan payload) {
    return scatter(pd, sges, offset, payload);
  }
  /// The same for memory of the PD `of`, as of receives.
  [[nodiscard]] WcStatus scatter(const ProtectionDomain& of, std::span<const Sge> sges,
                                 std::uint64_t offset, ByteSpan payload);

  /// Takes the next receive WQE of the RQ or SRQ; false if there is none.
  [[nodiscard]] bool take_receive_wqe(ReceiveWqe& into);
  /// The same from an XRC SRQ into `current_receive`.
  [[nodiscard]] bool take_current_receive(SharedReceiveQueue& from);
  /// Drops `current_receive` without a completion.
  void discard_receive();
  /// Removes this QP's completions from its CQs.
  void remove_completions();
  /// Adds `by` (1 or -1) to the use counts of its PD, CQs, SRQ and XRC domain, which forbid
  /// destruction.
  void count_uses(int by);

  // If a completion cannot be added to the CQ, the half fails: a local work queue catastrophic
  // error (IBTA vol 1 §11.6.3.2), reported by the event QpFatal since no completion can.

  /// Ends the oldest send WQE: adds a completion if it is signaled or failed, and retires it.
  void complete_head(WcStatus status, std::uint32_t byte_length = 0);

  /// Adds a receive completion; wr_id, qpn and P_Key index are filled in here.
  void complete_receive(const ReceiveWqe& wqe, Wc& wc, bool solicited);
  /// The same for `current_receive` with status Success: `make(Wc&)` fills in the rest.
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

  /// The half found that the QP must enter the error state, which also concerns the other half: Qp
  /// calls enter_error_if_failing() soon with both locks. Until then this half does nothing more.
  void fail(Half half, std::string_view reason) {
    failures_[static_cast<std::size_t>(half)] = reason;
  }
  [[nodiscard]] bool is_failing(Half half) const {
    return !failures_[static_cast<std::size_t>(half)].empty();
  }
  /// Acts on fail() and request_migration(). Caller must hold both locks.
  void enter_error_if_failing();

  /// Enters the error state and flushes: all send WQEs and all receive WQEs of the own RQ complete
  /// with WorkRequestFlushed, in order; with an SRQ, QpLastWqeReached is raised (R-RVT-14). No
  /// effect in error or reset. Caller must hold both locks.
  void enter_error(std::string_view reason);

  /// Completes all queued work requests with WorkRequestFlushed, sends first.
  void flush();
  /// Explains why work requests that are posted now are flushed.
  void explain_flush();

  /// UC and UD: a send completed in error. The QP enters SQE, and the rest of the send queue is
  /// flushed (IBTA vol 1 §10.3.1).
  void enter_send_queue_error(std::string_view reason);

  /// Reports an asynchronous event of this QP.
  void raise(AsyncEventType type);

  /// Reports a reason for WEFT_EXPLAIN; `make` runs only if reasons are wanted.
  template <class Make>
  void explain(Make make) {
    if (events.explains_errors()) {
      events.explain(make());
    }
  }

 private:
  [[gnu::cold, gnu::noinline]] void fail_without_cq(Half half);
  static constexpr std::string_view kMigrates = "the primary path is dead";
  [[nodiscard]] bool arrives_on(const PacketRoute& path, const AddressVector& address, PKey key,
                                const PacketHeader& header) const;
  [[gnu::cold, gnu::noinline]] WcStatus no_access(std::string_view kind, LKey lkey,
                                                  std::uint64_t address, std::uint64_t bytes);

  struct alignas(64) Kept {
    PacketHeader header;
  };
  /// The fixed words of a record, without what differs between packets.
  struct Prepared {
    std::uint64_t first{};
    std::uint64_t addresses{};
    std::uint64_t third{};
    bool has_fast_path_header{};
  };
  Prepared prepared_;                         // set by refresh_header()
  const std::uint8_t transport_bits_;         // for XRC, else 0
  std::array<Kept, 2> headers_;               // by half
  std::array<std::string_view, 2> failures_;  // by half; empty: not failing
  std::vector<MutableByteSpan> targets_;      // of find_targets()
  bool has_granted_{};                        // since the last withdrawal
};

/// The protocol of one QP type: a requester, which drains the send queue, and a responder, which
/// answers the peer. Called by Qp with its locks held.
class Transport {
 public:
  virtual ~Transport() = default;

  /// True if the halves run under separate locks; otherwise every call holds both.
  [[nodiscard]] virtual bool has_halves() const { return false; }

  /// Handles a packet or train. Qp has checked destination QPN, transport, P_Key and, if connected,
  /// the source. Caller holds the lock of the half that the packet is for.
  virtual void handle_packet(const Packet& packet, Instant now) = 0;

  /// The responder transmits responses, with at most `budget` calls of sink.send. True if more
  /// could be sent at once (budget used up or no room).
  virtual bool transmit_answers(TransmitSink& /*sink*/, unsigned& /*budget*/) { return false; }
  /// The same for the requester's requests.
  virtual bool transmit(TransmitSink& sink, Instant now, unsigned& budget) = 0;

  [[nodiscard]] virtual bool has_responses() const { return false; }
  [[nodiscard]] virtual bool needs_transmit() const = 0;
  /// When handle_timeout() is due; never if no timer runs.
  [[nodiscard]] virtual Instant deadline() const = 0;
  virtual void handle_timeout(Instant now) = 0;

  /// The QP changed its state; the attributes are already those of `to`.
  virtual void on_state_change(QpState from, QpState to) = 0;

  /// The driver reports that a packet of this QP or its answer was dropped, or that the peer is
  /// gone: timers count from now on (docs/ARCHITECTURE.md, decision 7). Drivers with silent loss
  /// (sim) configure LossModel::Lossy instead.
  virtual void on_loss() = 0;

  /// The QP uses another path from now on.
  virtual void on_migration() {}

  // For an XRC target whose domain other processes share (hca/xrc_relay.h), with the responder's
  // lock held: a proxy's response, the outcome of a request for a proxy, and a process that left
  // the domain.
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
