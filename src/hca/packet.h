#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/deth.h"
#include "wire/feth.h"
#include "wire/grh.h"
#include "wire/opcode.h"
#include "wire/reth.h"

namespace weft::hca {

/// The headers of one packet in parsed form, or of a *train*: `packet_count` consecutive packets of
/// one message described once (docs/ARCHITECTURE.md, decision 2). In a train, `opcode` and `psn`
/// are the first packet's, `last_opcode` the last one's; all but the last carry exactly
/// `path_mtu_bytes` of payload. RETH, AtomicETH and DETH belong to the first packet, the immediate
/// or invalidated key and `ack_request` and `solicited` to the last; AETH to each that carries one.
/// Which extension is meaningful follows from the opcodes (wire::opcode_info).
struct PacketHeader {
  // In the order of a record's first words (packet_record.cc), which are copied whole.
  wire::Opcode opcode{};
  wire::Opcode last_opcode{};
  bool solicited : 1 {};
  bool ack_request : 1 {};
  bool migrated : 1 {true};
  bool has_grh : 1 {};
  /// Named so that it is zero: the bits are in a record's first word, whose reader refuses them.
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
    } flush;  // its RETH is `reth`, too
    wire::AtomicEth atomic_eth;
    wire::Deth deth;
    struct {
      wire::Aeth aeth;
      wire::AtomicAckEth atomic_ack;
    } response;
  } extension;
  wire::Grh grh;  // meaningful with has_grh; lengths and versions are made when bytes are
  std::uint32_t xrc_srqn{};  // XRCETH: of every request packet of XRC
};

/// A packet or train as a receiver sees it. `payload` excludes pad bytes and may lie in memory that
/// a hostile peer still writes: read each byte once.
struct Packet {
  PacketHeader header;
  ByteSpan payload;
  std::uint32_t source_slot{};  // of the process it came from, if the carrier knows; else 0
  bool is_loopback{};           // a multicast copy, for the members on the port that sent it
};

/// Which of a lane's rings a packet belongs to (docs/ARCHITECTURE.md, decision 5).
enum class Flow : std::uint8_t { Request, Response };

/// A packet of a connected QP as the usual one is: a whole message or an acknowledgement, without a
/// GRH, on a path that was used before. It is a ring record in words (packet_record.h): the three
/// that every record begins with, of which most was made when the path was, then what its opcode
/// has besides, then the payload.
struct SinglePacket {
  std::uint64_t first{};
  std::uint64_t addresses{};
  std::uint64_t third{};
  std::uint64_t extension_low{};   // with 8 extension bytes or more
  std::uint64_t extension_high{};  // with 16
  std::uint32_t extension_bytes{};
  std::uint32_t immediate{};
  bool has_immediate{};
  ByteSpan payload;
};

/// Where engines put packets. Called under the QP's lock; copies what it needs before it returns.
class TransmitSink {
 public:
  virtual ~TransmitSink() = default;

  /// Longest train, in payload bytes, that the carrier takes at once; 0 or less than an MTU means
  /// single packets only.
  [[nodiscard]] virtual std::uint32_t max_train_bytes() const = 0;

  /// Sends a packet or train whose payload is the concatenation of `gather`. False: no room now,
  /// nothing was taken; the engine keeps its state and is asked again.
  [[nodiscard]] virtual bool send(Flow flow, const PacketHeader& header,
                                  std::span<const ByteSpan> gather) = 0;

  /// The fast path, for a packet whose path is open and has nothing to say: one that takes no
  /// time, has no faults and no capture, towards a ring that has room. False: this packet is none
  /// of those, or the carrier has no such way; nothing was taken, and send() knows what to do.
  [[nodiscard]] virtual bool send_fast(Flow /*flow*/, const SinglePacket& /*packet*/) {
    return false;
  }

  /// A request of a connected QP to somebody else than its peer: where the header says.
  [[nodiscard]] virtual bool send_to_proxy(const PacketHeader& header,
                                           std::span<const ByteSpan> gather) {
    return send(Flow::Request, header, gather);
  }
};

}  // namespace weft::hca
