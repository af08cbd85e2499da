#include "station/delay_line.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace weft::station {

std::size_t DelayLine::place(std::size_t bytes) const {
  if (count_ == 0) {
    return bytes <= memory_.size() ? 0 : memory_.size();
  }
  const std::size_t begin = entry(0).offset;
  if (end_ > begin) {
    if (bytes <= memory_.size() - end_) {
      return end_;
    }
    return bytes <= begin ? 0 : memory_.size();
  }
  return bytes <= begin - end_ ? end_ : memory_.size();
}

/// Larger memory, in which all that is kept lies from the start on, with room for `bytes`.
void DelayLine::grow(std::size_t bytes) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    kept += entry(i).bytes;
  }
  std::size_t size = std::max(memory_.size() * 2, kFirstBytes);
  while (size < kept + bytes) {
    size *= 2;
  }
  std::vector<std::byte> larger(std::min(size, kMaxBytes));
  if (kept + bytes > larger.size()) {
    return;
  }
  end_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Entry& moved = entries_[(first_ + i) & (entries_.size() - 1)];
    copy_bytes(MutableByteSpan{larger}.subspan(end_, moved.bytes),
               ByteSpan{memory_}.subspan(moved.offset, moved.bytes));
    moved.offset = end_;
    end_ += moved.bytes;
  }
  memory_ = std::move(larger);
}

MutableByteSpan DelayLine::reserve(std::size_t bytes) {
  WEFT_DEBUG_ASSERT(bytes != 0, "a packet has octets");
  std::size_t at = place(bytes);
  if (at == memory_.size() && memory_.size() < kMaxBytes) {
    grow(bytes);
    at = place(bytes);
  }
  if (at == memory_.size()) {
    return {};
  }
  reserved_.offset = at;
  reserved_.bytes = bytes;
  return MutableByteSpan{memory_}.subspan(at, bytes);
}

void DelayLine::commit(DelayedPacket packet) {
  WEFT_DEBUG_ASSERT(reserved_.bytes != 0, "room was reserved");
  if (count_ == entries_.size()) {
    constexpr std::size_t kFirstEntries = 64;
    std::vector<Entry> more(std::max(kFirstEntries, entries_.size() * 2));
    for (std::size_t i = 0; i < count_; ++i) {
      more[i] = entry(i);
    }
    entries_ = std::move(more);
    first_ = 0;
  }
  if (count_ != 0) {
    const DelayedPacket& newest = entry(count_ - 1).packet;
    packet.departs = std::max(packet.departs, newest.departs);
    packet.arrives = std::max(packet.arrives, newest.arrives);
  }
  reserved_.packet = packet;
  end_ = reserved_.offset + reserved_.bytes;
  entries_[(first_ + count_) & (entries_.size() - 1)] = reserved_;
  ++count_;
  bytes_to_depart_ += packet.wire_bytes;
  reserved_ = {};
}

ByteSpan DelayLine::front_record() const {
  WEFT_DEBUG_ASSERT(count_ != 0, "there is a packet");
  return ByteSpan{memory_}.subspan(entry(0).offset, entry(0).bytes);
}

void DelayLine::pop() {
  WEFT_DEBUG_ASSERT(count_ != 0, "there is a packet");
  if (recently_detached_ == 0) {
    bytes_to_depart_ -= front().wire_bytes;
  } else {
    --recently_detached_;
  }
  first_ = (first_ + 1) & (entries_.size() - 1);
  --count_;
}

void DelayLine::clear() {
  first_ = count_ = recently_detached_ = 0;
  bytes_to_depart_ = 0;
}

std::uint64_t DelayLine::bytes_to_depart(Instant now) {
  while (recently_detached_ < count_ && entry(recently_detached_).packet.departs <= now) {
    bytes_to_depart_ -= entry(recently_detached_).packet.wire_bytes;
    ++recently_detached_;
  }
  return bytes_to_depart_;
}

Instant DelayLine::next_event() const {
  if (count_ == 0) {
    return Instant::never();
  }
  const Instant arrival = front().arrives;
  return recently_detached_ < count_ ? std::min(arrival, entry(recently_detached_).packet.departs)
                                     : arrival;
}

}  // namespace weft::station
