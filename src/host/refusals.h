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
  [[nodiscard]] std::optional<std::uint64_t> count(uabi::Misbehaviour what, Instant now) {
    Kind& kind = kinds_.at(static_cast<std::size_t>(what) - 1);
    const std::uint64_t count = kind.count.fetch_add(1, std::memory_order_relaxed) + 1;
    if (what == uabi::Misbehaviour::CorruptRing) {
      return count == 1 ? std::optional{count} : std::nullopt;
    }
    std::int64_t due_ns = kind.due_ns.load(std::memory_order_relaxed);
    const std::int64_t now_ns = now.since_start().nanoseconds();
    if (count < (can_be_left_over(what) ? kLeftovers : 1) || now_ns < due_ns ||
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

  [[nodiscard]] static bool can_be_left_over(uabi::Misbehaviour what) {
    switch (what) {
      case uabi::Misbehaviour::CorruptRing:
      case uabi::Misbehaviour::MalformedRecord:
      case uabi::Misbehaviour::ForgedQpn:
      case uabi::Misbehaviour::ManagementQpn:
        return false;
      case uabi::Misbehaviour::ForgedSource:
      case uabi::Misbehaviour::ForgedPKey:
      case uabi::Misbehaviour::WrongDestination:
      case uabi::Misbehaviour::OthersConnection:
      case uabi::Misbehaviour::NobodyThere:
        return true;
    }
    return true;
  }

  std::array<Kind, uabi::kMisbehaviourCount> kinds_;
};

}  // namespace weft::host
