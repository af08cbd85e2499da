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

/// A ring of variable-size records in shared memory, one producer, one consumer, perhaps in
/// different processes, perhaps hostile to each other (docs/ARCHITECTURE.md, decisions 2, 3, 11).
///
/// Memory: one line with the consumer's position, then `capacity` bytes of 64-byte slots. A record
/// fills whole slots: an 8-byte record header, then the body, so that a body of up to 56 bytes
/// costs one cache line. The header's first word says that the record is there and how long its
/// body is (body + 1; 0 is nothing yet). The producer publishes a record with one release store of
/// that word, and the consumer polls only that word.
///
/// Old bodies never look like records: before a record is published, the word where the *next*
/// record will begin is set to 0, and the consumer never looks further than that. A record that
/// would wrap leaves a skip mark and begins at slot 0.
///
/// A ring may begin with fewer slots than it has memory for, so that many rings that carry little
/// touch little (memory that nobody touched costs nothing). When a record finds no room, the
/// producer leaves a grow mark and begins again behind the slots in use: positions move on to where
/// the larger ring has that slot, at least one lap of the smaller ring on, so that the old slots
/// are written again only after the consumer has passed the mark.
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::size_t kRecordHeaderBytes = 8;
inline constexpr std::uint32_t kNoRecord = 0;
inline constexpr std::uint32_t kSkipMark = 0xFFFF'FFFF;
inline constexpr std::uint32_t kGrowMark = 0xFFFF'FFF0;  // plus how often the ring grows fourfold
inline constexpr std::uint32_t kMostGrowths = 5;

/// Smallest and largest capacity in bytes; a power of two. Policy, not from any specification.
inline constexpr std::size_t kMinCapacity = 1U << 12;
inline constexpr std::size_t kMaxCapacity = 1U << 22;

[[nodiscard]] constexpr bool is_ring_capacity(std::size_t capacity) {
  return std::has_single_bit(capacity) && capacity >= kMinCapacity && capacity <= kMaxCapacity;
}

/// Bytes of memory for a ring: the position line and the slots.
[[nodiscard]] constexpr std::size_t ring_bytes(std::size_t capacity) {
  return kSlotBytes + capacity;
}

/// Longest body: a record and its skip must fit beside what is unread, or a producer could wait for
/// ever.
[[nodiscard]] constexpr std::size_t max_body_bytes(std::size_t capacity) {
  return capacity / 2 - kRecordHeaderBytes - kSlotBytes;
}

namespace internal {
[[nodiscard]] constexpr std::size_t slots_of(std::size_t body) {
  return (body + kRecordHeaderBytes + kSlotBytes - 1) / kSlotBytes;
}

/// The first position in a ring that grows from `count` slots to `grown`: the next one, seen from
/// `position`, that is a lap of the smaller ring away and at slot `count` of the larger one.
[[nodiscard]] constexpr std::uint32_t grown_position(std::uint32_t position, std::uint32_t count,
                                                     std::uint32_t grown) {
  const std::uint32_t next_lap = (position + count - 1) & ~(count - 1);
  const std::uint32_t earliest = next_lap + count;
  return earliest + ((count - earliest) & (grown - 1));
}
}  // namespace internal

/// The producing end. One thread at a time.
template <class Atomics = RealAtomics>
class Producer {
 public:
  Producer() = default;

  /// `memory` is ring_bytes(capacity) bytes, 64-byte aligned, all zero when the ring is new. The
  /// ring begins with `first_capacity` of it, which the consumer knows, too.
  explicit Producer(std::span<std::byte> memory) : Producer(memory, memory.size() - kSlotBytes) {}
  Producer(std::span<std::byte> memory, std::size_t first_capacity)
      : Producer(memory, first_capacity, memory.size() - kSlotBytes) {}
  /// One that grows to `usual_capacity` by itself, beyond only when let_grow() was called.
  Producer(std::span<std::byte> memory, std::size_t first_capacity, std::size_t usual_capacity)
      : head_line_(memory.data()),
        slots_(memory.data() + kSlotBytes),
        slot_count_(static_cast<std::uint32_t>(first_capacity / kSlotBytes)),
        usual_slots_(static_cast<std::uint32_t>(usual_capacity / kSlotBytes)),
        most_slots_(static_cast<std::uint32_t>((memory.size() - kSlotBytes) / kSlotBytes)) {
    WEFT_ASSERT(is_ring_capacity(memory.size() - kSlotBytes) && is_ring_capacity(first_capacity) &&
                    usual_slots_ <= most_slots_,
                "a ring has a capacity that it can have, in memory for it");
  }

  /// From now on the ring may grow to all of its memory. False if it could already.
  bool let_grow() { return std::exchange(usual_slots_, most_slots_) != most_slots_; }

  /// Room for a body of `bytes`, contiguous; empty when the ring is too full now. Never waits.
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
    // One slot stays free, so that the word behind the record is never one that the consumer still
    // reads.
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

  /// Publishes what was written to the last reservation.
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

  /// The usual record at once: reserves `bytes`, lets `write(std::byte*)` fill them and publishes.
  /// False, and nothing is done: reserve() must find the room, since the record would wrap, the
  /// ring would grow, or how far the consumer is must be looked up.
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

  /// Whether the consumer has said that it read everything and dealt with it. Its word may lag
  /// behind or lie; a lie costs only the liar.
  [[nodiscard]] bool is_drained() {
    refresh_head();
    return head_ == tail_;
  }

