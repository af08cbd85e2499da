#include "hca/signed_memory.h"

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace weft::hca {
namespace {

using verbs::SignatureError;
using verbs::T10DifDomain;
using wire::ProtectionTuple;

[[nodiscard]] std::uint16_t guard_of(const T10DifDomain& domain, ByteSpan content) {
  return domain.guard == T10DifDomain::Guard::Crc ? wire::crc_t10_dif(content, domain.guard_seed)
                                                  : wire::ip_checksum(content, domain.guard_seed);
}

[[nodiscard]] std::uint32_t reference_of(const T10DifDomain& domain, std::uint64_t interval) {
  return domain.reference_tag +
         (domain.remaps_reference_tag ? static_cast<std::uint32_t>(interval) : 0);
}

/// Tags that say that the interval is not checked (SBC-3 §4.22.2), where the domain has those.
[[nodiscard]] bool is_exempt(const T10DifDomain& domain, const ProtectionTuple& tuple) {
  return domain.application_escape && tuple.application_tag == wire::kNoCheckApplicationTag &&
         (!domain.reference_escape || tuple.reference_tag == wire::kNoCheckReferenceTag);
}

/// The tuple for the other side. What both sides' attributes agree in is passed on as it came, so
/// that damage stays visible to whoever checks next; the rest is made anew.
[[nodiscard]] ProtectionTuple passed_on(const T10DifDomain& from, const ProtectionTuple& tuple,
                                        const T10DifDomain& to, ByteSpan content,
                                        std::uint64_t interval) {
  if (is_exempt(from, tuple)) {
    return tuple;
  }
  const bool same_guard = from.guard == to.guard && from.guard_seed == to.guard_seed;
  const bool same_reference = from.reference_tag == to.reference_tag &&
                              from.remaps_reference_tag == to.remaps_reference_tag;
  return {.guard = same_guard ? tuple.guard : guard_of(to, content),
          .application_tag = from.application_tag == to.application_tag ? tuple.application_tag
                                                                        : to.application_tag,
          .reference_tag = same_reference ? tuple.reference_tag : reference_of(to, interval)};
}

[[nodiscard]] ProtectionTuple made(const T10DifDomain& to, std::uint16_t guard,
                                   std::uint64_t interval) {
  return {.guard = guard,
          .application_tag = to.application_tag,
          .reference_tag = reference_of(to, interval)};
}

}  // namespace

std::string_view SignedMemory::sign(const Attributes& attributes) {
  length_ = 0;
  tuples_.clear();
  const Dif* const in_memory = dif_of(attributes.memory);
  const Dif* const on_wire = dif_of(attributes.wire);
  if (in_memory == nullptr && on_wire == nullptr) {
    return "neither memory nor the wire has protection information: register it without integrity";
  }
  const std::uint64_t interval = (in_memory != nullptr ? in_memory : on_wire)->protection_interval;
  if (interval == 0 ||
      (in_memory != nullptr && on_wire != nullptr && on_wire->protection_interval != interval)) {
    return "the protection interval is 0, or not the same in memory and on the wire";
  }
  if (data_.length() == 0 || data_.length() % interval != 0) {
    return "the data is no multiple of the protection interval";
  }
  const std::uint64_t count = data_.length() / interval;
  if (metadata_.length() != (in_memory != nullptr ? count * kTupleBytes : 0)) {
    return "protection information in memory has 8 bytes for each interval of data, or is not "
           "there";
  }
  attributes_ = attributes;
  interval_bytes_ = interval;
  length_ = data_.length();
  if (on_wire != nullptr) {
    tuples_.assign(count, {});
    length_ += count * kTupleBytes;
  }
  return {};
}

ByteSpan SignedMemory::content_of(std::uint64_t interval, std::vector<std::byte>& scratch) const {
  const std::uint64_t offset = interval * interval_bytes_;
  const ByteSpan first = data_.first_of(offset, interval_bytes_);
  if (first.size() == interval_bytes_) {
    return first;
  }
  scratch.reserve(interval_bytes_);
  data_.visit(offset, interval_bytes_,
              [&](ByteSpan piece) { scratch.insert(scratch.end(), piece.begin(), piece.end()); });
  return scratch;
}

/// Guards depend on nothing else, so that the processor makes several at the same time.
void SignedMemory::finish_reading(std::uint64_t first, std::uint64_t count) {
  const Dif* const in_memory = dif_of(attributes_.memory);
  const Dif& domain = in_memory != nullptr ? *in_memory : attributes_.wire.dif;
  std::array<std::uint16_t, kTogether> guards{};
  const ByteSpan contents = data_.first_of(first * interval_bytes_, count * interval_bytes_);
  if (contents.size() == count * interval_bytes_) {
    for (std::uint64_t i = 0; i < count; ++i) {
      guards[i] = guard_of(domain, contents.subspan(i * interval_bytes_, interval_bytes_));
    }
  } else {
    std::vector<std::byte> scratch;
    for (std::uint64_t i = 0; i < count; ++i) {
      scratch.clear();
      guards[i] = guard_of(domain, content_of(first + i, scratch));
    }
  }
  const std::span<const std::uint16_t> made{guards.data(), count};
  if (in_memory == nullptr) {
    generate(domain, first, made);
  } else {
    check_read(domain, first, made);
  }
}

void SignedMemory::generate(const Dif& on_wire, std::uint64_t first,
                            std::span<const std::uint16_t> guards) {
  for (std::size_t i = 0; i < guards.size(); ++i) {
    tuples_[first + i] = wire::pack(made(on_wire, guards[i], first + i));
  }
}

void SignedMemory::check_read(const Dif& in_memory, std::uint64_t first,
                              std::span<const std::uint16_t> guards) {
  std::array<std::byte, kTogether * kTupleBytes> octets{};
  MutableByteSpan room{octets};
  metadata_.visit(first * kTupleBytes, guards.size() * kTupleBytes, [&](ByteSpan piece) {
    copy_bytes(room, piece);
    room = room.subspan(piece.size());
  });
  const Dif* const on_wire = dif_of(attributes_.wire);
  for (std::size_t i = 0; i < guards.size(); ++i) {
    const auto tuple = wire::unpack<ProtectionTuple>(
        ByteSpan{octets}.subspan(i * kTupleBytes).first<kTupleBytes>());
    check(in_memory, tuple, guards[i], first + i);
    if (on_wire != nullptr) {
      std::vector<std::byte> scratch;
      tuples_[first + i] = wire::pack(
          passed_on(in_memory, tuple, *on_wire, content_of(first + i, scratch), first + i));
    }
  }
}

void SignedMemory::finish_writing(std::uint64_t interval) {
  std::vector<std::byte> scratch;
  const ByteSpan content = content_of(interval, scratch);
  const Dif* const in_memory = dif_of(attributes_.memory);
  const Dif* const on_wire = dif_of(attributes_.wire);
  ProtectionTuple tuple;
  if (on_wire != nullptr) {
    tuple = wire::unpack<ProtectionTuple>(tuples_[interval]);
    check(*on_wire, tuple, guard_of(*on_wire, content), interval);
  }
  if (in_memory == nullptr) {
    return;
  }
  const auto octets =
      wire::pack(on_wire != nullptr ? passed_on(*on_wire, tuple, *in_memory, content, interval)
                                    : made(*in_memory, guard_of(*in_memory, content), interval));
  ByteSpan left{octets};
  metadata_.visit(interval * kTupleBytes, kTupleBytes, [&](std::span<std::byte> piece) {
    copy_bytes(piece, left.first(piece.size()));
    left = left.subspan(piece.size());
  });
}

void SignedMemory::check(const Dif& domain, const ProtectionTuple& tuple, std::uint16_t guard,
                         std::uint64_t interval) {
  const std::uint8_t mask = attributes_.check_mask;
  if (is_exempt(domain, tuple)) {
    return;
  }
  if ((mask & verbs::kCheckGuard) != 0) {
    if (guard != tuple.guard) {
      remember(SignatureError::BadGuard, guard, tuple.guard, interval);
      return;
    }
  }
  const std::uint32_t reference = reference_of(domain, interval);
  if ((mask & verbs::kCheckReferenceTag) != 0 && tuple.reference_tag != reference) {
    remember(SignatureError::BadReferenceTag, reference, tuple.reference_tag, interval);
    return;
  }
  if ((mask & verbs::kCheckApplicationTag) != 0 &&
      ((tuple.application_tag ^ domain.application_tag) & domain.application_check_mask) != 0) {
    remember(SignatureError::BadApplicationTag, domain.application_tag, tuple.application_tag,
             interval);
  }
}

void SignedMemory::remember(SignatureError error, std::uint32_t expected, std::uint32_t actual,
                            std::uint64_t interval) {
  const std::uint64_t offset = interval * (interval_bytes_ + kTupleBytes);
  const std::lock_guard guard{lock_};
  if (!status_.failed || offset < status_.offset) {
    status_ = {
        .failed = true, .error = error, .expected = expected, .actual = actual, .offset = offset};
  }
}

verbs::SignatureStatus SignedMemory::take_status() {
  const std::lock_guard guard{lock_};
  return std::exchange(status_, {});
}

}  // namespace weft::hca
