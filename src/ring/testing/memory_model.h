#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weft::ring::testing {

inline constexpr std::size_t kMaxFibers = 4;

/// How many steps of each fiber have happened before some point, as C++ defines it.
struct Clock {
  std::array<std::uint32_t, kMaxFibers> steps{};

  void join(const Clock& other) {
    for (std::size_t i = 0; i < kMaxFibers; ++i) {
      steps[i] = std::max(steps[i], other.steps[i]);
    }
  }
};

/// What fibers may see of each other's stores to words of 32 or 64 bits, weaker than any processor
/// of today.
///
/// Each word keeps the order of its writes. A load may see any write not older than one that the
/// fiber must know: its own, one it has seen in this word, one that happened before (an acquire
/// load that sees a release store acquires what its fiber knows), or one before a sequentially
/// consistent fence that precedes a fence of the loading fiber. A relaxed store, or one in a store
/// buffer, may thus become visible late or after later ones, and a load without acquire may see old
/// values.
///
/// Plain accesses (bodies of records) must be ordered with all conflicting ones; otherwise the
/// access names the racing fiber: a data race.
///
/// Not modelled: loads that see stores of the future (but what a missing release does to a body
/// that is still being read is a race, which is found), writes to one word that become visible in
/// another order than they were made, the acquire and release sides of fences, the order of
/// sequentially consistent accesses, which acquire and release here. The last two make the model
/// weaker than C++: it could blame correct code that relied on them, never spare wrong code.
class MemoryModel {
 public:
  /// Where a word is, and how long. The machine is little-endian.
  struct Word {
    const void* at;
    std::size_t bytes;
  };
  struct Access {
    std::uint64_t value{};
    std::size_t age{};                        // how many newer writes a load did not see
    std::optional<std::size_t> racing_fiber;  // the fiber that this access races with
  };

  /// `pick(n)` chooses among the n writes that may be seen; 0 is the newest.
  template <class Pick>
  Access load(std::size_t fiber, Word word, std::memory_order order, Pick pick) {
    Cell& cell = begin_step(fiber, word);
    const std::size_t newest = cell.writes.size() - 1;
    const std::size_t age = pick(newest - oldest_visible(fiber, cell) + 1);
    const Write& seen = cell.writes[newest - age];
    cell.seen[fiber] = newest - age;
    if (acquires(order)) {
      known_[fiber].join(seen.carried);
    }
    const auto racing_fiber =
        find_racing_fiber(fiber, cell, {.is_basic = false, .is_write = false});
    cell.atomic_read[fiber] = known_[fiber].steps[fiber];
    return {.value = seen.value, .age = age, .racing_fiber = racing_fiber};
  }

  Access store(std::size_t fiber, Word word, std::uint64_t value, std::memory_order order) {
    return write(fiber, begin_step(fiber, word), value, order, {});
  }

  /// Sees the newest value, as any read-modify-write, and continues its release sequence.
  template <class Change>
  Access modify(std::size_t fiber, Word word, Change change, std::memory_order order) {
    Cell& cell = begin_step(fiber, word);
    const Write old = cell.writes.back();
    if (acquires(order)) {
      known_[fiber].join(old.carried);
    }
    Access access = write(fiber, cell, change(old.value), order, old.carried);
    access.value = old.value;
    return access;
  }

  Access read_plain(std::size_t fiber, Word word) {
    Cell& cell = begin_step(fiber, word);
    const auto racing_fiber = find_racing_fiber(fiber, cell, {.is_basic = true, .is_write = false});
    cell.plain_read[fiber] = known_[fiber].steps[fiber];
    return {.value = cell.writes.back().value, .age = 0, .racing_fiber = racing_fiber};
  }

  Access write_plain(std::size_t fiber, Word word, std::uint64_t value) {
    Cell& cell = begin_step(fiber, word);
    const auto racing_fiber = find_racing_fiber(fiber, cell, {.is_basic = true, .is_write = true});
    append(fiber, cell, value, {}, true);
    return {.value = value, .age = 0, .racing_fiber = racing_fiber};
  }

