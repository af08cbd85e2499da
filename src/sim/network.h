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

/// What a network does to packets, in parts of 10,000; delays are uniform in [delay_min,
/// delay_max], which also reorders unless they are the same.
struct FaultOptions {
  std::uint32_t loss{};
  std::uint32_t duplication{};
  std::uint32_t corruption{};
  std::uint32_t lateness{};  ///< up to `late_by` more, so that others overtake
  Duration late_by{};
  Duration delay_min{Duration::nanoseconds(500)};
  Duration delay_max{Duration::microseconds(5)};
};

/// A network that carries bytes between LIDs under a seed: loses, repeats, delays, reorders and
/// damages them, cuts pairs off and forgets the dead. Deterministic: what it does follows from the
/// seed and the order of calls.
class Network {
 public:
  Network(std::uint64_t seed, const FaultOptions& faults) : random_(seed), faults_(faults) {}

  struct Arrival {
    Instant at;
    std::uint64_t order{};
    Lid to;
    std::vector<std::byte> bytes;
  };

  void send(Lid from, Lid to, const std::vector<std::byte>& bytes, Instant now);

  /// When the next packet arrives; never if none is under way.
  [[nodiscard]] Instant next_arrival() const {
    return heap_.empty() ? Instant::never() : heap_.top().at;
  }

  /// The packet that arrives at next_arrival().
  Arrival take();

  /// Nothing passes between the two from now on, or again.
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
