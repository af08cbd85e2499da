#include "sim/network.h"

#include <algorithm>
#include <utility>

namespace weft::sim {

void Network::send(Lid from, Lid to, const std::vector<std::byte>& bytes, Instant now) {
  ++sent_;
  const auto is_cut = [&](const auto& cut) {
    return (cut.first == from && cut.second == to) || (cut.first == to && cut.second == from);
  };
  if (std::ranges::any_of(cuts_, is_cut) || random_.chance(faults_.loss, 10'000)) {
    return;
  }
  if (random_.chance(faults_.duplication, 10'000)) {
    schedule(to, bytes, now);
  }
  if (random_.chance(faults_.corruption, 10'000)) {
    std::vector<std::byte> damaged = bytes;
    const std::uint64_t bit = random_.below(damaged.size() * 8);
    damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    schedule(to, damaged, now);
    return;
  }
  schedule(to, bytes, now);
}

void Network::schedule(Lid to, const std::vector<std::byte>& bytes, Instant now) {
  const auto spread =
      static_cast<std::uint64_t>((faults_.delay_max - faults_.delay_min).nanoseconds());
  Duration delay = faults_.delay_min +
                   Duration::nanoseconds(static_cast<std::int64_t>(random_.below(spread + 1)));
  if (faults_.lateness != 0 && random_.chance(faults_.lateness, 10'000)) {
    delay = delay + Duration::nanoseconds(static_cast<std::int64_t>(random_.below(
                        static_cast<std::uint64_t>(faults_.late_by.nanoseconds()) + 1)));
  }
  heap_.push({.at = now + delay, .order = order_++, .to = to, .bytes = bytes});
}

Network::Arrival Network::take() {
  Arrival arrival = heap_.top();
  heap_.pop();
  return arrival;
}

void Network::partition(Lid a, Lid b, bool cut) {
  if (cut) {
    cuts_.emplace_back(a, b);
    return;
  }
  std::erase(cuts_, std::pair{a, b});
}

}  // namespace weft::sim
