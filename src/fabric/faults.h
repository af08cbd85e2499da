#pragma once

// How fault rules affect packets (docs/ARCHITECTURE.md, decision 8). Rules are part of the fabric's
// tables, so senders get them with their paths. How many packets each rule has matched and hit is
// counted in memory shared by all processes of the fabric, so that "every third" and "at most ten"
// hold across them. For a rule with a probability, the seed and n alone determine whether the n-th
// matching packet is hit.
//
// Threads: any. A hostile process can corrupt the counts of rules, and so change which packets of
// others are hit, but cause nothing that the rules would not allow.

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

/// The records of a rule of a kind other than Down: one for each sending port of its links, or a
/// single one for all links of the fabric if `egresses` is empty.
[[nodiscard]] std::vector<FaultRecord> records_of(const FaultDescription& fault, std::uint32_t slot,
                                                  std::span<const PortIndex> egresses);

/// The fields of a packet that rules match.
struct FaultSubject {
  wire::Opcode opcode{};
  Lid slid;
  Lid dlid;
  Qpn dest_qp;
  Psn psn;
};

/// True if the rule concerns this packet.
[[nodiscard]] bool matches(const FaultRecord& rule, const FaultSubject& packet);

/// What one rule has done so far.
struct FaultCount {
  std::uint64_t matched{};
  std::uint64_t hit{};
};

/// The counts of all rules of a fabric, in shared memory.
class FaultCounters {
 public:
  /// Memory needed for the counts of a fabric.
  [[nodiscard]] static constexpr std::size_t bytes_needed() {
    return kMaxFaultRules * sizeof(Slot);
  }

  /// No counters: no packet is ever hit.
  FaultCounters() = default;

  /// `memory` must be aligned to 64, zero when the fabric is new, and outlive this object.
  [[nodiscard]] static FaultCounters open(MutableByteSpan memory);

  /// Counts a packet that matches `rule`; true if the rule hits it.
  [[nodiscard]] bool applies(const FaultRecord& rule);

  /// A rule of kind Down took a link down.
  void count_outage(std::uint32_t slot);

  /// The counts of the rule in `slot`.
  [[nodiscard]] FaultCount read(std::uint32_t slot) const;
  /// Resets the counts of a slot, for a new rule.
  void clear(std::uint32_t slot);

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> matched{};
    std::atomic<std::uint64_t> hit{};
  };
  std::span<Slot> slots_;
};

/// The fate of one copy of a packet.
struct FaultEffect {
  enum class End : std::uint8_t { Arrives, Lost, Damaged };
  End end{End::Arrives};
  std::uint32_t hop{};  // where it is lost or corrupted
  Duration held_back;
};

/// The packet itself first, then duplicates made by rules.
struct FaultEffects {
  static constexpr std::size_t kMaxCopies = 4;  // policy: beyond it, no duplicates are made
  std::array<FaultEffect, kMaxCopies> copies{};
  std::size_t count{};

  [[nodiscard]] std::span<const FaultEffect> all() const { return std::span{copies}.first(count); }
};

/// Applies `faults`, in order of their hops, to a packet that crosses those links.
[[nodiscard]] FaultEffects cross(std::span<const LinkFault> faults, const FaultSubject& packet,
                                 FaultCounters& counters);

}  // namespace weft::fabric
