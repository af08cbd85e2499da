#pragma once

// Puts TCP packets of the same connection that come one after the other together, so that a host's
// IP stack takes them as one; it would be told of each by a system call. A packet joins only if the
// stack could not tell the result from one that the sender's stack cut up: headers that differ in
// nothing but what segments differ in, and right checksums. Whatever else comes, is handed over
// unchanged, behind what came before it. Pure, not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "ulp/offload/offload.h"
#include "ulp/offload/tcp_packet.h"

namespace weft::offload {

class Coalescer {
 public:
  using Sink = std::function<void(const Offload&, ByteSpan)>;

  /// `sink` takes what is to be handed over; it is valid during the call.
  explicit Coalescer(Sink sink) : sink_(std::move(sink)) {}

  /// A packet, or a frame whose IP header is at `network_at`, that has come. Not trusted.
  void add(ByteSpan packet, std::size_t network_at = 0);
  /// A packet that is handed over as it is, with what is left to do of it.
  void pass(const Offload& offload, ByteSpan packet, std::size_t network_at = 0);
  /// Hands over what it holds: before its owner waits.
  void flush();

 private:
  static constexpr std::size_t kFlows = 8;                 ///< policy
  static constexpr std::size_t kMostBytes = 65'535;        ///< of an IP packet
  static constexpr std::size_t kMostHeaderBytes = 0xFFFF;  ///< of Offload::header_bytes

  /// Packets of one connection that were put together. Empty: none.
  struct Held {
    std::vector<std::byte> bytes;
    TcpPacket at{};
    std::size_t segment_bytes{};
    std::uint32_t next_sequence{};
    bool is_one{};  ///< one packet, unchanged
    std::uint64_t age{};
  };

  [[nodiscard]] Held* find(ByteSpan packet, const TcpPacket& at);
  [[nodiscard]] static bool may_join(const Held& held, ByteSpan packet, const TcpPacket& at);
  void join(Held& held, ByteSpan packet, const TcpPacket& at);
  void hold(ByteSpan packet, const TcpPacket& at);
  void release(Held& held);

  Sink sink_;
  std::array<Held, kFlows> held_;
  std::uint64_t last_age_{};
};

}  // namespace weft::offload
