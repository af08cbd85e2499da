#include "core/mr_pool.h"

#include <mutex>
#include <utility>

#include "base/assert.h"

namespace weft::core {

MrPool::~MrPool() { WEFT_ASSERT(size() == 0, "a pool is cleared before it goes"); }

Result<void> MrPool::fill(Pd& pd, std::uint32_t count, MrType type, std::uint32_t max_entries,
                          std::uint32_t max_meta) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto made = type == MrType::Integrity
                          ? allocate_mr_integrity(pd, max_entries, max_meta, "rdma_rw")
                          : allocate_mr(pd, type, max_entries, "rdma_rw");
    if (!made) {
      clear();
      return std::unexpected(made.error());
    }
    const std::lock_guard lock{lock_};
    free_.push_back(*made);
  }
  return {};
}

Mr* MrPool::get() {
  const std::lock_guard lock{lock_};
  if (free_.empty()) {
    return nullptr;
  }
  Mr* const mr = free_.back();
  free_.pop_back();
  ++taken_;
  return mr;
}

void MrPool::put(Mr& mr) {
  const std::lock_guard lock{lock_};
  WEFT_ASSERT(taken_ != 0, "a region is put that was taken");
  --taken_;
  free_.push_back(&mr);
}

void MrPool::clear() {
  std::vector<Mr*> regions;
  {
    const std::lock_guard lock{lock_};
    WEFT_ASSERT(taken_ == 0, "regions are put before their pool is cleared");
    regions = std::exchange(free_, {});
  }
  for (Mr* const mr : regions) {
    const auto gone = deregister_mr(*mr);
    WEFT_ASSERT(gone, "nothing uses a region of a pool that was put");
  }
}

std::size_t MrPool::size() const {
  const std::lock_guard lock{lock_};
  return free_.size() + taken_;
}

std::size_t MrPool::taken() const {
  const std::lock_guard lock{lock_};
  return taken_;
}

}  // namespace weft::core
