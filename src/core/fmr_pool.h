#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/result.h"
#include "core/fmr.h"
#include "core/pd.h"
#include "core/work.h"

namespace weft::core {

class FmrPool;

/// Maps of a region before it is to be unmapped, where the device does not say (policy, the
/// kernel's).
inline constexpr std::uint32_t kFmrMaxRemaps = 32;

struct FmrPoolParameters {
  FmrAttributes region{};
  std::uint32_t pool_size{};
  /// So many regions that wait to be unmapped start the flusher; 0: only flush() does.
  std::uint32_t dirty_watermark{};
  /// Called by the flusher after each batch that it unmapped. Must not flush the pool.
  void (*flush_function)(FmrPool& pool, void* argument){};
  void* flush_argument{};
  bool caches{};  ///< the same list at the same address is the same region again
};

struct FmrListTag;

/// A region of a pool while it is mapped (`struct ib_pool_fmr`).
class PoolFmr final : public ListHook<FmrListTag> {
 public:
  [[nodiscard]] const Fmr& fmr() const { return *fmr_; }
  /// Times that it was mapped since it was unmapped.
  [[nodiscard]] std::uint32_t remaps() const { return remaps_; }

 private:
  friend class FmrPool;
  Fmr* fmr_{};
  std::uint32_t references_{};  // 0: on one of the pool's lists
  std::uint32_t remaps_{};
  std::uint64_t iova_{};              // of the cache, as what follows
  std::vector<std::uint64_t> pages_;  // empty: not in the cache
};

/// Fast memory regions that are mapped again and again and unmapped many at a time, since that is
/// what costs (`struct ib_fmr_pool`). A region that was given back may still be reached by its old
/// keys until it is mapped for something else or flushed; who must not have that flushes. Any
/// thread.
class FmrPool {
 public:
  FmrPool(Pd& pd, const FmrPoolParameters& parameters);
  ~FmrPool();
  FmrPool(const FmrPool&) = delete;
  FmrPool& operator=(const FmrPool&) = delete;

  /// A region that shows `pages` from `iova` on (`ib_fmr_pool_map_phys`). InvalidArgument: none or
  /// too many pages; TryAgain: no region is free; or the driver's error.
  Result<PoolFmr*> map(std::span<const std::uint64_t> pages, std::uint64_t iova);

  /// Gives it back (`ib_fmr_pool_unmap`); mapped twice by the cache, it is given back twice.
  void unmap(PoolFmr& fmr);

  /// On return no peer reaches a region that was given back before the call (`ib_flush_fmr_pool`).
  /// Interrupted: `is_interrupted` said so first. Sleeps.
  Result<void> flush(const std::function<bool()>& is_interrupted = {});

  struct Counts {
    std::size_t free{};
    std::size_t dirty{};  ///< to be unmapped
    std::size_t cached{};
  };
  [[nodiscard]] Counts counts() const;

 private:
  friend Result<FmrPool*> create_fmr_pool(Pd& pd, const FmrPoolParameters& parameters);
  Result<void> fill();
  [[nodiscard]] PoolFmr* find_cached(std::span<const std::uint64_t> pages, std::uint64_t iova);
  void add_to_cache(PoolFmr& fmr, std::span<const std::uint64_t> pages, std::uint64_t iova);
  void remove_from_cache(PoolFmr& fmr);
  void make_dirty(PoolFmr& fmr);
  void release_batch();
  void run_flusher();

  Pd& pd_;
  const FmrPoolParameters parameters_;
  const std::uint32_t max_remaps_;
  std::vector<std::unique_ptr<PoolFmr>> all_;
  mutable PolicyLock lock_;                   // of what follows, but for the numbers
  IntrusiveList<PoolFmr, FmrListTag> free_;   // the one that was used longest ago first
  IntrusiveList<PoolFmr, FmrListTag> dirty_;  // out of the cache
  std::size_t dirty_count_{};
  std::unordered_multimap<std::uint64_t, PoolFmr*> cache_;  // by the first page
  std::atomic<std::uint64_t> requested_{};                  // number of the newest flush
  std::atomic<std::uint64_t> completed_{};
  Work flusher_;
};

/// All regions are made at once. NotImplemented: the device has none (R-FMR-1).
Result<FmrPool*> create_fmr_pool(Pd& pd, const FmrPoolParameters& parameters);

/// Frees everything; regions that are still mapped are reported in the log (R-FMR-5).
void destroy_fmr_pool(FmrPool& pool);

}  // namespace weft::core
