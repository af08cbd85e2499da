#pragma once

#include <cstddef>
#include <span>

#include "hca/user_memory.h"

namespace weft::host {

/// Whether every page of a range exists, present or not.
[[nodiscard]] bool is_mapped(std::span<const std::byte> range);

/// This process's own memory, with page faults taken by the kernel (MADV_POPULATE, Linux 5.14;
/// before that a range must merely be mapped). A program that takes memory away while a packet is
/// copied to it still ends by SIGSEGV, as it does when it uses that memory itself.
class ProcessMemory final : public hca::UserMemory {
 public:
  [[nodiscard]] bool fault_in(std::span<std::byte> range, bool for_writing) override;
  /// Writes a file's pages back to it (msync(2)); waits for the disk.
  [[nodiscard]] bool persist(std::span<std::byte> range) override;
};

/// The one of this process; regions may refer to it for as long as the program runs.
[[nodiscard]] ProcessMemory& process_memory();

}  // namespace weft::host