  /// std::atomic_thread_fence(std::memory_order_seq_cst), as far as it orders fences.
  void fence(std::size_t fiber) {
    before_fences_.join(known_[fiber]);
    fenced_[fiber] = before_fences_;
  }

  [[nodiscard]] std::uint64_t newest(Word word) { return cell_of(word).writes.back().value; }

  /// Makes all stores visible, as happens in finite time: no older value is seen afterwards.
  void reveal() {
    for (auto& [word, cell] : cells_) {
      cell.seen.fill(cell.writes.size() - 1);
    }
  }

 private:
  [[nodiscard]] static bool acquires(std::memory_order order) {
    return order != std::memory_order_relaxed && order != std::memory_order_release;
  }
  [[nodiscard]] static bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }

  struct Write {
    std::uint64_t value{};
    std::size_t fiber{};
    std::uint32_t step{};  // of its fiber; 0 is the initial value
    Clock carried;         // what an acquire load of it synchronizes with
    bool is_basic{};
  };
  struct Cell {
    std::vector<Write> writes;
    std::array<std::size_t, kMaxFibers> seen{};           // by each fiber: index of a write
    std::array<std::uint32_t, kMaxFibers> plain_read{};   // each fiber's last such step
    std::array<std::uint32_t, kMaxFibers> atomic_read{};  // likewise
  };
  struct Kind {
    bool is_basic;
    bool is_write;
  };

  Cell& cell_of(Word word) {
    Cell& cell = cells_[word.at];
    if (cell.writes.empty()) {
      Write initial;
      std::memcpy(&initial.value, word.at, word.bytes);
      cell.writes.push_back(initial);
    }
    return cell;
  }

  Cell& begin_step(std::size_t fiber, Word word) {
    ++known_[fiber].steps[fiber];
    return cell_of(word);
  }

  Access write(std::size_t fiber, Cell& cell, std::uint64_t value, std::memory_order order,
               Clock carried) {
    const auto racing_fiber = find_racing_fiber(fiber, cell, {.is_basic = false, .is_write = true});
    if (releases(order)) {
      carried.join(known_[fiber]);
    }
    append(fiber, cell, value, carried, false);
    return {.value = value, .age = 0, .racing_fiber = racing_fiber};
  }

  void append(std::size_t fiber, Cell& cell, std::uint64_t value, const Clock& carried,
              bool is_basic) {
    cell.seen[fiber] = cell.writes.size();
    cell.writes.push_back({.value = value,
                           .fiber = fiber,
                           .step = known_[fiber].steps[fiber],
                           .carried = carried,
                           .is_basic = is_basic});
  }

  [[nodiscard]] std::size_t oldest_visible(std::size_t fiber, const Cell& cell) const {
    for (std::size_t i = cell.writes.size() - 1; i > cell.seen[fiber]; --i) {
      const Write& write = cell.writes[i];
      if (write.step <= known_[fiber].steps[write.fiber] ||
          write.step <= fenced_[fiber].steps[write.fiber]) {
        return i;
      }
    }
    return cell.seen[fiber];
  }

  /// A fiber with a conflicting access that is not ordered before.
  [[nodiscard]] std::optional<std::size_t> find_racing_fiber(std::size_t fiber, const Cell& cell,
                                                             Kind kind) const {
    const Clock& known = known_[fiber];
    for (const Write& write : cell.writes) {
      if ((kind.is_basic || write.is_basic) && write.step > known.steps[write.fiber]) {
        return write.fiber;
      }
    }
    for (std::size_t other = 0; kind.is_write && other < kMaxFibers; ++other) {
      if (cell.plain_read[other] > known.steps[other] ||
          (kind.is_basic && cell.atomic_read[other] > known.steps[other])) {
        return other;
      }
    }
    return std::nullopt;
  }

  std::unordered_map<const void*, Cell> cells_;
  std::array<Clock, kMaxFibers> known_{};
  std::array<Clock, kMaxFibers> fenced_{};  // known at the fences before its last fence
  Clock before_fences_;
};

}  // namespace weft::ring::testing