 private:
  [[nodiscard]] std::byte* slot(std::uint32_t index) const {
    return slots_ + std::size_t{index} * kSlotBytes;
  }
  /// Just after the ring grew, more positions than it has slots can lie between the two ends.
  [[nodiscard]] bool has_free(std::uint32_t slots) const {
    return tail_ - head_ + slots <= slot_count_;
  }

  /// Slots that were never used: no need to look how far the consumer is.
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
    const std::uint32_t said = Atomics::load(head_line_, std::memory_order_acquire);
    if (tail_ - said <= slot_count_ &&
        !planted(
            LiveBug::FullForEver)) {  // anything else is no position that the consumer can have
      head_ = said;
    }
  }

  std::byte* head_line_{};
  std::byte* slots_{};
  std::uint32_t slot_count_{};
  std::uint32_t usual_slots_{};  // as far as it may grow now
  std::uint32_t most_slots_{};
  std::uint32_t tail_{};  // in slots, ever growing
  std::uint32_t head_{};  // what the consumer last said
  // Of the last reservation:
  std::uint32_t skip_{};
  std::uint32_t growths_{};
  std::uint32_t reserved_bytes_{};
};

/// The consuming end. One thread at a time.
template <class Atomics = RealAtomics>
class Consumer {
 public:
  Consumer() = default;
  explicit Consumer(std::span<std::byte> memory) : Consumer(memory, memory.size() - kSlotBytes) {}
  Consumer(std::span<std::byte> memory, std::size_t first_capacity)
      : head_line_(memory.data()),
        slots_(memory.data() + kSlotBytes),
        slot_count_(static_cast<std::uint32_t>(first_capacity / kSlotBytes)),
        most_slots_(static_cast<std::uint32_t>((memory.size() - kSlotBytes) / kSlotBytes)) {
    WEFT_ASSERT(is_ring_capacity(memory.size() - kSlotBytes) && is_ring_capacity(first_capacity),
                "a ring has a capacity that it can have, in memory for it");
  }

  enum class State : std::uint8_t { Empty, Record, Corrupt };

  struct Front {
    State state{State::Empty};
    std::span<const std::byte> body;
  };

  /// The oldest record; if there is none, the producer is told that all was read. Corrupt when the
  /// producer wrote what no producer writes; it stays so.
  [[nodiscard]] Front front() {
    const Front found = look();
    if (found.state == State::Empty) {
      say_where_we_are();
    }
    return found;
  }

  /// The same for who has not dealt yet with what it popped: the producer is told nothing.
  [[nodiscard, gnu::always_inline]] Front look() {
    const std::uint32_t at = head_ & (slot_count_ - 1);
    const std::uint32_t word = Atomics::load(slot(at), std::memory_order_acquire);
    if (word == kNoRecord && !corrupt_) {
      return {};
    }
    return is_record(word, at) && !corrupt_ ? take_front(word, at) : front_otherwise(word);
  }

  /// After look(): what was popped is dealt with. The producer is told if that was all.
  void settle() {
    if (head_ != said_ &&
        Atomics::load(slot(head_ & (slot_count_ - 1)), std::memory_order_relaxed) == kNoRecord) {
      say_where_we_are();
    }
  }

  /// The word that is kNoRecord until the next record is there, or a mark; null if none will come.
  [[nodiscard]] const std::byte* next_word() const {
    return corrupt_ ? nullptr : slot(head_ & (slot_count_ - 1));
  }

  /// Ends the use of the record in front. The producer's view of our position costs a cache line to
  /// change: told every quarter of the ring, short of this record, which may not be dealt with.
  void pop() {
    if (head_ - said_ >= slot_count_ / 4) {
      say_where_we_are();
    }
    head_ += front_slots_;
  }

 private:
  [[nodiscard]] std::byte* slot(std::uint32_t index) const {
    return slots_ + std::size_t{index} * kSlotBytes;
  }

  /// Whether `word`, found in slot `at`, says how long a record is. Nothing and marks do not: less
  /// one, they are more than any length.
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

  /// `word` stands where the next record would begin, and begins none: nothing is there, or a mark
  /// with a record behind it, or what no producer writes.
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

  /// Goes to where a mark in slot `at` says that the next record begins; false if it is no mark.
  [[nodiscard]] bool pass_mark(std::uint32_t word, std::uint32_t at) {
    if (word == kSkipMark && at != 0) {
      head_ += slot_count_ - at;
      return true;
    }
    const std::uint32_t growths = word - kGrowMark;
    if (growths - 1 < kMostGrowths && most_slots_ >> 2 * growths >= slot_count_) {
      const std::uint32_t grown = slot_count_ << 2 * growths;
      head_ = internal::grown_position(head_, slot_count_, grown);
      slot_count_ = grown;
      return true;
    }
    return false;
  }

  void say_where_we_are() {
    if (head_ != said_) {
      said_ = head_;
      Atomics::store(head_line_, said_, std::memory_order_release);
    }
  }

  std::byte* head_line_{};
  std::byte* slots_{};
  std::uint32_t slot_count_{};
  std::uint32_t most_slots_{};
  std::uint32_t head_{};
  std::uint32_t said_{};
  std::uint32_t front_slots_{};
  bool corrupt_{};
};

}  // namespace weft::ring
