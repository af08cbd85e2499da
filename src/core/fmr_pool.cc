#include "core/fmr_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/assert.h"
#include "core/device.h"

namespace weft::core {
namespace {

[[nodiscard]] std::uint32_t max_remaps_of(const Device& device) {
  const std::uint32_t own = device.attributes().max_maps_per_fmr;
  return own != 0 ? own : kFmrMaxRemaps;
}

}  // namespace

FmrPool::FmrPool(Pd& pd, const FmrPoolParameters& parameters)
    : pd_(pd),
      parameters_(parameters),
      max_remaps_(max_remaps_of(pd.device())),
      lock_(pd.device().lock_policy()),
      flusher_(pd.device().environment(), WorkContext::UnboundWorkQueue, 0,
               [this] { run_flusher(); }) {
  pd_.hold();  // also where the pool has no region that does
}

FmrPool::~FmrPool() {
  flusher_.cancel_and_wait();
  release_batch();
  std::size_t mapped = 0;
  std::vector<Fmr*> shown;
  for (const auto& one : all_) {
    mapped += one->references_ != 0 ? 1 : 0;
    if (one->remaps_ != 0) {
      shown.push_back(one->fmr_);
    }
  }
  if (mapped != 0) {
    pd_.device().environment().log(
        LogLevel::Warning,
        fmt::format("{} of {} regions of an FMR pool of {} are still mapped, which end now", mapped,
                    all_.size(), pd_.caller()));
  }
  static_cast<void>(unmap_fmrs(shown));
  while (!free_.empty()) {
    free_.pop_front();
  }
  for (const auto& one : all_) {
    static_cast<void>(deallocate_fmr(*one->fmr_));
  }
  pd_.put();
}

Result<void> FmrPool::fill() {
  for (std::uint32_t i = 0; i < parameters_.pool_size; ++i) {
    const auto made = allocate_fmr(pd_, parameters_.region);
    if (!made) {
      return std::unexpected(made.error());
    }
    auto one = std::make_unique<PoolFmr>();
    one->fmr_ = *made;
    free_.push_back(*one);
    all_.push_back(std::move(one));
  }
  return {};
}

PoolFmr* FmrPool::find_cached(std::span<const std::uint64_t> pages, std::uint64_t iova) {
  const auto [begin, end] = cache_.equal_range(pages.front());
  const auto found = std::find_if(begin, end, [&](const auto& entry) {
    return entry.second->iova_ == iova && std::ranges::equal(entry.second->pages_, pages);
  });
  return found != end ? found->second : nullptr;
}

void FmrPool::add_to_cache(PoolFmr& fmr, std::span<const std::uint64_t> pages, std::uint64_t iova) {
  fmr.iova_ = iova;
  fmr.pages_.assign(pages.begin(), pages.end());
  cache_.emplace(pages.front(), &fmr);
}

void FmrPool::remove_from_cache(PoolFmr& fmr) {
  if (fmr.pages_.empty()) {
    return;
  }
  const auto [begin, end] = cache_.equal_range(fmr.pages_.front());
  cache_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == &fmr; }));
  fmr.pages_.clear();
}

void FmrPool::make_dirty(PoolFmr& fmr) {
  remove_from_cache(fmr);
  dirty_.push_back(fmr);
  ++dirty_count_;
}

Result<PoolFmr*> FmrPool::map(std::span<const std::uint64_t> pages, std::uint64_t iova) {
  if (pages.empty() || pages.size() > parameters_.region.max_pages) {
    return fail(ErrorCode::InvalidArgument, "a list of {} pages; regions of the pool take 1 to {}",
                pages.size(), parameters_.region.max_pages);
  }
  PoolFmr* one = nullptr;
  {
    const std::lock_guard lock{lock_};
    if (PoolFmr* const cached = find_cached(pages, iova)) {
      if (cached->references_++ == 0) {
        free_.remove(*cached);
      }
      return cached;
    }
    if (free_.empty()) {
      return fail(ErrorCode::TryAgain, "none of the pool's {} regions is free", all_.size());
    }
    one = &free_.pop_front();
    remove_from_cache(*one);
  }
  if (const auto mapped = map_phys_fmr(*one->fmr_, pages, iova); !mapped) {
    const std::lock_guard lock{lock_};
    free_.push_back(*one);
    return std::unexpected(mapped.error());
  }
  const std::lock_guard lock{lock_};
  ++one->remaps_;
  one->references_ = 1;
  if (parameters_.caches) {
    add_to_cache(*one, pages, iova);
  }
  return one;
}

