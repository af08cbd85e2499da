#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/live_bug.h"
#include "ring/atomics.h"

namespace weft::ring {

/// A single-producer single-consumer ring of variable-size records in shared memory, whose ends may
/// be in different processes that do not trust each other (docs/ARCHITECTURE.md, decisions 2, 3,
/// 11).
///
/// Memory: one cache line with the consumer's position, then `capacity` bytes of 64-byte slots. A
/// record occupies whole slots: an 8-byte record header and the body, so that a body of up to 56
/// bytes costs one cache line. The first word of the header publishes the record and holds the
/// length of the body (body + 1; 0 means empty). The producer publishes a record by a release store
/// of that word; the consumer polls this word only.
///
/// Old bodies cannot be mistaken for records: before a record is published, the first word of the
/// *next* record's slot is set to 0, and the consumer never reads beyond it. A record that would
/// wrap leaves a skip mark and starts at slot 0.
///
/// A ring may start with fewer slots than its memory holds, so that rings with little traffic touch
/// little memory. When a record finds no room, the producer leaves a grow mark and continues behind
/// the slots in use: positions advance to the value that has this slot in the larger ring, at least
/// one lap of the smaller ring ahead, so that old slots are not overwritten until the consumer has
/// passed the mark.
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::size_t kRecordHeaderBytes = 8;
inline constexpr std::uint32_t kNoRecord = 0;
inline constexpr std::uint32_t kSkipMark = 0xFFFF'FFFF;
inline constexpr std::uint32_t kGrowMark = 0xFFFF'FFF0;  // plus the number of fourfold growths
inline constexpr std::uint32_t kMaxGrowths = 5;

/// Limits of the capacity in bytes, a power of two. Policy, not from the specification.
inline constexpr std::size_t kMinCapacity = 1U << 12;
inline constexpr std::size_t kMaxCapacity = 1U << 22;

[[nodiscard]] constexpr bool is_ring_capacity(std::size_t capacity) {
  return std::has_single_bit(capacity) && capacity >= kMinCapacity && capacity <= kMaxCapacity;
}

/// Bytes of memory of a ring: the position line and the slots.
[[nodiscard]] constexpr std::size_t ring_bytes(std::size_t capacity) {
  return kSlotBytes + capacity;
}

/// Longest body. A record and its skip mark must fit beside unread records, otherwise the producer
/// could wait forever.
[[nodiscard]] constexpr std::size_t max_body_bytes(std::size_t capacity) {
  return capacity / 2 - kRecordHeaderBytes - kSlotBytes;
}

namespace internal {
[[nodiscard]] constexpr std::size_t slots_of(std::size_t body) {
  return (body + kRecordHeaderBytes + kSlotBytes - 1) / kSlotBytes;
}

/// First position of a ring that grows from `count` to `grown` slots: the next one after `position`
/// that is at least a lap of the smaller ring ahead and maps to slot `count` of the larger ring.
[[nodiscard]] constexpr std::uint32_t grown_position(std::uint32_t position, std::uint32_t count,
                                                     std::uint32_t grown) {
  const std::uint32_t next_lap = (position + count - 1) & ~(count - 1);
  const std::uint32_t earliest = next_lap + count;
  return earliest + ((count - earliest) & (grown - 1));
}
}  // namespace internal

/// The producer's end of a ring. Used by one thread at a time.
template <class Atomics = RealAtomics>
class Producer {
 public:
  Producer() = default;

