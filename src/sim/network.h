#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/random.h"
#include "base/time.h"

namespace weft::sim {

/// Faults of a network, as probabilities in 1/10,000. Delays are uniform in [delay_min, delay_max],
/// which also reorders packets unless both are equal.
struct FaultOptions {
  std::uint32_t loss{};
  std::uint32_t duplication{};
  std::uint32_t corruption{};
  /// packets delayed by up to `late_by` more, so that later ones overtake
  std::uint32_t lateness{};
  Duration late_by{};
  Duration delay_min{Duration::nanoseconds(500)};
  Duration delay_max{Duration::microseconds(5)};
};

/// A simulated network that carries bytes between LIDs with loss, duplication, corruption, delay,
/// reordering and partitions. Deterministic: determined by the seed and the order of calls.
class Network {
 public:
  Network(std::uint64_t seed, const FaultOptions& faults) : random_(seed), faults_(faults) {}

  /// A packet in flight.
  struct Arrival {
    Instant at;
    std::uint64_t order{};
    Lid to;
    std::vector<std::byte> bytes;
  };

  void send(Lid from, Lid to, const std::vector<std::byte>& bytes, Instant now);

  /// When the next packet arrives; never if none is in flight.
  [[nodiscard]] Instant next_arrival() const {
    return heap_.empty() ? Instant::never() : heap_.top().at;
  }

  /// Removes and returns the packet that arrives at next_arrival().
  Arrival take();

  /// Cuts or restores the connection between two LIDs.
  void partition(Lid a, Lid b, bool cut);

  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  struct Later {
    bool operator()(const Arrival& a, const Arrival& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  void schedule(Lid to, const std::vector<std::byte>& bytes, Instant now);

  Random random_;
  FaultOptions faults_;
  std::priority_queue<Arrival, std::vector<Arrival>, Later> heap_;
  std::vector<std::pair<Lid, Lid>> cuts_;
  std::uint64_t order_{};
  std::uint64_t sent_{};
};

}  // namespace weft::sim