void FmrPool::unmap(PoolFmr& fmr) {
  bool is_flush_due = false;
  {
    const std::lock_guard lock{lock_};
    WEFT_ASSERT(fmr.references_ != 0, "a region is given back that is mapped");
    if (--fmr.references_ != 0) {
      return;
    }
    if (fmr.remaps_ < max_remaps_) {
      free_.push_back(fmr);
      return;
    }
    make_dirty(fmr);
    is_flush_due = parameters_.dirty_watermark != 0 && dirty_count_ >= parameters_.dirty_watermark;
  }
  if (is_flush_due) {
    flusher_.queue();
  }
}

void FmrPool::release_batch() {
  std::vector<PoolFmr*> batch;
  std::vector<Fmr*> fmrs;
  {
    const std::lock_guard lock{lock_};
    while (!dirty_.empty()) {
      PoolFmr& one = dirty_.pop_front();
      batch.push_back(&one);
      fmrs.push_back(one.fmr_);
    }
    dirty_count_ = 0;
  }
  if (const auto unmapped = unmap_fmrs(fmrs); !unmapped) {
    pd_.device().environment().log(
        LogLevel::Warning, fmt::format("FMRs could not be unmapped: {}", unmapped.error().reason));
  }
  const std::lock_guard lock{lock_};
  for (PoolFmr* const one : batch) {
    one->remaps_ = 0;
    free_.push_back(*one);
  }
}

void FmrPool::run_flusher() {
  const std::uint64_t serial = requested_.load(std::memory_order_acquire);
  release_batch();
  if (parameters_.flush_function != nullptr) {
    parameters_.flush_function(*this, parameters_.flush_argument);
  }
  completed_.store(serial, std::memory_order_release);
  pd_.device().environment().notify();
}

Result<void> FmrPool::flush(const std::function<bool()>& is_interrupted) {
  {
    // Those that were not mapped often enough to be dirty may be reached as well.
    const std::lock_guard lock{lock_};
    free_.for_each([&](PoolFmr& one) {
      if (one.remaps_ != 0) {
        free_.remove(one);
        make_dirty(one);
      }
    });
  }
  const std::uint64_t serial = requested_.fetch_add(1, std::memory_order_acq_rel) + 1;
  flusher_.queue();
  const auto is_done = [&] { return completed_.load(std::memory_order_acquire) >= serial; };
  pd_.device().environment().wait_until(
      [&] { return is_done() || (is_interrupted && is_interrupted()); }, Instant::never());
  if (!is_done()) {
    return fail(ErrorCode::Interrupted, "the wait for the flusher was interrupted; it goes on");
  }
  return {};
}

FmrPool::Counts FmrPool::counts() const {
  const std::lock_guard lock{lock_};
  std::size_t free = 0;
  for (const auto& one : all_) {
    free += one->references_ == 0 ? 1 : 0;
  }
  return {.free = free - dirty_count_, .dirty = dirty_count_, .cached = cache_.size()};
}

Result<FmrPool*> create_fmr_pool(Pd& pd, const FmrPoolParameters& parameters) {
  auto pool = std::make_unique<FmrPool>(pd, parameters);
  if (const auto filled = pool->fill(); !filled) {
    return std::unexpected(filled.error());
  }
  return pool.release();
}

void destroy_fmr_pool(FmrPool& pool) { std::unique_ptr<FmrPool>{&pool}.reset(); }

}  // namespace weft::core
