#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace weft::os {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration longest) {
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  const timespec timeout{.tv_sec = longest.nanoseconds() / kNanosecondsPerSecond,
                         .tv_nsec = longest.nanoseconds() % kNanosecondsPerSecond};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace weft::os
