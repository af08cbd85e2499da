#pragma once

// What a loop of one thread waits for. Not thread-safe.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/clock.h"

namespace weft::programs::vnic {

class PollSet {
 public:
  void clear() { waits_.clear(); }
  void add(int fd) { waits_.push_back({.fd = fd, .events = POLLIN, .revents = 0}); }
  /// Beside add(), if it is also waited for what it has room for.
  void add_writable(int fd) { waits_.push_back({.fd = fd, .events = POLLOUT, .revents = 0}); }
  void add(std::span<const int> all) {
    for (const int fd : all) {
      add(fd);
    }
  }

  /// Until one of them is readable, or the time has come.
  [[nodiscard]] Result<void> wait(Instant until) {
    constexpr std::int64_t kMostMs = 60'000;
    const std::int64_t ns = (until - os::now()).nanoseconds();
    const auto ms = std::clamp<std::int64_t>(ns / 1'000'000 + (ns % 1'000'000 > 0 ? 1 : 0), 0,
                                             kMostMs);  // not before it has come
    if (poll(waits_.data(), waits_.size(), static_cast<int>(ms)) < 0 && errno != EINTR) {
      return fail(ErrorCode::Io, "poll: {}", std::strerror(errno));
    }
    return {};
  }
  /// Also before the first wait, when nobody knows.
  [[nodiscard]] bool is_ready(int fd) const {
    const auto found = std::ranges::find(waits_, fd, &pollfd::fd);
    return found == waits_.end() || found->revents != 0;
  }

 private:
  std::vector<pollfd> waits_;
};

}  // namespace weft::programs::vnic
