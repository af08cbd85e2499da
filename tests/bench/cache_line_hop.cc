// How long a cache line takes from one core to another, and how many of them a second: the floor
// of every latency and the ceiling of every message rate that Weft can have.
//
//   weft_cache_line_hop [RUNS]
//
// Hop: two threads, each pinned to a CPU, hand one counter back and forth; a hop is half a round
// trip, the best of RUNS (default 5) for each pair of CPUs. Stream: between the nearest pair, one
// thread fills a ring of lines and the other empties it. Prints one JSON object.

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ratio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::uint32_t kRoundTrips = 50'000;  // policy: some 10 ms a run
constexpr std::uint32_t kLines = 2'000'000;    // policy: some 30 ms a run
constexpr std::size_t kRing = 256;             // policy: well inside L1
constexpr int kDefaultRuns = 5;                // policy
constexpr std::size_t kPairsMax = 28;          // policy: every pair of 8 CPUs

struct alignas(128) Line {
  std::atomic<std::uint32_t> turn{0};
};

using Pair = std::pair<int, int>;

struct Hop {
  double nanoseconds;
  Pair cpus;
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

void wait_for(const Line& line, std::uint32_t turn) {
  while (line.turn.load(std::memory_order_acquire) != turn) {
  }
}

/// Waits for `mine`, answers with the next number, `kRoundTrips` times.
void play(Line& line, std::uint32_t first) {
  std::uint32_t mine = first;
  for (std::uint32_t trip = 0; trip < kRoundTrips; ++trip) {
    wait_for(line, mine);
    line.turn.store(mine + 1, std::memory_order_release);
    mine += 2;
  }
}

/// A line of the ring is empty at 0; one hop brings it over, full, and one hop back, empty.
void stream(std::array<Line, kRing>& ring, bool fills) {
  for (std::uint32_t number = 0; number < kLines; ++number) {
    Line& line = ring[number % kRing];
    wait_for(line, fills ? 0 : 1);
    line.turn.store(fills ? 1 : 0, std::memory_order_release);
  }
}

/// The time of both, each on its own CPU and begun when both are there.
template <class One, class Other>
double nanoseconds_of(Pair cpus, One one, Other other) {
  std::atomic<int> ready{0};
  const auto run = [&ready](int cpu, auto& work) {
    pin_to(cpu);
    ready.fetch_add(1);
    while (ready.load() != 2) {
    }
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
        .count();
  };
  std::thread second([&] { run(cpus.second, other); });
  double elapsed = 0;
  std::thread first([&] { elapsed = run(cpus.first, one); });
  first.join();
  second.join();
  return elapsed;
}

double nanoseconds_per_hop(Pair cpus, int runs) {
  std::vector<double> hops;
  for (int run = 0; run < runs; ++run) {
    Line line;
    hops.push_back(
        nanoseconds_of(cpus, [&] { play(line, 0); }, [&] { play(line, 1); }) / (2.0 * kRoundTrips));
  }
  return std::ranges::min(hops);
}

double million_lines_per_s(Pair cpus, int runs) {
  std::vector<double> rates;
  for (int run = 0; run < runs; ++run) {
    std::array<Line, kRing> ring;
    rates.push_back(
        kLines * 1e3 /
        nanoseconds_of(cpus, [&] { stream(ring, false); }, [&] { stream(ring, true); }));
  }
  return std::ranges::max(rates);
}

}  // namespace

int main(int count, char** words) {
  const int runs = std::max(count > 1 ? std::atoi(words[1]) : kDefaultRuns, 1);
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) {
    std::puts(R"({"pairs": [], "reason": "one CPU only: no hop to measure"})");
    return 0;
  }
  std::vector<Hop> hops;
  std::string pairs;
  for (std::size_t a = 0; a < cpus.size(); ++a) {
    for (std::size_t b = a + 1; b < cpus.size() && hops.size() < kPairsMax; ++b) {
      const Pair pair{cpus[a], cpus[b]};
      hops.push_back({.nanoseconds = nanoseconds_per_hop(pair, runs), .cpus = pair});
      pairs += (pairs.empty() ? "" : ", ") + std::string("{\"cpus\": [") + std::to_string(cpus[a]) +
               ", " + std::to_string(cpus[b]) +
               "], \"hop_ns\": " + std::to_string(hops.back().nanoseconds) + "}";
    }
  }
  std::ranges::sort(hops, {}, &Hop::nanoseconds);
  const Pair nearest = hops.front().cpus;
  std::printf(
      "{\"best_hop_ns\": %.1f, \"median_hop_ns\": %.1f, \"nearest_cpus\": [%d, %d], "
      "\"million_lines_per_s\": %.2f, \"pairs\": [%s]}\n",
      hops.front().nanoseconds, hops[hops.size() / 2].nanoseconds, nearest.first, nearest.second,
      million_lines_per_s(nearest, runs), pairs.c_str());
  return 0;
}
