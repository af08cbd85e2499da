#include "live_switch.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace weft {
namespace {

std::atomic<LiveBug> planted_bug{LiveBug::None};
std::atomic<std::uint32_t> nets_taken_away{0};

constexpr std::chrono::milliseconds kPause{20};

[[nodiscard]] std::uint32_t bit(SafetyNet net) { return 1U << static_cast<std::uint32_t>(net); }

}  // namespace

bool planted(LiveBug bug) { return planted_bug.load() == bug; }

bool planted_late(LiveBug bug) {
  if (!planted(bug)) {
    return false;
  }
  std::this_thread::sleep_for(kPause);
  return true;
}

bool has(SafetyNet net) { return (nets_taken_away.load() & bit(net)) == 0; }

Planting::Planting(LiveBug bug, std::span<const SafetyNet> taken_away) {
  for (const SafetyNet net : taken_away) {
    nets_taken_away.fetch_or(bit(net));
  }
  planted_bug.store(bug);
}

Planting::~Planting() {
  planted_bug.store(LiveBug::None);
  nets_taken_away.store(0);
}

}  // namespace weft
