#include "core/engine/odp_memory.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

#include "hca/qp.h"

namespace weft::core::engine {

OdpMemory::OdpMemory(AddressSpace& space)
    : space_(space), all_(allocate_implicit_odp_umem(space)), lock_(space.lock_policy()) {}

OdpMemory::~OdpMemory() = default;

void OdpMemory::close() {
  std::map<std::uint64_t, std::unique_ptr<OdpUmem>> gone;
  {
    const std::lock_guard lock{lock_};
    gone.swap(parts_);
  }
  gone.clear();  // each waits for its calls
}

/// Null: no such memory is there, and no peer that names addresses of nothing makes parts of it.
OdpUmem* OdpMemory::part_at(std::uint64_t address) {
  const std::uint64_t first = address & ~(kPartBytes - 1);
  {
    const std::lock_guard lock{lock_};
    if (const auto found = parts_.find(first); found != parts_.end()) {
      return found->second.get();
    }
  }
  const std::uint64_t page = address & ~std::uint64_t{space_.page_size() - 1};
  std::vector<std::uint64_t> frames;
  if (!space_.fault_in(page, 1, false, frames)) {
    return nullptr;
  }
  const std::lock_guard lock{lock_};  // held: a second one could not be undone with a QP's lock
  std::unique_ptr<OdpUmem>& part = parts_[first];
  if (part == nullptr) {
    auto made = allocate_odp_child(
        *all_, first, kPartBytes,
        [this](OdpUmem& of, std::uint64_t from, std::uint64_t to) { take_away(of, from, to); });
    if (!made) {
      parts_.erase(first);
      return nullptr;
    }
    part = *std::move(made);
  }
  return part.get();
}

/// The pages go first: transfers that begin from now on fault. What began before is waited for.
void OdpMemory::take_away(OdpUmem& part, std::uint64_t first, std::uint64_t last) {
  part.unmap_dma_pages(first, last);
  if (hca::Hca* const hca = hca_.load(std::memory_order_acquire)) {
    hca->for_each_qp([](hca::Qp& qp) { qp.pass_through(); });
  }
}

/// All at once, or page by page where memory changes meanwhile: a page that goes again before the
/// transfer is there is brought in by the access itself, as any of the process's.
bool OdpMemory::map(OdpUmem& part, std::uint64_t address, std::uint64_t length,
                    std::uint64_t access) {
  if (part.is_mapped(address, length, access)) {
    return true;
  }
  faults_.fetch_add(1, std::memory_order_relaxed);
  constexpr int kMostTries = 1'000;  // policy: while memory changes again and again
  const std::uint64_t page = space_.page_size();
  const std::uint64_t last = address + length;
  std::uint64_t most = length;
  int tries = 0;
  while (address < last) {
    const std::uint64_t bytes = std::min(most, last - address);
    const std::uint64_t pages = (address + bytes + page - 1) / page - address / page;
    const auto mapped = part.map_dma_pages(address, bytes, access, part.sequence());
    if (mapped && *mapped == pages) {
      address += bytes;
    } else if (!mapped && mapped.error().code == ErrorCode::TryAgain && ++tries < kMostTries) {
      most = page - address % page;
      continue;
    } else {
      return false;
    }
    most = most == length ? most : page;
  }
  return true;
}

bool OdpMemory::fault_in(std::span<std::byte> range, bool for_writing) {
  auto at = std::bit_cast<std::uint64_t>(range.data());
  const std::uint64_t last = at + range.size();
  if (last < at) {
    return false;
  }
  const std::uint64_t access = for_writing ? kOdpAccess : kOdpRead;
  while (at < last) {
    OdpUmem* const part = part_at(at);
    if (part == nullptr) {
      return false;
    }
    const std::uint64_t length = std::min(last, part->end()) - at;
    if (!map(*part, at, length, access)) {
      return false;
    }
    at += length;
  }
  return true;
}

std::size_t OdpMemory::parts() const {
  const std::lock_guard lock{lock_};
  return parts_.size();
}

std::uint64_t OdpMemory::mapped_pages() const {
  const std::lock_guard lock{lock_};
  std::uint64_t sum = 0;
  for (const auto& [first, part] : parts_) {
    sum += part->mapped_pages();
  }
  return sum;
}

}  // namespace weft::core::engine
