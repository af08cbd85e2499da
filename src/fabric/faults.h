#pragma once

// What rules of faults do to packets (docs/ARCHITECTURE.md, decision 8). The rules stand in the
// fabric's tables, so that every sender has them with its paths; how many packets each has met and
// hit is counted in memory that all processes of the fabric share, so that "every third" and "at
// most ten" hold over all of them. Whether the n-th packet of a rule with a probability is hit
// follows from the rule's seed and n alone.
//
// Threading: any. A liar can spoil the counts of rules, and so which packets of others are hit: no
// more than the rules allow to happen anyway.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/serial.h"
#include "base/time.h"
#include "fabric/path.h"
#include "fabric/tables.h"
#include "wire/opcode.h"

namespace weft::fabric {

/// The records of a rule that is not of kind Down: one for each of the ports that send on its
/// links, or a single one for every link of the fabric if `egresses` is empty.
[[nodiscard]] std::vector<FaultRecord> records_of(const FaultDescription& fault, std::uint32_t slot,
                                                  std::span<const PortIndex> egresses);

/// What rules look at in a packet.
struct FaultSubject {
  wire::Opcode opcode{};
  Lid slid;
  Lid dlid;
  Qpn dest_qp;
  Psn psn;
};

[[nodiscard]] bool matches(const FaultRecord& rule, const FaultSubject& packet);

struct FaultCount {
  std::uint64_t matched{};
  std::uint64_t hit{};
};

class FaultCounters {
 public:
  [[nodiscard]] static constexpr std::size_t bytes_needed() {
    return kMaxFaultRules * sizeof(Slot);
  }

  /// No counters: nothing is ever hit.
  FaultCounters() = default;

  /// `memory` is aligned to 64, zero when the fabric is new, and outlives this.
  [[nodiscard]] static FaultCounters open(MutableByteSpan memory);

  /// One more packet matches the rule: whether it is hit.
  [[nodiscard]] bool applies(const FaultRecord& rule);

  /// A rule of kind Down took one link down.
  void count_outage(std::uint32_t slot);

  [[nodiscard]] FaultCount read(std::uint32_t slot) const;
  void clear(std::uint32_t slot);

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> matched{};
    std::atomic<std::uint64_t> hit{};
  };
  std::span<Slot> slots_;
};

/// What becomes of one copy of a packet.
struct FaultEffect {
  enum class End : std::uint8_t { Arrives, Lost, Damaged };
  End end{End::Arrives};
  std::uint32_t hop{};  // where it is lost or damaged
  Duration held_back;
};

/// The packet itself first, then what was made of it.
struct FaultEffects {
  static constexpr std::size_t kMaxCopies = 4;  // policy: further duplicates are not made
  std::array<FaultEffect, kMaxCopies> copies{};
  std::size_t count{};

  [[nodiscard]] std::span<const FaultEffect> all() const { return std::span{copies}.first(count); }
};

/// A packet goes by links with these rules, in order of their hops.
[[nodiscard]] FaultEffects cross(std::span<const LinkFault> faults, const FaultSubject& packet,
                                 FaultCounters& counters);

}  // namespace weft::fabric
