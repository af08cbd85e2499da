#pragma once

// Receive side scaling: a UD QP spreads the IPoIB packets that it receives over work queues by a
// hash of their addresses and ports, so that the packets of a flow stay in order in one queue
// (R-WQ-2). The hash and the order of its input are those of Ethernet devices.

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "hca/work_queue.h"
#include "verbs/receive_hash.h"

namespace weft::hca {

/// The Toeplitz hash of `input`, of at most 36 bytes: for each bit of it that is set, the 32 bits
/// of the key from that bit's place on.
[[nodiscard]] std::uint32_t toeplitz_hash(
    const std::array<std::byte, verbs::kReceiveHashKeyBytes>& key, ByteSpan input);

/// The hash of a datagram's payload, which is an encapsulated IP packet (RFC 4391 §6): source and
/// destination address, source and destination port, as far as `by` has them and the packet has
/// them. Fragments have no ports, and packets of IPv6 none of the fields where addresses of IPv4
/// are wanted. 0: it has none of the fields.
[[nodiscard]] std::uint32_t receive_hash(const verbs::ReceiveHash& by, ByteSpan payload);

/// Work queues by the low bits of a hash; a power of two of entries, the same queue in several if
/// wanted. Does not change.
class IndirectionTable {
 public:
  static constexpr std::uint32_t kMaxLog2 = 10;  ///< policy
  static constexpr std::uint32_t kMaxEntries = 1U << kMaxLog2;

  explicit IndirectionTable(std::span<WorkQueue* const> queues)
      : queues_(queues.begin(), queues.end()) {
    WEFT_ASSERT(std::has_single_bit(queues_.size()), "Hca creates no other table");
  }

  [[nodiscard]] WorkQueue& queue_of(std::uint32_t hash) const {
    return *queues_[hash & (queues_.size() - 1)];
  }
  [[nodiscard]] std::span<WorkQueue* const> queues() const { return queues_; }

  std::atomic<std::uint32_t> uses{};  ///< QPs that receive through it

 private:
  std::vector<WorkQueue*> queues_;
};

/// How a QP without a receive queue receives.
struct ReceiveScaling {
  IndirectionTable* table{};  ///< null: the QP has a receive queue
  verbs::ReceiveHash hash{};
};

}  // namespace weft::hca