  /// `memory` has ring_bytes(capacity) bytes, is 64-byte aligned, and is zeroed for a new ring. The
  /// ring starts with `first_capacity`; the consumer must use the same value.
  explicit Producer(std::span<std::byte> memory) : Producer(memory, memory.size() - kSlotBytes) {}
  Producer(std::span<std::byte> memory, std::size_t first_capacity)
      : Producer(memory, first_capacity, memory.size() - kSlotBytes) {}
  /// Grows up to `usual_capacity` on its own, beyond it only after allow_growth().
  Producer(std::span<std::byte> memory, std::size_t first_capacity, std::size_t usual_capacity)
      : head_line_(memory.data()),
        slots_(memory.data() + kSlotBytes),
        slot_count_(static_cast<std::uint32_t>(first_capacity / kSlotBytes)),
        usual_slots_(static_cast<std::uint32_t>(usual_capacity / kSlotBytes)),
        max_slots_(static_cast<std::uint32_t>((memory.size() - kSlotBytes) / kSlotBytes)) {
    WEFT_ASSERT(is_ring_capacity(memory.size() - kSlotBytes) && is_ring_capacity(first_capacity) &&
                    usual_slots_ <= max_slots_,
                "a ring has a capacity that it can have, in memory for it");
  }

  /// Permits the ring to grow to all of its memory. Returns false if it was permitted before.
  bool allow_growth() { return std::exchange(usual_slots_, max_slots_) != max_slots_; }

  /// Reserves contiguous room for a body of `bytes`; returns an empty span if the ring is too full.
  /// Never blocks.
  [[nodiscard]] std::span<std::byte> reserve(std::size_t bytes) {
    WEFT_DEBUG_ASSERT(bytes <= max_body_bytes(std::size_t{usual_slots_} * kSlotBytes),
                      "a record fits into the ring");
    if (bytes > max_body_bytes(std::size_t{slot_count_} * kSlotBytes)) {
      return reserve_in_larger(bytes);
    }
    const auto needed = static_cast<std::uint32_t>(internal::slots_of(bytes));
    const std::uint32_t at = tail_ & (slot_count_ - 1);
    const bool wraps = at + needed > slot_count_;
    const std::uint32_t skip = wraps ? slot_count_ - at : 0;
    // One slot stays free, so that the word behind the record is not one that the consumer may
    // still be reading.
    if (!has_free(skip + needed + 1)) {
      refresh_head();
      if (!has_free(skip + needed + 1)) {
        return reserve_in_larger(bytes);
      }
    }
    skip_ = skip;
    growths_ = 0;
    reserved_bytes_ = static_cast<std::uint32_t>(bytes);
    return {slot(wraps ? 0 : at) + kRecordHeaderBytes, bytes};
  }

  /// Publishes the body written to the last reservation.
  void commit() {
    const std::uint32_t begin = tail_ + skip_;
    const std::uint32_t next =
        begin + static_cast<std::uint32_t>(internal::slots_of(reserved_bytes_));
    const std::uint32_t word = reserved_bytes_ + 1;
    std::byte* const mark = slot(tail_ & (slot_count_ - 1));
    tail_ = next;
    if (skip_ == 0) {
      Atomics::store(slot(next & (slot_count_ - 1)), kNoRecord, std::memory_order_relaxed);
      Atomics::store(mark, word, std::memory_order_release);
      return;
    }
    slot_count_ <<= 2 * growths_;
    Atomics::store(slot(next & (slot_count_ - 1)), kNoRecord, std::memory_order_relaxed);
    Atomics::store(slot(begin & (slot_count_ - 1)), word, std::memory_order_relaxed);
    Atomics::store(mark, growths_ == 0 ? kSkipMark : kGrowMark + growths_,
                   std::memory_order_release);
    growths_ = 0;
  }

  /// Fast path: reserves `bytes`, calls `write(std::byte*)` to fill them, and publishes. Returns
  /// false without effect if reserve() is needed: the record would wrap, the ring would have to
  /// grow, or the consumer's position must be reloaded.
  template <class Write>
  [[nodiscard, gnu::always_inline]] bool put(std::size_t bytes, Write write) {
    const auto needed = static_cast<std::uint32_t>(internal::slots_of(bytes));
    const std::uint32_t at = tail_ & (slot_count_ - 1);
    const std::uint32_t next = at + needed;
    if (next >= slot_count_ || !has_free(needed + 1) || needed > slot_count_ / 4) [[unlikely]] {
      return false;
    }
    write(slot(at) + kRecordHeaderBytes);
    Atomics::store(slot(next), kNoRecord, std::memory_order_relaxed);
    Atomics::store(slot(at), static_cast<std::uint32_t>(bytes) + 1, std::memory_order_release);
    tail_ += needed;
    return true;
  }

