#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/lock.h"
#include "hca/paged_memory.h"
#include "verbs/signature.h"
#include "wire/protection_tuple.h"

namespace weft::hca {

/// Data with protection information, T10-PI (SBC-3 §4.22), as an integrity region shows it
/// (R-MR-7): in memory the tuples lie apart from their intervals, or are not there; on the wire
/// each interval is followed by its tuple, or there is none. Whoever reads or writes through the
/// region's key sees the wire's form. What comes from either side is checked as that side's
/// attributes say, an error is remembered, and the transfer goes on: that it ends well is no word
/// about its content.
///
/// An interval that is written is complete, is checked, and has its tuple in memory when its last
/// byte has come; bytes of an interval come in order, as those of one request do.
///
/// Threads: any; of two that use the same interval at once, the content is anyone's, as of memory.
class SignedMemory {
 public:
  using Attributes = verbs::SignatureAttributes;
  static constexpr std::size_t kTupleBytes = wire::kSizeOf<wire::ProtectionTuple>;

  SignedMemory(PagedMemory data, PagedMemory metadata, LockPolicy policy)
      : data_(std::move(data)), metadata_(std::move(metadata)), lock_(policy) {}

  /// What the next registration does. Empty, else why memory like this cannot: the intervals of
  /// both domains are one size, of which the data is a multiple, and metadata has 8 bytes for each
  /// or, without protection information in memory, none at all. Nothing has been shown yet.
  [[nodiscard]] std::string_view sign(const Attributes& attributes);

  /// Bytes on the wire.
  [[nodiscard]] std::uint64_t length() const { return length_; }

  /// Calls `visit(ByteSpan)` for pieces of [offset, offset + length) of the wire's form; they stay
  /// until the region is registered anew and the QPs have been passed through.
  template <class Visit>
  void visit(std::uint64_t offset, std::uint64_t length, Visit visit) {
    const std::uint64_t whole = whole_bytes();
    while (length != 0) {
      const std::uint64_t first = offset / whole;
      const std::uint64_t within = offset % whole;
      const std::uint64_t count = within == 0 ? std::min(length / whole, kTogether) : 0;
      std::uint64_t done = count * whole;
      if (count != 0) {
        finish_reading(first, count);
        visit_whole(first, count, visit);
      } else {
        const Part part = part_at(first, within, length);
        visit_part(part, visit);
        done = part.length;
      }
      offset += done;
      length -= done;
    }
  }

  /// Takes bytes that came from the wire. `write(to, from)` copies as many as both have.
  template <class Write>
  void place(std::uint64_t offset, ByteSpan payload, Write write) {
    each_part(offset, payload.size(), [&](const Part& part) {
      ByteSpan from = payload.first(part.length);
      payload = payload.subspan(part.length);
      if (part.is_tuple) {
        std::ranges::copy(from, MutableByteSpan{tuples_[part.interval]}.subspan(part.from).begin());
      } else {
        data_.visit(part.interval * interval_bytes_ + part.from, part.length,
                    [&](std::span<std::byte> piece) {
                      write(piece, from.first(piece.size()));
                      from = from.subspan(piece.size());
                    });
      }
      if (part.is_end) {
        finish_writing(part.interval);
      }
    });
  }

  /// The first error since the last call, in the order of the data.
  [[nodiscard]] verbs::SignatureStatus take_status();

