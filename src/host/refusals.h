#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "uabi/messages.h"

namespace weft::host {

/// What was refused of one peer's records, by reason (docs/ARCHITECTURE.md, decision 11). Touched
/// only when something is refused. Any thread.
class Refusals {
 public:
  /// How often the daemon hears of one reason, and how many records an honest peer may leave behind
  /// for a QP that is gone or tables that have changed: a few rings full. Policy.
  static constexpr Duration kPause = Duration::seconds(1);
  static constexpr std::uint64_t kLeftovers = 4'096;

  /// Counts one; how many there were when it is time to tell the daemon. What only a liar can send
  /// is told at once; a corrupt ring, which stays so, once.
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
