#include "cm/listeners.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft::cm {
namespace {

[[nodiscard]] bool takes(const PrivateDataMatch& match, ByteSpan data) {
  for (std::size_t i = 0; i < match.mask.size(); ++i) {
    const std::byte octet = i < data.size() ? data[i] : std::byte{};
    if (((octet ^ match.value[i]) & match.mask[i]) != std::byte{}) {
      return false;
    }
  }
  return true;
}

[[nodiscard]] unsigned bits_of(const PrivateDataMatch& match) {
  unsigned bits = 0;
  for (const std::byte octet : match.mask) {
    bits += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(octet)));
  }
  return bits;
}

/// True if some private data matches both patterns.
[[nodiscard]] bool overlap(const PrivateDataMatch& a, const PrivateDataMatch& b) {
  if ((bits_of(a) == 0) != (bits_of(b) == 0)) {
    return false;  // no conflict: the one with a pattern takes precedence
  }
  for (std::size_t i = 0; i < std::min(a.mask.size(), b.mask.size()); ++i) {
    if (((a.value[i] ^ b.value[i]) & a.mask[i] & b.mask[i]) != std::byte{}) {
      return false;
    }
  }
  return true;
}

[[nodiscard]] bool overlap(const ListenerTable::Listener& a, const ListenerTable::Listener& b) {
  return ((a.service_id ^ b.service_id) & a.mask & b.mask) == 0 &&
         (!a.ca_guid || !b.ca_guid || *a.ca_guid == *b.ca_guid) &&
         (!a.qp_type || !b.qp_type || *a.qp_type == *b.qp_type) && overlap(a.match, b.match);
}

[[nodiscard]] bool is_better(const ListenerTable::Listener& a, const ListenerTable::Listener& b) {
  return std::pair{bits_of(a.match), a.ca_guid.has_value()} >
         std::pair{bits_of(b.match), b.ca_guid.has_value()};
}

}  // namespace

bool ListenerTable::BySpecificity::operator()(std::uint64_t a, std::uint64_t b) const {
  const int bits_a = std::popcount(a);
  const int bits_b = std::popcount(b);
  return bits_a != bits_b ? bits_a > bits_b : a > b;
}

const ListenerTable::Listener* ListenerTable::find_conflict(const Listener& listener) const {
  const auto in_bucket = [&listener](const Bucket& bucket) -> const Listener* {
    const auto found = std::ranges::find_if(
        bucket, [&listener](const Listener& other) { return overlap(listener, other); });
    return found == bucket.end() ? nullptr : &*found;
  };
  for (const auto& [mask, group] : groups_) {
    if ((mask & listener.mask) == mask) {  // overlapping listeners share a bucket of this group
      const auto bucket = group.find(listener.service_id & mask);
      if (const Listener* const found =
              bucket == group.end() ? nullptr : in_bucket(bucket->second)) {
        return found;
      }
      continue;
    }
    for (const auto& [masked_id, bucket] : group) {
      if (const Listener* const found = in_bucket(bucket)) {
        return found;
      }
    }
  }
  return nullptr;
}

Result<void> ListenerTable::add(Listener listener) {
  if (const Listener* const other = find_conflict(listener)) {
    return fail(ErrorCode::Busy,
                "service id {:#x} with mask {:#x} overlaps with listener {}, which has {:#x} with "
                "mask {:#x}: take another one, or tell them apart by private data or "
                "type of QP",
                listener.service_id, listener.mask, other->id.value(), other->service_id,
                other->mask);
  }
  if (!groups_.contains(listener.mask) && groups_.size() >= masks_limit_) {
    return fail(ErrorCode::OutOfMemory,
                "listeners have {} different service masks, which is the limit: use one of theirs",
                groups_.size());
  }
  Bucket& bucket = groups_[listener.mask][listener.service_id & listener.mask];
  const auto place = std::ranges::find_if(
      bucket, [&listener](const Listener& other) { return is_better(listener, other); });
  bucket.insert(place, std::move(listener));
  ++size_;
  return {};
}

void ListenerTable::remove(const Listener& listener) {
  const auto group = groups_.find(listener.mask);
  if (group == groups_.end()) {
    return;
  }
  const auto bucket = group->second.find(listener.service_id & listener.mask);
  if (bucket == group->second.end()) {
    return;
  }
  size_ -= std::erase_if(bucket->second,
                         [&listener](const Listener& other) { return other.id == listener.id; });
  if (bucket->second.empty()) {
    group->second.erase(bucket);
  }
  if (group->second.empty()) {
    groups_.erase(group);
  }
}

CmId ListenerTable::find(std::uint64_t service_id, Guid ca_guid, ByteSpan private_data,
                         QpType qp_type) const {
  for (const auto& [mask, group] : groups_) {
    const auto bucket = group.find(service_id & mask);
    if (bucket == group.end()) {
      continue;
    }
    for (const Listener& listener : bucket->second) {
      if ((!listener.ca_guid || *listener.ca_guid == ca_guid) &&
          (!listener.qp_type || *listener.qp_type == qp_type) &&
          takes(listener.match, private_data)) {
        return listener.id;
      }
    }
  }
  return kNoCmId;
}

}  // namespace weft::cm
