#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "base/time.h"
#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/deth.h"
#include "wire/feth.h"
#include "wire/grh.h"
#include "wire/opcode.h"
#include "wire/reth.h"

namespace weft::hca {

/// The parsed headers of one packet, or of a *train*: `packet_count` consecutive packets of one
/// message, described once (docs/ARCHITECTURE.md, decision 2). In a train, `opcode` and `psn` are
/// those of the first packet and `last_opcode` that of the last; every packet but the last carries
/// exactly `path_mtu_bytes` of payload. RETH, AtomicETH and DETH belong to the first packet;
/// immediate data, invalidated key, `ack_request` and `solicited` to the last; the AETH to each
/// packet whose opcode has one. The opcodes determine which extension is valid (wire::opcode_info).
struct PacketHeader {
  // The first words are copied into a ring record as they lie here (packet_record.cc): keep the
  // order.
  wire::Opcode opcode{};
  wire::Opcode last_opcode{};
  bool solicited : 1 {};
  bool ack_request : 1 {};
  bool migrated : 1 {true};
  bool has_grh : 1 {};
  /// Named so that it is initialised: these bits are part of a record's first word, whose reader
  /// refuses any that are set.
  unsigned char unused_flags : 4 {};
  ServiceLevel sl;
  std::uint16_t packet_count{1};
  std::uint16_t path_mtu_bytes{};
  Qpn dest_qp;
  Psn psn;
  PKey pkey;
  Lid slid;
  Lid dlid;
  std::uint32_t immediate_or_rkey{};  // ImmDt or IETH
  union Extension {
    constexpr Extension() : reth{} {}
    wire::Reth reth;
    struct {
      wire::Reth reth;
      wire::Feth feth;
    } flush;  // `reth` overlays PacketHeader::Extension::reth
    wire::AtomicEth atomic_eth;
    wire::Deth deth;
    struct {
      wire::Aeth aeth;
      wire::AtomicAckEth atomic_ack;
    } response;
  } extension;
  wire::Grh
      grh;  // valid if has_grh; lengths and version are filled in when the packet is serialised
  std::uint32_t xrc_srqn{};  // XRCETH, present in every XRC request packet
};

/// A packet or train as its receiver sees it. `payload` excludes pad bytes and may lie in memory
/// that a hostile peer can still write, so each byte must be read only once.
struct Packet {
  PacketHeader header;
  ByteSpan payload;
  std::uint32_t source_slot{};  // process slot of the sender, if the driver knows it; else 0
  bool is_loopback{};           // multicast copy for the members on the sending port itself
};

/// Which of a lane's rings a packet belongs to (docs/ARCHITECTURE.md, decision 5).
enum class Flow : std::uint8_t { Request, Response };

/// A packet of the most frequent kind: from a connected QP, a complete message or an
/// acknowledgement, without a GRH, on a path that has been used before. Its members are the words
/// of a ring record (packet_record.h): the three fixed words, mostly precomputed when the path was
/// set up, then the opcode's extension, then the payload.
struct SinglePacket {
  std::uint64_t first{};
  std::uint64_t addresses{};
  std::uint64_t third{};
  std::uint64_t extension_low{};   // valid if extension_bytes >= 8
  std::uint64_t extension_high{};  // valid if extension_bytes == 16
  std::uint32_t extension_bytes{};
  std::uint32_t immediate{};
  bool has_immediate{};
  ByteSpan payload;
};

struct Placement;
enum class PlacementMeans : std::uint8_t;
struct PlacementTarget;

/// Destination of the packets that an engine transmits. Called with the QP's lock held; must copy
/// what it needs before it returns.
class TransmitSink {
 public:
  virtual ~TransmitSink() = default;

  /// Longest train that send() accepts, in payload bytes. Less than one path MTU means single
  /// packets only.
  [[nodiscard]] virtual std::uint32_t max_train_bytes() const = 0;

  /// Sends a packet or train whose payload is the concatenation of `gather`. False if there is no
  /// room: nothing was sent, and the engine keeps its state and retries on a later transmit call.
  [[nodiscard]] virtual bool send(Flow flow, const PacketHeader& header,
                                  std::span<const ByteSpan> gather) = 0;

  /// Fast path for a packet to which nothing special applies: no link delay, no fault rule, no
  /// capture, and a ring with room. False if this does not hold or the sink has no fast path:
  /// nothing was sent, and the caller must use send().
  [[nodiscard]] virtual bool send_fast(Flow /*flow*/, const SinglePacket& /*packet*/) {
    return false;
  }

  // Direct placement (hca/placement.h), for the connected peer of an RC QP. A sink that offers none
  // sends packets.

  /// By what place() would move the bytes, if it is tried once nothing of the QP is under way.
  [[nodiscard]] virtual PlacementMeans may_place(const PlacementTarget& /*target*/) {
    return PlacementMeans{};
  }
  /// Moves the bytes, and says by what. PlacementMeans::None if that is not allowed or failed: what
  /// was moved is moved again, by packets.
  [[nodiscard]] virtual PlacementMeans place(const Placement& /*part*/) { return PlacementMeans{}; }
  /// The time after place(), of a message that was begun at `start`.
  [[nodiscard]] virtual Instant time_after(Instant start) const { return start; }

  /// Sends a request of a connected QP to the destination in `header`, which is not its peer.
  [[nodiscard]] virtual bool send_to_proxy(const PacketHeader& header,
                                           std::span<const ByteSpan> gather) {
    return send(Flow::Request, header, gather);
  }
};

}  // namespace weft::hca
