#pragma once

// XRC domains of several processes (IBTA vol 1 annex A14; docs/ARCHITECTURE.md, decisions 9 to 11).
//
// A target QP is at home in the process that made it. It has the one responder of its connection:
// PSNs, MSN, opcode sequence, duplicates and answers are its business alone, whoever's SRQ a
// request names. What a request does to memory and to an SRQ of another process, that process does:
// there the target has a *proxy*, a target QP that programs do not see. The home hands it one
// request packet or train at a time by a lane, as the proxy's own connection with PSNs of its own,
// and goes on when the answer has come. So a NAK, an RNR NAK and a repeated request need nothing
// new, and the order of messages to different SRQs is that of their PSNs.
//
// - The process of an SRQ is in its number, as a QP's is (base/process_slot.h). The daemon knows
//   which processes have a file's domain open, and carries the words between them: a proxy is
//   made for who has the domain open, and of an SRQ of the domain. A proxy takes packets from its
//   home's process only, a home answers only from the process that it has asked (Qp).
// - What comes meanwhile is held, up to a limit; beyond that it is dropped and asked for again.
// - READs are fetched piece by piece when their turn to be answered comes. Atomics stay known at
//   the home, so that a repeated one is not executed again.
// - A request that the proxy has not answered is handed over again when its initiator repeats it.
// - The owner of an SRQ dies or closes the domain: its SRQs are gone, and a request that names one
//   is refused as any that names no SRQ. The home dies: proxies flush the message under way and
//   go; initiators hear nothing any more. The target leaves its connection: so do its proxies.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/serial.h"
#include "hca/packet.h"

namespace weft::hca {

/// What one target QP has under way with SRQs of other processes. State only; RcResponder acts on
/// it (rc_responder_relay.cc), under its lock.
struct XrcRelay {
  /// Policy: of requests that wait.
  static constexpr std::size_t kMaxHeld = 1'024;
  static constexpr std::size_t kMaxHeldBytes = std::size_t{1} << 22;
  static constexpr std::uint32_t kMaxCallBytes = 8'192;  // what any ring takes at once

  /// A proxy, or one that was asked for. READs have one of their own, since they are fetched while
  /// a message is under way.
  struct Owner {
    std::uint32_t slot{};
    bool is_for_reads{};
    std::uint32_t serial{};    // of the question for its proxy
    std::optional<Qpn> proxy;  // once there is one
    Psn next;                  // of the next request to it
  };

  /// The request that a proxy works on.
  struct Call {
    bool is_active{};
    bool is_sent{};
    bool is_chunk{};  // a piece of a READ
    std::uint32_t slot{};
    std::uint32_t packets{};
    PacketHeader request;  // as it came, or as it was made
    std::vector<std::byte> payload;
  };

  /// A piece of the oldest READ, to be passed on.
  struct Chunk {
    enum class State : std::uint8_t { None, Fetching, Whole, Failed };
    State state{State::None};
    Psn psn;  // of its first response packet
    std::vector<std::byte> bytes;
  };

  struct Held {
    PacketHeader header;
    std::vector<std::byte> payload;
  };

  [[nodiscard]] Owner* find(std::uint32_t slot, bool is_for_reads) {
    for (Owner& owner : owners) {
      if (owner.slot == slot && owner.is_for_reads == is_for_reads) {
        return &owner;
      }
    }
    return nullptr;
  }
  /// Of the call.
  [[nodiscard]] Owner* callee() { return find(call.slot, call.is_chunk); }

  std::vector<Owner> owners;
  std::uint32_t serial{};  // of the newest question
  Call call;
  Chunk chunk;
  std::deque<Held> held;
  std::size_t held_bytes{};
  bool has_dropped{};  // for want of room
};

}  // namespace weft::hca
