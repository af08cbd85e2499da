// rpoll(): rsockets are waited for through descriptors of their device and connection, others
// directly.

#include <poll.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compat/rdmacm/rsockets/sockets.h"
#include "os/clock.h"

namespace weft::rsockets {
namespace {

/// The number of ready descriptors, without waiting. Only ordinary descriptors are passed to the
/// system.
[[nodiscard]] int look(pollfd* wanted, nfds_t count, bool& has_sockets) {
  std::vector<pollfd> ordinary(wanted, wanted + count);
  int ready = 0;
  has_sockets = false;
  for (nfds_t i = 0; i < count; ++i) {
    wanted[i].revents = 0;
    if (const auto socket = find_socket(wanted[i].fd)) {
      has_sockets = true;
      ordinary[i].fd = -1;
      wanted[i].revents = socket->readiness(wanted[i].events);
    }
  }
  if (poll(ordinary.data(), count, 0) < 0) {
    return -1;
  }
  for (nfds_t i = 0; i < count; ++i) {
    wanted[i].revents = ordinary[i].fd == -1 ? wanted[i].revents : ordinary[i].revents;
    ready += wanted[i].revents != 0 ? 1 : 0;
  }
  return ready;
}

/// Returns 0 when one of them may be ready or after the timeout, -1 with errno on failure.
[[nodiscard]] int sleep_until_event(const pollfd* wanted, nfds_t count, int timeout_ms) {
  std::vector<pollfd> all;
  std::vector<std::shared_ptr<Socket>> watched;
  for (nfds_t i = 0; i < count; ++i) {
    if (auto socket = find_socket(wanted[i].fd)) {
      socket->watch(wanted[i].events, all);
      watched.push_back(std::move(socket));
    } else {
      all.push_back(wanted[i]);
    }
  }
  // Completions that arrived before notification was requested are processed now.
  const bool is_ready = std::ranges::any_of(std::span{wanted, count}, [](const pollfd& each) {
    const auto socket = find_socket(each.fd);
    return socket != nullptr && socket->readiness(each.events) != 0;
  });
  const int result = poll(all.data(), all.size(), is_ready ? 0 : timeout_ms);
  for (const auto& socket : watched) {
    socket->unwatch();
  }
  return result < 0 ? -1 : 0;
}

}  // namespace

int poll_all(pollfd* wanted, nfds_t count, int timeout_ms) {
  const Instant deadline = os::now() + Duration::milliseconds(timeout_ms < 0 ? 0 : timeout_ms);
  while (true) {
    bool has_sockets = false;
    const int ready = look(wanted, count, has_sockets);
    if (ready != 0) {
      return ready;
    }
    if (!has_sockets) {
      const Duration left = deadline - os::now();
      return poll(
          wanted, count,
          timeout_ms < 0 ? -1 : static_cast<int>(std::max<std::int64_t>(0, left.milliseconds())));
    }
    int slice = kRepollMs;
    if (timeout_ms >= 0) {
      const Duration left = deadline - os::now();
      if (left <= Duration{}) {
        return 0;
      }
      slice = static_cast<int>(std::min<std::int64_t>(slice, left.milliseconds() + 1));
    }
    if (sleep_until_event(wanted, count, slice) != 0) {
      return -1;
    }
  }
}

}  // namespace weft::rsockets
