#include "os/process_pages.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <limits>

namespace weft::os {
namespace {

[[nodiscard]] void* pointer_to(std::uint64_t address) { return std::bit_cast<void*>(address); }

[[nodiscard]] bool may_lock_all() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  return syscall(SYS_capget, &header, sets.data()) == 0 &&
         (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

std::uint32_t page_size() {
  static const auto size = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t lock_limit() {
  rlimit limit{};
  if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur;  // RLIM_INFINITY is the largest number
}

Result<void> populate(std::uint64_t start, std::uint64_t bytes, bool for_writing) {
  int done = 0;
  do {
    done =
        madvise(pointer_to(start), bytes, for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  } while (done != 0 && (errno == EINTR || errno == EAGAIN));
  if (done != 0) {
    return fail(ErrorCode::BadAddress, "not all of {} bytes at {:#x} are there{} (errno {})", bytes,
                start, for_writing ? " to be written" : "", errno);
  }
  return {};
}

Result<void> lock_pages(std::uint64_t start, std::uint64_t bytes) {
  if (syscall(SYS_mlock, start, bytes) == 0) {  // not by libc: ASan has an mlock that does nothing
    return {};
  }
  const int error = errno;
  const bool is_limit = error == EPERM || error == EAGAIN ||
                        (error == ENOMEM && populate(start, bytes, false).has_value());
  return is_limit ? fail(ErrorCode::OutOfMemory,
                         "{} bytes more would be locked than the process may (ulimit -l)", bytes)
                  : fail(ErrorCode::BadAddress, "not all of {} bytes at {:#x} are there (errno {})",
                         bytes, start, error);
}

void unlock_pages(std::uint64_t start, std::uint64_t bytes) {
  static_cast<void>(syscall(SYS_munlock, start, bytes));
}

}  // namespace weft::os
