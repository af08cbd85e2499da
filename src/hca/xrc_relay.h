#pragma once

// XRC domains shared by several processes (IBTA vol 1 annex A14; docs/ARCHITECTURE.md, decisions 9
// to 11).
//
// A target QP lives in the process that created it, its *home*. The home runs the only responder of
// the connection: PSNs, MSN, opcode sequence, duplicates and responses are handled there, whatever
// SRQ a request names. Access to memory and to an SRQ of another process is left to that process,
// in which the target has a *proxy*: a target QP that programs do not see. The home sends it one
// request packet or train at a time over a lane, on a connection of its own with its own PSNs, and
// continues when the response has arrived. So NAKs, RNR NAKs and repeated requests need no new
// mechanism, and messages to different SRQs are executed in PSN order.
//
// - The process of an SRQ is part of its number, as with QPs (base/process_slot.h). The daemon
//   knows which processes have a file's domain open and forwards the messages between them: a
//   proxy is made only in a process that has the domain open. A proxy accepts packets only from
//   its home's process, and a home accepts responses only from the process it sent the request to
//   (see Qp).
// - Requests that arrive meanwhile are held, up to a limit; beyond it they are dropped, and the
//   initiator repeats them.
// - READs are fetched piece by piece when their response is due. The results of atomics are kept
//   at the home, so that a duplicate is not executed again.
// - A request that the proxy has not answered is sent to it again when the initiator repeats it.
// - If the owner of an SRQ dies or closes the domain, a request that names the SRQ is refused like
//   one that names a non-existing SRQ. If the home dies, proxies flush the current message and are
//   destroyed, and initiators receive no more responses. If the target leaves its connection, its
//   proxies are destroyed, too.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/serial.h"
#include "hca/packet.h"

namespace weft::hca {

/// The requests that one target QP has in progress with SRQs of other processes. State only:
/// RcResponder acts on it (rc/responder_relay.cc) under the responder's lock.
struct XrcRelay {
  /// Policy: limits on requests that wait.
  static constexpr std::size_t kMaxHeld = 1'024;
  static constexpr std::size_t kMaxHeldBytes = std::size_t{1} << 22;
  static constexpr std::uint32_t kMaxCallBytes = 8'192;  // fits in any ring at once

  /// A process for which a proxy exists or was requested. READs use a proxy of their own, since
  /// they are fetched while a message is in progress.
  struct Owner {
    std::uint32_t slot{};
    bool is_for_reads{};
    std::uint32_t serial{};    // of the request for this proxy
    std::optional<Qpn> proxy;  // nullopt until the driver has made it
    Psn next;                  // of the next request to it
  };

  /// The request that a proxy is executing.
  struct Call {
    bool is_active{};
    bool is_sent{};
    bool is_chunk{};  // one piece of a READ
    std::uint32_t slot{};
    std::uint32_t packets{};
    PacketHeader request;  // as received, or as generated
    std::vector<std::byte> payload;
  };

  /// A piece of the oldest READ, to be forwarded to the initiator.
  struct Chunk {
    enum class State : std::uint8_t { None, Fetching, Whole, Failed };
    State state{State::None};
    Psn psn;  // of its first response packet
    std::vector<std::byte> bytes;
  };

  /// A request that waits for the call in progress to end.
  struct Held {
    PacketHeader header;
    std::vector<std::byte> payload;
  };

  /// The proxy in process `slot`, existing or requested; null if there is none.
  [[nodiscard]] Owner* find(std::uint32_t slot, bool is_for_reads) {
    for (Owner& owner : owners) {
      if (owner.slot == slot && owner.is_for_reads == is_for_reads) {
        return &owner;
      }
    }
    return nullptr;
  }
  /// The owner that executes `call`.
  [[nodiscard]] Owner* callee() { return find(call.slot, call.is_chunk); }

  std::vector<Owner> owners;
  std::uint32_t serial{};  // of the newest request for a proxy
  Call call;
  Chunk chunk;
  std::deque<Held> held;
  std::size_t held_bytes{};
  bool has_dropped{};  // for lack of room
};

}  // namespace weft::hca
