#pragma once

// Packets that are under way: what a sender keeps of one path, in its own memory, until they arrive
// (docs/ARCHITECTURE.md, decision 8). First in, first out. No clock, no lock: the caller says what
// time it is.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/link_model.h"

namespace weft::station {

/// What is kept beside a record.
struct DelayedPacket {
  Instant departs;  // the slowest link is done with it
  Instant arrives;
  std::uint64_t wire_bytes{};
  std::uint32_t packets{};       // 1, or those of a train
  fabric::PathEntry* counter{};  // none: it was counted when it was sent
};

class DelayLine {
 public:
  /// Policy. The most is what one path can have under way: at 100 Gb/s that of 330 us.
  static constexpr std::size_t kFirstBytes = std::size_t{1} << 16;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 22;

  /// Where to write a record of `bytes`, which is kept as commit() says; empty if too much is under
  /// way. Grows, at most to kMaxBytes.
  [[nodiscard]] MutableByteSpan reserve(std::size_t bytes);

  /// Keeps what was written to the last reservation. It arrives after what is kept already, though
  /// the way may have become shorter.
  void commit(DelayedPacket packet);

  [[nodiscard]] bool is_empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }

  /// The oldest; there must be one.
  [[nodiscard]] const DelayedPacket& front() const { return entry(0).packet; }
  [[nodiscard]] ByteSpan front_record() const;
  void pop();
  void clear();

  /// Bytes on the wire of all that has not departed by `now`, which never goes back.
  [[nodiscard]] std::uint64_t bytes_to_depart(Instant now);

  /// When something departs or arrives next; never if nothing is kept.
  [[nodiscard]] Instant next_event() const;

 private:
  struct Entry {
    DelayedPacket packet;
    std::size_t offset{};
    std::size_t bytes{};
  };

  [[nodiscard]] const Entry& entry(std::size_t index) const {
    return entries_[(first_ + index) & (entries_.size() - 1)];
  }
  /// Where `bytes` lie together in the memory as it is; its size if nowhere.
  [[nodiscard]] std::size_t place(std::size_t bytes) const;
  void grow(std::size_t bytes);

  std::vector<std::byte> memory_;  // records, each in one piece; a ring
  std::vector<Entry> entries_;     // a ring; a power of two
  std::size_t first_{};
  std::size_t count_{};
  std::size_t end_{};                // of the newest record in memory_
  std::size_t recently_detached_{};  // so many of the entries, from the first on
  std::uint64_t bytes_to_depart_{};
  Entry reserved_;
};

}  // namespace weft::station
