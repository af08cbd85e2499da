#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/result.h"

namespace weft::core {

/// Hears of changes of a range of an address space before they happen (`struct
/// mmu_interval_notifier`), between AddressSpace::insert() and remove(). Whoever makes one calls
/// these, since the constructor of this part of it would be too early, and the destructor too late:
/// the class that derives from it is not there then, and another thread may call it at any moment.
class IntervalNotifier {
 public:
  /// The range [start, start + length).
  IntervalNotifier(std::uint64_t start, std::uint64_t length)
      : start_(start), end_(start + length) {}
  virtual ~IntervalNotifier();
  IntervalNotifier(const IntervalNotifier&) = delete;
  IntervalNotifier& operator=(const IntervalNotifier&) = delete;

  [[nodiscard]] std::uint64_t start() const { return start_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }

  /// Pages in [first, last), which is inside the range, are about to change: on return no device
  /// reaches them as they are. Called without locks of the address space, so it may wait for
  /// transfers whose threads ask for pages, or insert other notifiers; several threads may be in
  /// it.
  virtual void invalidate(std::uint64_t first, std::uint64_t last) = 0;

 private:
  friend class AddressSpace;
  const std::uint64_t start_;
  const std::uint64_t end_;
  std::uint64_t number_{};  // of its insertion; 0: in no address space
  unsigned calls_{};        // under way; with the address space's lock
};

/// The memory of a process as its kernel sees it (`struct mm_struct`): what pinning needs of it. A
/// driver of live programs asks the operating system, a test keeps pages of its own. Outlives all
/// that was pinned in it. Any thread.
class AddressSpace {
 public:
  explicit AddressSpace(LockPolicy policy) : policy_(policy), lock_(policy) {}
  virtual ~AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  [[nodiscard]] LockPolicy lock_policy() const { return policy_; }

  /// Bytes of a page, a power of two.
  [[nodiscard]] virtual std::uint32_t page_size() const = 0;

  /// Bytes that may be locked at once (RLIMIT_MEMLOCK); 0: none may.
  [[nodiscard]] virtual std::uint64_t lock_limit() const = 0;

  /// Makes `count` pages from `start` on present, keeps them where they are, and appends the
  /// addresses by which a device reaches them, in order. BadAddress: one of them is not there, or
  /// may not be written; then none is kept and nothing appended. May sleep.
  virtual Result<void> pin(std::uint64_t start, std::uint64_t count, bool for_writing,
                           std::vector<std::uint64_t>& pages) = 0;

  /// Lets pages go; with `is_dirty` a device may have written to them.
  virtual void unpin(std::uint64_t start, std::uint64_t count, bool is_dirty) = 0;

  /// Makes pages present as pin() does, and keeps none: a notifier hears when one goes. With locks
  /// that notifiers wait for.
  virtual Result<void> fault_in(std::uint64_t start, std::uint64_t count, bool for_writing,
                                std::vector<std::uint64_t>& pages);

  /// False: its process is exiting, and the memory is gone.
  [[nodiscard]] virtual bool is_alive() const = 0;

  /// From now on `notifier`, which is whole, hears of changes of its range
  /// (`mmu_interval_notifier_insert`).
  void insert(IntervalNotifier& notifier);

  /// On return no call of it is under way, and none comes (a fence,
  /// `mmu_interval_notifier_remove`). Not from within its own, nor with a lock that one waits for.
  void remove(IntervalNotifier& notifier);

  /// For whoever changes mappings: tells the notifiers that are there now before pages of [first,
  /// last) change, one after the other. Not from within one.
  void invalidate(std::uint64_t first, std::uint64_t last);

  /// Where the operating system tells of changes, their notifiers may hear of them a moment after
  /// the call that made them has returned. Waits until they have heard of all whose calls have; not
  /// from within one, nor with a lock that one waits for. False: they have not after a time that is
  /// the address space's policy.
  virtual bool settle() { return true; }

  /// Bytes that are locked now.
  [[nodiscard]] std::uint64_t locked_bytes() const {
    return locked_.load(std::memory_order_relaxed);
  }

 protected:
  /// [first, last) of pages.
  using Range = std::pair<std::uint64_t, std::uint64_t>;

  /// A notifier of this range, which is not empty, has come.
  virtual void watch(const Range& /*range*/) {}
  /// One has gone; others may be of parts of its range (unheard_parts()).
  virtual void unwatch(const Range& /*range*/) {}

  [[nodiscard]] bool is_heard(const Range& range);
  /// What no notifier is of, in order.
  [[nodiscard]] std::vector<Range> unheard_parts(const Range& range);

 private:
  friend class Umem;
  std::atomic<std::uint64_t> locked_{};
  const LockPolicy policy_;
  std::atomic<std::uint32_t> ended_calls_{};  // what remove() sleeps on
  PolicyLock lock_;                           // of what follows
  std::uint64_t next_number_{1};
  std::map<std::uint64_t, IntervalNotifier*> notifiers_;  // by number
};

}  // namespace weft::core