  /// True if the consumer reported that it has processed all records. The report may be late, or
  /// false if the consumer is hostile; then only the consumer is harmed.
  [[nodiscard]] bool is_drained() {
    refresh_head();
    return head_ == tail_;
  }

 private:
  [[nodiscard]] std::byte* slot(std::uint32_t index) const {
    return slots_ + std::size_t{index} * kSlotBytes;
  }
  /// Right after growing, the distance between the ends may exceed the number of slots.
  [[nodiscard]] bool has_free(std::uint32_t slots) const {
    return tail_ - head_ + slots <= slot_count_;
  }

  /// Uses slots that were never used, so the consumer's position does not matter.
  [[nodiscard, gnu::noinline]] std::span<std::byte> reserve_in_larger(std::size_t bytes) {
    std::uint32_t grown = slot_count_;
    std::uint32_t growths = 0;
    do {
      grown *= 4;
      ++growths;
      if (grown > usual_slots_) {
        return {};
      }
    } while (bytes > max_body_bytes(std::size_t{grown} * kSlotBytes));
    const std::uint32_t begin = internal::grown_position(tail_, slot_count_, grown);
    skip_ = begin - tail_;
    growths_ = growths;
    reserved_bytes_ = static_cast<std::uint32_t>(bytes);
    return {slot(begin & (grown - 1)) + kRecordHeaderBytes, bytes};
  }

  void refresh_head() {
    const std::uint32_t head = Atomics::load(head_line_, std::memory_order_acquire);
    if (tail_ - head <= slot_count_ &&
        !planted(LiveBug::HeadNeverReloaded)) {  // anything else is no position that the consumer
                                                 // can have
      head_ = head;
    }
  }

  std::byte* head_line_{};
  std::byte* slots_{};
  std::uint32_t slot_count_{};
  std::uint32_t usual_slots_{};  // current growth limit
  std::uint32_t max_slots_{};
  std::uint32_t tail_{};  // in slots, monotonic
  std::uint32_t head_{};  // last position reported by the consumer
  // Last reservation:
  std::uint32_t skip_{};
  std::uint32_t growths_{};
  std::uint32_t reserved_bytes_{};
};

/// The consumer's end of a ring. Used by one thread at a time.
template <class Atomics = RealAtomics>
class Consumer {
 public:
  Consumer() = default;
  explicit Consumer(std::span<std::byte> memory) : Consumer(memory, memory.size() - kSlotBytes) {}
  Consumer(std::span<std::byte> memory, std::size_t first_capacity)
      : head_line_(memory.data()),
        slots_(memory.data() + kSlotBytes),
        slot_count_(static_cast<std::uint32_t>(first_capacity / kSlotBytes)),
        max_slots_(static_cast<std::uint32_t>((memory.size() - kSlotBytes) / kSlotBytes)) {
    WEFT_ASSERT(is_ring_capacity(memory.size() - kSlotBytes) && is_ring_capacity(first_capacity),
                "a ring has a capacity that it can have, in memory for it");
  }

  enum class State : std::uint8_t { Empty, Record, Corrupt };

  struct Front {
    State state{State::Empty};
    std::span<const std::byte> body;
  };

  /// The oldest record. If there is none, reports to the producer that all records are processed.
  /// Corrupt, permanently, if the ring holds what no producer writes.
  [[nodiscard]] Front front() {
    const Front found = look();
    if (found.state == State::Empty) {
      report_head();
    }
    return found;
  }