 private:
  using Dif = verbs::T10DifDomain;
  /// Policy: of so many intervals guards are made in a row, which takes half of the time.
  static constexpr std::uint64_t kTogether = 16;
  /// A part of an interval or of its tuple.
  struct Part {
    std::uint64_t interval{};
    std::uint64_t from{};  // in the interval's data, or in its tuple
    std::uint64_t length{};
    bool is_tuple{};
    bool is_end{};  // after it the next interval begins
  };
  /// From `within` on, in an interval and its tuple; at most `most` bytes.
  [[nodiscard]] Part part_at(std::uint64_t interval, std::uint64_t within,
                             std::uint64_t most) const {
    const std::uint64_t tuple_bytes = tuples_.empty() ? 0 : kTupleBytes;
    const bool is_tuple = within >= interval_bytes_;
    const std::uint64_t from = is_tuple ? within - interval_bytes_ : within;
    const std::uint64_t left = (is_tuple ? tuple_bytes : interval_bytes_) - from;
    return {.interval = interval,
            .from = from,
            .length = std::min(most, left),
            .is_tuple = is_tuple,
            .is_end = most >= left && (is_tuple || tuple_bytes == 0)};
  }

  template <class Each>
  void each_part(std::uint64_t offset, std::uint64_t length, Each each) {
    std::uint64_t interval = length != 0 ? offset / whole_bytes() : 0;
    std::uint64_t within = length != 0 ? offset % whole_bytes() : 0;
    while (length != 0) {
      const Part part = part_at(interval, within, length);
      each(part);
      within = part.is_end ? 0 : within + part.length;
      interval += part.is_end ? 1 : 0;
      length -= part.length;
    }
  }

  template <class Visit>
  void visit_part(const Part& part, Visit& visit) {
    if (part.is_tuple || part.is_end) {
      finish_reading(part.interval, 1);
    }
    if (part.is_tuple) {
      visit(ByteSpan{tuples_[part.interval]}.subspan(part.from, part.length));
    } else {
      data_.visit(part.interval * interval_bytes_ + part.from, part.length, visit);
    }
  }
  /// Of intervals that are finished.
  template <class Visit>
  void visit_whole(std::uint64_t first, std::uint64_t count, Visit& visit) {
    if (tuples_.empty()) {
      return data_.visit(first * interval_bytes_, count * interval_bytes_, visit);
    }
    const ByteSpan contents = data_.first_of(first * interval_bytes_, count * interval_bytes_);
    const bool is_one_piece = contents.size() == count * interval_bytes_;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (is_one_piece) {
        visit(contents.subspan(i * interval_bytes_, interval_bytes_));
      } else {
        data_.visit((first + i) * interval_bytes_, interval_bytes_, visit);
      }
      visit(ByteSpan{tuples_[first + i]});
    }
  }

  /// Of an interval and its tuple on the wire.
  [[nodiscard]] std::uint64_t whole_bytes() const {
    return interval_bytes_ + (tuples_.empty() ? 0 : kTupleBytes);
  }

  /// Null: the domain has no tuples.
  [[nodiscard]] static const Dif* dif_of(const verbs::SignatureDomain& domain) {
    return domain.type == verbs::SignatureType::T10Dif ? &domain.dif : nullptr;
  }
  /// At most kTogether.
  void finish_reading(std::uint64_t first, std::uint64_t count);
  void generate(const Dif& on_wire, std::uint64_t first, std::span<const std::uint16_t> guards);
  void check_read(const Dif& in_memory, std::uint64_t first, std::span<const std::uint16_t> guards);
  void finish_writing(std::uint64_t interval);
  [[nodiscard]] ByteSpan content_of(std::uint64_t interval, std::vector<std::byte>& scratch) const;
  /// `guard` is that of the content, as the domain has it.
  void check(const Dif& domain, const wire::ProtectionTuple& tuple, std::uint16_t guard,
             std::uint64_t interval);
  void remember(verbs::SignatureError error, std::uint32_t expected, std::uint32_t actual,
                std::uint64_t interval);

  PagedMemory data_;
  PagedMemory metadata_;
  Attributes attributes_;
  std::uint64_t interval_bytes_{};
  std::uint64_t length_{};
  std::vector<std::array<std::byte, kTupleBytes>> tuples_;  // of the wire, by interval
  PolicyLock lock_;                                         // of what follows
  verbs::SignatureStatus status_;
};

}  // namespace weft::hca
