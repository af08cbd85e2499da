#include "live_switch.h"

#include <chrono>
#include <thread>

namespace weft {
namespace {

void pause_for_the_race() { std::this_thread::sleep_for(std::chrono::milliseconds{20}); }

}  // namespace

Planting::Planting(LiveBug bug, std::span<const SafetyNet> missing_nets) {
  plant({.bug = bug, .missing_nets = missing_nets, .pause = pause_for_the_race});
}

Planting::~Planting() { plant({}); }

}  // namespace weft
