#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/address_space.h"
#include "kernel/page_events.h"

namespace weft::kernel {

/// How a process learns that memory changes that is paged on demand.
enum class Paging : std::uint8_t {
  Told,           ///< who changes it says so before (weft_mm_invalidate())
  ProgramFaults,  ///< the operating system tells of changes and of faults of the program's own
                  ///< instructions. A system call that is given a page that nobody has touched
                  ///< fails with EFAULT.
  AllFaults,      ///< and of faults of system calls
};

/// The memory of this process, which is that of its programs and of its devices alike: a device
/// reaches a page by the process's own address. What the operating system tells of changes comes
/// when they have been made, unlike in a kernel; a process that may tear mappings of pages under
/// transfers says so before (weft_mm_invalidate()) either way. Any thread.
class ProcessMemory final : public core::AddressSpace {
 public:
  /// Without `paging`: the best that the process may have, AllFaults before ProgramFaults before
  /// Told; it is begun with the first notifier.
  explicit ProcessMemory(std::optional<Paging> paging = std::nullopt)
      : AddressSpace(LockPolicy::Spin), wanted_(paging) {}

  [[nodiscard]] std::uint32_t page_size() const override;
  [[nodiscard]] std::uint64_t lock_limit() const override;
  Result<void> pin(std::uint64_t start, std::uint64_t count, bool for_writing,
                   std::vector<std::uint64_t>& pages) override;
  void unpin(std::uint64_t start, std::uint64_t count, bool is_dirty) override;
  Result<void> fault_in(std::uint64_t start, std::uint64_t count, bool for_writing,
                        std::vector<std::uint64_t>& pages) override;
  [[nodiscard]] bool is_alive() const override { return true; }
  [[nodiscard]] bool settle() override;

  /// Begins it where that has not happened yet. Refused: as the operating system says, and changes
  /// are heard as Told.
  Result<Paging> start_paging();
  /// The reason why changes are heard as Told, in words; null: they are heard of by themselves.
  [[nodiscard]] const char* unheard();
  /// Page faults that the operating system has told.
  [[nodiscard]] std::uint64_t faults() const;

 private:
  void watch(const Range& range) override;
  void unwatch(const Range& range) override;
  [[nodiscard]] bool watch_pages(PageEvents& heard, const Range& range);
  void take(const os::MemoryMessage& change);
  Result<void> bring_in(std::uint64_t start, std::uint64_t bytes, bool for_writing);
  void release(std::uint64_t page);  // with the lock
  [[nodiscard]] PageEvents* events() const { return events_.load(std::memory_order_acquire); }

  const std::optional<Paging> wanted_;
  std::mutex mutex_;                                       // of what follows
  std::unordered_map<std::uint64_t, std::uint32_t> pins_;  // by page; locks do not count
  bool is_started_{};
  Result<Paging> paging_{Paging::Told};
  std::map<std::uint64_t, std::uint64_t> watched_;  // ranges by their first address, apart
  std::unique_ptr<PageEvents> started_;
  std::atomic<PageEvents*> events_{};  // null: changes are not heard
};

/// The one of this process.
[[nodiscard]] ProcessMemory& process_memory();

}  // namespace weft::kernel
