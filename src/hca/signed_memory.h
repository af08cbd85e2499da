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
    each_part(offset, length, [&](const Part& part) {
      if (part.is_tuple || part.is_end) {
        finish_reading(part.interval);
      }
      if (part.is_tuple) {
        visit(ByteSpan{tuples_[part.interval]}.subspan(part.from, part.length));
      } else {
        data_.visit(part.interval * interval_bytes_ + part.from, part.length, visit);
      }
    });
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
  /// A part of an interval or of its tuple.
  struct Part {
    std::uint64_t interval{};
    std::uint64_t from{};  // in the interval's data, or in its tuple
    std::uint64_t length{};
    bool is_tuple{};
    bool is_end{};  // after it the next interval begins
  };
  [[nodiscard]] Part part_at(std::uint64_t offset, std::uint64_t most) const;

  template <class Each>
  void each_part(std::uint64_t offset, std::uint64_t length, Each each) {
    while (length != 0) {
      const Part part = part_at(offset, length);
      each(part);
      offset += part.length;
      length -= part.length;
    }
  }

  /// Null: the domain has no tuples.
  [[nodiscard]] static const Dif* dif_of(const verbs::SignatureDomain& domain) {
    return domain.type == verbs::SignatureType::T10Dif ? &domain.dif : nullptr;
  }
  void finish_reading(std::uint64_t interval);
  void finish_writing(std::uint64_t interval);
  [[nodiscard]] ByteSpan content_of(std::uint64_t interval, std::vector<std::byte>& scratch) const;
  void check(const Dif& domain, const wire::ProtectionTuple& tuple, ByteSpan content,
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
