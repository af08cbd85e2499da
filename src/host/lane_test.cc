#include "host/lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "host/pair_memory.h"

namespace weft::host {
namespace {

constexpr uabi::ProcessAddress kA{.node = 0, .slot = 1};
constexpr uabi::ProcessAddress kB{.node = 3, .slot = 1};

/// The progress thread looks at lanes that wait for the daemon's answer, or that a new process
/// opens again from the other side: for the thread sanitizer.
TEST(Lane, OpensOnEitherSideWhileAThreadLooksAtIt) {
  const FabricMap map;
  TapSet taps;
  LiveLinks links;
  const auto memory = PairMemory::reserve();
  ASSERT_TRUE(memory) << memory.error().reason;
  std::atomic<std::uint32_t> waiting{0};
  Lane lane{0, 0, kA, kB, map, taps, links, waiting};
  std::atomic<bool> ends{false};
  std::thread looks{[&] {
    while (!ends.load(std::memory_order_relaxed)) {
      if (ring::Attention* const attention = lane.own_attention()) {
        ring::announce_awake(*attention);
      }
      lane.announce_sleep(ring::Sleep::Sound);
      EXPECT_FALSE(lane.space_is_wanted());
      static_cast<void>(lane.has_doorbell());
    }
  }};
  for (int i = 0; i < 1'000; ++i) {
    lane.open(**memory, i % 2 == 0 ? ring::LaneSide::A : ring::LaneSide::B);
  }
  ends.store(true, std::memory_order_relaxed);
  looks.join();
  EXPECT_EQ(lane.state(), LaneState::Open);
  lane.announce_sleep(ring::Sleep::Sound);
  EXPECT_FALSE(lane.has_doorbell());
}

}  // namespace
}  // namespace weft::host
