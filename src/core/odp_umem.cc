#include "core/odp_umem.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::core {

OdpUmem::OdpUmem(AddressSpace& space, std::uint64_t start, std::uint64_t bytes,
                 OdpInvalidation invalidation)
    : space_(space),
      invalidation_(std::move(invalidation)),
      notifier_(*this, start, bytes),
      lock_(space.lock_policy()),
      dma_list_(bytes / space.page_size()) {}

OdpUmem::~OdpUmem() {
  // Before any member goes: an invalidation may be under way, and uses all of them.
  if (!is_implicit()) {
    space_.remove(notifier_);
  }
}

Result<std::unique_ptr<OdpUmem>> get_odp_umem(AddressSpace& space, std::uint64_t address,
                                              std::uint64_t length, OdpInvalidation invalidation) {
  const std::uint64_t page = space.page_size();
  const std::uint64_t start = address & ~(page - 1);
  const std::uint64_t end = address + length;
  if (length == 0 || end < address || end + page - 1 < end) {
    return fail(ErrorCode::InvalidArgument,
                "{} bytes at {:#x} are none, or reach over the end of the address space", length,
                address);
  }
  const std::uint64_t bytes = ((end + page - 1) & ~(page - 1)) - start;
  std::unique_ptr<OdpUmem> umem{new OdpUmem(space, start, bytes, std::move(invalidation))};
  space.insert(umem->notifier_);
  return umem;
}

std::unique_ptr<OdpUmem> allocate_implicit_odp_umem(AddressSpace& space) {
  return std::unique_ptr<OdpUmem>{new OdpUmem(space, 0, 0, {})};
}

Result<std::unique_ptr<OdpUmem>> allocate_odp_child(OdpUmem& parent, std::uint64_t address,
                                                    std::uint64_t length,
                                                    OdpInvalidation invalidation) {
  if (!parent.is_implicit()) {
    return fail(ErrorCode::InvalidArgument,
                "only of a region of the whole address space are there "
                "parts; this one has a range of its own");
  }
  return get_odp_umem(parent.space_, address, length, std::move(invalidation));
}

Result<std::uint64_t> OdpUmem::map_dma_pages(std::uint64_t address, std::uint64_t length,
                                             std::uint64_t access, std::uint64_t sequence) {
  constexpr std::uint64_t kPagesAtOnce = 512;  // policy
  if (access == 0 || (access & ~kOdpAccess) != 0) {
    return fail(ErrorCode::InvalidArgument, "a page is mapped to be read or written");
  }
  if (length == 0 || address < start() || address >= end() || length > end() - address) {
    return fail(ErrorCode::BadAddress, "{} bytes at {:#x} are not all inside", length, address);
  }
  const std::uint64_t page = space_.page_size();
  std::uint64_t at = address & ~(page - 1);
  const std::uint64_t last = (address + length + page - 1) & ~(page - 1);
  std::uint64_t mapped = 0;
  std::vector<std::uint64_t> frames;
  while (at != last) {
    if (!space_.is_alive()) {
      return fail(ErrorCode::NotFound, "the process whose memory it is has gone");
    }
    const std::uint64_t count = std::min(kPagesAtOnce, (last - at) / page);
    frames.clear();
    if (auto there = space_.fault_in(at, count, (access & kOdpWrite) != 0, frames); !there) {
      return mapped != 0 ? Result<std::uint64_t>{mapped} : std::unexpected(there.error());
    }
    bool is_current = false;
    {
      // An invalidation takes the lock after it has changed the sequence: either it is seen here,
      // or it finds and forgets what is mapped here.
      const std::lock_guard lock{lock_};
      is_current = sequence_.load(std::memory_order_acquire) == sequence;
      for (std::size_t i = 0; is_current && i < frames.size(); ++i) {
        std::uint64_t& entry = dma_list_[(at - start()) / page + i];
        mapped_ += entry == 0 ? 1 : 0;
        entry = frames[i] | access | (entry & kOdpAccess);
      }
    }
    if (!is_current) {
      return fail(ErrorCode::TryAgain, "pages of the range have changed meanwhile");
    }
    mapped += count;
    at += count * page;
  }
  return mapped;
}

bool OdpUmem::is_mapped(std::uint64_t address, std::uint64_t length, std::uint64_t access) const {
  const std::uint64_t page = space_.page_size();
  const std::lock_guard lock{lock_};
  for (std::uint64_t i = (address - start()) / page; start() + i * page < address + length; ++i) {
    if ((dma_list_[i] & access) != access) {
      return false;
    }
  }
  return true;
}

void OdpUmem::forget(std::uint64_t first, std::uint64_t last) {
  const std::uint64_t page = space_.page_size();
  const std::lock_guard lock{lock_};
  for (std::uint64_t i = (first - start()) / page; i < (last - start() + page - 1) / page; ++i) {
    mapped_ -= dma_list_[i] != 0 ? 1 : 0;
    dma_list_[i] = 0;
  }
}

void OdpUmem::unmap_dma_pages(std::uint64_t first, std::uint64_t last) {
  const std::uint64_t from = std::max(first, start());
  const std::uint64_t to = std::min(last, end());
  if (from < to) {
    forget(from, to);
  }
}

void OdpUmem::Notifier::invalidate(std::uint64_t first, std::uint64_t last) {
  umem_.sequence_.fetch_add(1, std::memory_order_acq_rel);
  if (umem_.invalidation_) {
    umem_.invalidation_(umem_, first, last);
  }
  umem_.forget(first, last);
}

std::vector<std::uint64_t> OdpUmem::dma_list() const {
  const std::lock_guard lock{lock_};
  return dma_list_;
}

std::uint64_t OdpUmem::mapped_pages() const {
  const std::lock_guard lock{lock_};
  return mapped_;
}

}  // namespace weft::core
