#pragma once

#include <cstddef>
#include <span>

#include "hca/user_memory.h"

namespace weft::host {

/// True if every page of a range is mapped, present or not.
[[nodiscard]] bool is_mapped(std::span<const std::byte> range);

/// This process's own memory. The kernel handles page faults (MADV_POPULATE, Linux 5.14; before, a
/// range must only be mapped). A program that unmaps memory while a packet is copied to it ends
/// with SIGSEGV, as if it had used that memory itself.
class ProcessMemory final : public hca::UserMemory {
 public:
  [[nodiscard]] bool fault_in(std::span<std::byte> range, bool for_writing) override;
  /// Writes a file's pages back (msync(2)); waits for the disk.
  [[nodiscard]] bool persist(std::span<std::byte> range) override;
};

/// The instance of this process, which lives until it exits.
[[nodiscard]] ProcessMemory& process_memory();

}  // namespace weft::host
