#include "core/umem.h"

#include <algorithm>
#include <bit>

#include "core/device.h"

namespace weft::core {
namespace {

constexpr std::uint64_t kPagesAtOnce = 512;     // policy: pinned by one call
constexpr std::uint32_t kMostBytes = 1U << 31;  // policy: of an element of the list
constexpr verbs::AccessFlags kWrites = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                       verbs::Access::RemoteWrite | verbs::Access::RemoteAtomic |
                                       verbs::Access::MemoryWindowBind;

[[nodiscard]] std::uint64_t pages_of(std::uint64_t address, std::uint64_t length,
                                     std::uint64_t page) {
  return (address % page + length + page - 1) / page;
}

}  // namespace

Umem::Umem(Device& device, AddressSpace& space, std::uint64_t address, std::uint64_t length,
           bool is_writable)
    : device_(device),
      space_(space),
      address_(address),
      length_(length),
      is_writable_(is_writable),
      page_count_(pages_of(address, length, space.page_size())) {}

Umem::~Umem() {
  const DmaDirection direction = is_writable_ ? DmaDirection::FromDevice : DmaDirection::ToDevice;
  if (is_mapped_) {
    unmap_from_dma(device_, list_, direction);
  }
  if (pinned_ != 0) {
    space_.unpin(address_ - offset(), pinned_, is_writable_ && is_mapped_);
  }
  if (is_charged_) {
    space_.locked_.fetch_sub(page_count_ * space_.page_size(), std::memory_order_relaxed);
  }
}

std::uint32_t Umem::offset() const {
  return static_cast<std::uint32_t>(address_ % space_.page_size());
}

/// Adds to what the process has locked, first, so that two that race cannot both pass the limit.
Result<void> Umem::charge() {
  const std::uint64_t limit = space_.lock_limit();
  if (limit == 0) {
    return fail(ErrorCode::PermissionDenied,
                "the process may lock no memory; raise its limit (ulimit -l)");
  }
  const std::uint64_t bytes = page_count_ * space_.page_size();
  const std::uint64_t before = space_.locked_.fetch_add(bytes, std::memory_order_relaxed);
  is_charged_ = true;
  if (before > limit || bytes > limit - before) {
    return fail(ErrorCode::OutOfMemory,
                "{} bytes more than the {} locked ones exceed the limit of {} (ulimit -l)", bytes,
                before, limit);
  }
  return {};
}

Result<void> Umem::pin() {
  const std::uint32_t page_size = space_.page_size();
  std::vector<std::uint64_t> pages;
  while (pinned_ != page_count_) {
    pages.clear();
    const std::uint64_t count = std::min(kPagesAtOnce, page_count_ - pinned_);
    const std::uint64_t start = address_ - offset() + pinned_ * page_size;
    if (auto pinned = space_.pin(start, count, is_writable_, pages); !pinned) {
      return pinned;
    }
    pinned_ += count;
    for (const std::uint64_t page : pages) {
      if (!list_.empty() && list_.back().address + list_.back().length == page &&
          list_.back().length <= kMostBytes - page_size) {
        list_.back().length += page_size;
      } else {
        list_.push_back({.address = page, .length = page_size});
      }
    }
  }
  return {};
}

Result<std::unique_ptr<Umem>> get_umem(Device& device, AddressSpace& space, std::uint64_t address,
                                       std::uint64_t length, verbs::AccessFlags access) {
  const std::uint64_t end = address + length;
  if (length == 0 || end < address || end + space.page_size() - 1 < end) {
    return fail(ErrorCode::InvalidArgument,
                "{} bytes at {:#x} are none, or reach over the end of the address space", length,
                address);
  }
  const bool is_writable = !(access & kWrites).empty();
  std::unique_ptr<Umem> umem{new Umem(device, space, address, length, is_writable)};
  auto done = umem->charge();
  if (done) {
    done = umem->pin();
  }
  if (done) {
    done = map_for_dma(device, umem->list_,
                       is_writable ? DmaDirection::FromDevice : DmaDirection::ToDevice);
    umem->is_mapped_ = done.has_value();
  }
  if (!done) {
    return std::unexpected(done.error());
  }
  return umem;
}

Result<void> Umem::copy_from(std::uint64_t offset, MutableByteSpan into) const {
  if (offset > length_ || into.size() > length_ - offset) {
    return fail(ErrorCode::InvalidArgument, "{} bytes from byte {} on are not inside {} bytes",
                into.size(), offset, length_);
  }
  std::uint64_t skip = this->offset() + offset;
  for (const ScatterEntry& element : list_) {
    if (skip >= element.length) {
      skip -= element.length;
      continue;
    }
    const std::size_t take = std::min<std::size_t>(element.length - skip, into.size());
    copy_bytes(into, {std::bit_cast<const std::byte*>(element.address + skip), take});
    into = into.subspan(take);
    skip = 0;
    if (into.empty()) {
      break;
    }
  }
  return {};
}

std::uint64_t best_page_size(const Umem& umem, std::uint64_t sizes, std::uint64_t iova) {
  // Bits in which any constraint is: pages larger than its lowest one cannot be used.
  std::uint64_t constraints = 0;
  // A page larger than one that holds the whole range is no better than that.
  const std::uint64_t varies = (umem.length() - 1 + iova) ^ iova;
  if (const auto bits = static_cast<unsigned>(std::bit_width(varies)); bits < 64) {
    constraints |= sizes & (~std::uint64_t{0} << bits);
  }
  std::uint64_t at = iova;
  std::uint64_t skipped = umem.offset();
  for (const ScatterEntry& element : umem.list()) {
    constraints |= (element.address + skipped) ^ at;  // a page has one offset on both sides
    at += element.length - skipped;
    skipped = 0;
    if (&element != &umem.list().back()) {
      constraints |= at;  // where an element ends a page ends
    }
  }
  if (constraints == 0) {
    return std::bit_floor(sizes);
  }
  // Up to the lowest such bit, itself included.
  const std::uint64_t lowest = constraints & (~constraints + 1);
  return std::bit_floor(sizes & ((lowest - 1) | lowest));
}

}  // namespace weft::core
