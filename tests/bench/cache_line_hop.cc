// How long a cache line takes from one core to another: the floor of every latency that Weft can
// have.
//
// Two threads, each pinned to a CPU, hand one counter back and forth. A hop is half a round trip.
// Prints one JSON object with the median of several runs for each pair of CPUs, and the best and
// the median pair.

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ratio>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kRoundTrips = 200'000;  // policy: some 50 ms a run
constexpr int kRuns = 3;                        // policy
constexpr std::size_t kPairsMax = 28;           // policy: every pair of 8 CPUs

struct alignas(128) Line {
  std::atomic<std::uint32_t> turn{0};
};

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return cpus;
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/// Waits for `mine`, answers with the next number, `kRoundTrips` times.
void play(Line& line, std::uint32_t first, int cpu) {
  pin_to(cpu);
  std::uint32_t mine = first;
  for (std::uint32_t trip = 0; trip < kRoundTrips; ++trip) {
    while (line.turn.load(std::memory_order_acquire) != mine) {
    }
    line.turn.store(mine + 1, std::memory_order_release);
    mine += 2;
  }
}

double nanoseconds_per_hop(int cpu_a, int cpu_b) {
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    Line line;
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&line, cpu_b] { play(line, 1, cpu_b); });
    std::thread one([&line, cpu_a] { play(line, 0, cpu_a); });
    one.join();
    other.join();
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    runs.push_back(elapsed.count() / (2.0 * kRoundTrips));
  }
  std::ranges::sort(runs);
  return runs[runs.size() / 2];
}

}  // namespace

int main() {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) {
    std::puts(R"({"pairs": [], "reason": "one CPU only: no hop to measure"})");
    return 0;
  }
  std::vector<double> hops;
  std::string pairs;
  for (std::size_t a = 0; a < cpus.size(); ++a) {
    for (std::size_t b = a + 1; b < cpus.size() && hops.size() < kPairsMax; ++b) {
      hops.push_back(nanoseconds_per_hop(cpus[a], cpus[b]));
      pairs += (pairs.empty() ? "" : ", ") + std::string("{\"cpus\": [") + std::to_string(cpus[a]) +
               ", " + std::to_string(cpus[b]) + "], \"hop_ns\": " + std::to_string(hops.back()) +
               "}";
    }
  }
  std::ranges::sort(hops);
  std::printf("{\"best_hop_ns\": %.1f, \"median_hop_ns\": %.1f, \"pairs\": [%s]}\n", hops.front(),
              hops[hops.size() / 2], pairs.c_str());
  return 0;
}