  /// As front(), for a consumer that has popped records it has not processed yet: reports nothing.
  [[nodiscard, gnu::always_inline]] Front look() {
    const std::uint32_t at = head_ & (slot_count_ - 1);
    const std::uint32_t word = Atomics::load(slot(at), std::memory_order_acquire);
    if (word == kNoRecord && !corrupt_) {
      return {};
    }
    return is_record(word, at) && !corrupt_ ? take_front(word, at) : front_otherwise(word);
  }

  /// Call after look() when all popped records are processed. Reports it to the producer if the
  /// ring is empty.
  void settle() {
    if (head_ != reported_head_ &&
        Atomics::load(slot(head_ & (slot_count_ - 1)), std::memory_order_relaxed) == kNoRecord) {
      report_head();
    }
  }

  /// The word that stays kNoRecord until the next record is published; null if none will be.
  [[nodiscard]] const std::byte* next_word() const {
    return corrupt_ ? nullptr : slot(head_ & (slot_count_ - 1));
  }

  /// Removes the record at the front. Reporting the position costs a cache line transfer, so it is
  /// done once per quarter of the ring, and excludes this record, which may not be processed yet.
  void pop() {
    if (head_ - reported_head_ >= slot_count_ / 4) {
      report_head();
    }
    head_ += front_slots_;
  }

 private:
  [[nodiscard]] std::byte* slot(std::uint32_t index) const {
    return slots_ + std::size_t{index} * kSlotBytes;
  }

  /// True if `word`, read from slot `at`, is the length of a record. kNoRecord and marks are not:
  /// minus one, they exceed any length.
  [[nodiscard]] bool is_record(std::uint32_t word, std::uint32_t at) const {
    const std::size_t bytes = std::uint32_t{word - 1};
    return bytes <= max_body_bytes(std::size_t{slot_count_} * kSlotBytes) &&
           at + internal::slots_of(bytes) <= slot_count_;
  }

  [[nodiscard]] Front take_front(std::uint32_t word, std::uint32_t at) {
    const std::size_t bytes = std::size_t{word} - 1;
    front_slots_ = static_cast<std::uint32_t>(internal::slots_of(bytes));
    return {
        .state = State::Record, .body = {slot(at) + kRecordHeaderBytes, bytes}
    };
  }

  /// `word` is not the length of a record: the ring is empty, or it is a mark in front of a record,
  /// or it is corrupt.
  [[nodiscard, gnu::noinline]] Front front_otherwise(std::uint32_t word) {
    for (int step = 0; step < 2 && !corrupt_; ++step) {
      const std::uint32_t at = head_ & (slot_count_ - 1);
      if (word == kNoRecord) {
        return {};
      }
      if (is_record(word, at)) {
        return take_front(word, at);
      }
      if (step != 0 || !pass_mark(word, at)) {
        break;
      }
      word = Atomics::load(slot(head_ & (slot_count_ - 1)), std::memory_order_acquire);
    }
    corrupt_ = true;
    return {.state = State::Corrupt, .body = {}};
  }

  /// Moves to the position given by a mark in slot `at`. Returns false if `word` is not a mark.
  [[nodiscard]] bool pass_mark(std::uint32_t word, std::uint32_t at) {
    if (word == kSkipMark && at != 0) {
      head_ += slot_count_ - at;
      return true;
    }
    const std::uint32_t growths = word - kGrowMark;
    if (growths - 1 < kMaxGrowths && max_slots_ >> 2 * growths >= slot_count_) {
      const std::uint32_t grown = slot_count_ << 2 * growths;
      head_ = internal::grown_position(head_, slot_count_, grown);
      slot_count_ = grown;
      return true;
    }
    return false;
  }

  void report_head() {
    if (head_ != reported_head_) {
      reported_head_ = head_;
      Atomics::store(head_line_, reported_head_, std::memory_order_release);
    }
  }

  std::byte* head_line_{};
  std::byte* slots_{};
  std::uint32_t slot_count_{};
  std::uint32_t max_slots_{};
  std::uint32_t head_{};
  std::uint32_t reported_head_{};
  std::uint32_t front_slots_{};
  bool corrupt_{};
};

}  // namespace weft::ring
