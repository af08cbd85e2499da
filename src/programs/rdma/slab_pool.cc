#include "programs/rdma/slab_pool.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "os/shared_memory.h"

namespace weft::programs::rdma {

struct SlabPool::Slab {
  explicit Slab(std::size_t bytes) : buffer_bytes(bytes) {}
  [[nodiscard]] bool is_unused() const { return free.size() == buffers.size(); }

  const std::size_t buffer_bytes;
  os::UniqueFd file;  // open, so that others find it (os::find_held_file)
  os::Mapping memory;
  std::shared_ptr<const void> attached;  // ends before the memory
  std::vector<Buffer> buffers;
  std::vector<Buffer*> free;  // the last one given back is the next: it lies in caches
};

std::uint64_t SlabPool::Buffer::address() const {
  return std::bit_cast<std::uint64_t>(memory_.data());
}

SlabPool::SlabPool(Attach attach) : attach_(std::move(attach)) {}

SlabPool::~SlabPool() {
  WEFT_ASSERT(std::ranges::all_of(slabs_, [](const auto& one) { return one.second->is_unused(); }),
              "who took a buffer has given it back");
}

Result<SlabPool::Lease> SlabPool::take(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  const auto slab = slab_for(std::max(kSmallest, std::bit_ceil(bytes)));
  if (!slab) {
    return std::unexpected(slab.error());
  }
  Buffer* const buffer = (*slab)->free.back();
  (*slab)->free.pop_back();
  return Lease{buffer, {this}};
}

/// One with a free buffer.
Result<SlabPool::Slab*> SlabPool::slab_for(std::size_t buffer_bytes) {
  for (const auto& [begin, slab] : slabs_) {
    if (slab->buffer_bytes == buffer_bytes && !slab->free.empty()) {
      return slab.get();
    }
  }
  const std::size_t bytes = std::clamp(kBuffersInSlab * buffer_bytes, kLeastSlab, kMostSlab);
  const std::size_t buffers = std::max<std::size_t>(1, bytes / buffer_bytes);
  auto made = make_slab(buffer_bytes, buffers);
  // A limit of memory that may be locked may have room for less.
  return made || buffers == 1 ? made : make_slab(buffer_bytes, 1);
}

Result<SlabPool::Slab*> SlabPool::make_slab(std::size_t buffer_bytes, std::size_t buffers) {
  auto slab = std::make_shared<Slab>(buffer_bytes);
  const std::size_t bytes = buffers * buffer_bytes;
  auto file = os::create_shared_memory("weft-buffers", bytes);
  if (!file) {
    return std::unexpected(file.error());
  }
  slab->file = *std::move(file);
  auto memory = os::map_shared(slab->file, os::Protection::ReadWrite, bytes, bytes);
  if (!memory) {
    return std::unexpected(memory.error());
  }
  slab->memory = *std::move(memory);
  const MutableByteSpan octets = slab->memory.bytes();
  if (attach_) {
    auto attached = attach_(octets);
    if (!attached) {
      return std::unexpected(attached.error());
    }
    slab->attached = *std::move(attached);
  }
  slab->buffers.reserve(buffers);
  for (std::size_t i = 0; i < buffers; ++i) {
    slab->buffers.emplace_back(*slab, octets.subspan(i * buffer_bytes, buffer_bytes));
    slab->free.push_back(&slab->buffers.back());
  }
  size_bytes_ += bytes;
  const auto begin = std::bit_cast<std::uint64_t>(octets.data());
  return slabs_.emplace(begin, std::move(slab)).first->second.get();
}

void SlabPool::give_back(Buffer& buffer) {
  const std::lock_guard lock{mutex_};
  Slab& slab = buffer.slab_;
  slab.free.push_back(&buffer);
  if (size_bytes_ > kKept && slab.is_unused()) {
    size_bytes_ -= slab.memory.bytes().size();
    slabs_.erase(std::bit_cast<std::uint64_t>(slab.memory.bytes().data()));
  }
}

std::optional<SlabPool::Extent> SlabPool::extent_of(std::uint64_t address,
                                                    std::size_t bytes) const {
  const std::lock_guard lock{mutex_};
  const auto after = slabs_.upper_bound(address);
  if (after == slabs_.begin()) {
    return std::nullopt;
  }
  const auto& [begin, slab] = *std::prev(after);
  const ByteSpan memory = slab->memory.bytes();
  if (address - begin > memory.size() || bytes > memory.size() - (address - begin)) {
    return std::nullopt;
  }
  return Extent{.memory = memory, .attached = slab->attached.get(), .holder = slab};
}

std::size_t SlabPool::size_bytes() const {
  const std::lock_guard lock{mutex_};
  return size_bytes_;
}

}  // namespace weft::programs::rdma
