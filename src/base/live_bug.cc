#include "base/live_bug.h"

#ifdef WEFT_PLANTED_BUGS

#include <atomic>

namespace weft {
namespace {

// Relaxed, because the switch must not order the threads whose bugs it enables.
constinit std::atomic<LiveBug> planted_bug{LiveBug::None};
constinit std::atomic<std::uint32_t> missing_nets{0};
constinit std::atomic<void (*)()> pause_hook{nullptr};

[[nodiscard]] std::uint32_t bit(SafetyNet net) { return 1U << static_cast<std::uint32_t>(net); }

}  // namespace

bool planted(LiveBug bug) { return planted_bug.load(std::memory_order_relaxed) == bug; }

bool planted_late(LiveBug bug) {
  if (!planted(bug)) {
    return false;
  }
  if (void (*const pause)() = pause_hook.load(std::memory_order_relaxed); pause != nullptr) {
    pause();
  }
  return true;
}

bool has(SafetyNet net) { return (missing_nets.load(std::memory_order_relaxed) & bit(net)) == 0; }

void plant(const LivePlan& plan) {
  std::uint32_t nets = 0;
  for (const SafetyNet net : plan.missing_nets) {
    nets |= bit(net);
  }
  pause_hook.store(plan.pause, std::memory_order_relaxed);
  missing_nets.store(nets, std::memory_order_relaxed);
  planted_bug.store(plan.bug, std::memory_order_relaxed);
}

}  // namespace weft

#endif
