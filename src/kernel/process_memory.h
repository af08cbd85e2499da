#pragma once

#include <mutex>
#include <unordered_map>

#include "core/address_space.h"

namespace weft::kernel {

/// The memory of this process, which is that of its programs and of its devices alike: a device
/// reaches a page by the process's own address. A process cannot hear of changes of its mappings as
/// a kernel does: who makes them says so (weft_mm_invalidate()). Any thread.
class ProcessMemory final : public core::AddressSpace {
 public:
  ProcessMemory() : AddressSpace(LockPolicy::Spin) {}

  [[nodiscard]] std::uint32_t page_size() const override;
  [[nodiscard]] std::uint64_t lock_limit() const override;
  Result<void> pin(std::uint64_t start, std::uint64_t count, bool for_writing,
                   std::vector<std::uint64_t>& pages) override;
  void unpin(std::uint64_t start, std::uint64_t count, bool is_dirty) override;
  [[nodiscard]] bool is_alive() const override { return true; }

 private:
  void release(std::uint64_t page);  // with the lock

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> pins_;  // by page; locks do not count
};

/// The one of this process.
[[nodiscard]] ProcessMemory& process_memory();

}  // namespace weft::kernel
