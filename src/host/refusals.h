#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "uabi/messages.h"

namespace weft::host {

/// Counts refused records of one peer by reason (docs/ARCHITECTURE.md, decision 11). Used only when
/// a record is refused. Any thread.
class Refusals {
 public:
  /// Policy: least time between two reports of one reason, and how many records an honest peer may
  /// leave behind for a QP that is gone or tables that have changed: a few full rings.
  static constexpr Duration kPause = Duration::seconds(1);
  static constexpr std::uint64_t kLeftovers = 4'096;

  /// Counts a refusal. Returns the total when it is time to report to the daemon: for faults that
  /// only a hostile peer can cause, at once; for a corrupt ring, which stays corrupt, once.
  [[nodiscard]] std::optional<std::uint64_t> count(uabi::RecordFault what, Instant now) {
    Kind& kind = kinds_.at(static_cast<std::size_t>(what) - 1);
    const std::uint64_t count = kind.count.fetch_add(1, std::memory_order_relaxed) + 1;
    if (what == uabi::RecordFault::CorruptRing) {
      return count == 1 ? std::optional{count} : std::nullopt;
    }
    std::int64_t due_ns = kind.due_ns.load(std::memory_order_relaxed);
    const std::int64_t now_ns = now.since_start().nanoseconds();
    if (count < (may_be_stale(what) ? kLeftovers : 1) || now_ns < due_ns ||
        !kind.due_ns.compare_exchange_strong(due_ns, now_ns + kPause.nanoseconds())) {
      return std::nullopt;
    }
    return count;
  }

 private:
  struct Kind {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::int64_t> due_ns{0};
  };

  [[nodiscard]] static bool may_be_stale(uabi::RecordFault what) {
    switch (what) {
      case uabi::RecordFault::CorruptRing:
      case uabi::RecordFault::MalformedRecord:
      case uabi::RecordFault::ForgedQpn:
      case uabi::RecordFault::ManagementQpn:
        return false;
      case uabi::RecordFault::ForgedSource:
      case uabi::RecordFault::ForgedPKey:
      case uabi::RecordFault::WrongDestination:
      case uabi::RecordFault::ConnectedElsewhere:
      case uabi::RecordFault::NoSuchQp:
        return true;
    }
    return true;
  }

  std::array<Kind, uabi::kRecordFaultCount> kinds_;
};

}  // namespace weft::host
