// Sending and receiving MADs.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "compat/ibumad/abi.h"
#include "compat/ibumad/open_port.h"
#include "compat/ibumad/requests.h"

using namespace weft;
using namespace weft::compat;

namespace {

/// Policy: delay of each call once the fabric is gone, for programs that poll in a loop.
constexpr int kPauseMs = 200;

[[nodiscard]] int wait_until_readable(int fd, int timeout_ms) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  const int ready = poll(&wait, 1, timeout_ms);
  return ready == 1 ? 0 : ready == 0 ? -ETIMEDOUT : -EIO;
}

/// The daemon is gone. Programs whose HCA disappears keep reading, which must not use a whole CPU.
[[nodiscard]] int fabric_is_gone() {
  static const bool told = [] {
    complain("the fabric's daemon has ended, or closed this port: no MAD is carried any more");
    return true;
  }();
  static_cast<void>(told);
  poll(nullptr, 0, kPauseMs);
  errno = EIO;
  return -EIO;
}

int level = 0;  // umad_debug

}  // namespace

extern "C" {

WEFT_EXPORT int umad_debug(int wanted) {
  if (wanted >= 0) {
    level = wanted;
  }
  return level;
}

WEFT_EXPORT int umad_send(int number, int agent, void* umad, int length, int timeout_ms,
                          int retries) {
  auto* const envelope = static_cast<ib_user_mad*>(umad);
  const auto port = port_of(number);
  envelope->timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  envelope->retries = static_cast<std::uint32_t>(retries);
  envelope->agent_id = static_cast<std::uint32_t>(agent);
  if (level > 1) {
    umad_dump(umad);
  }
  if (!port || length < 0) {
    errno = EINVAL;
    return -EIO;
  }
  const std::span mad{envelope->data, static_cast<std::size_t>(length)};
  errno = port->send(*envelope, std::as_bytes(mad));
  if (errno == EIO) {
    return fabric_is_gone();
  }
  return errno == 0 ? 0 : -EIO;
}

WEFT_EXPORT int umad_recv(int number, void* umad, int* length, int timeout_ms) {
  const auto port = port_of(number);
  if (umad == nullptr || length == nullptr || !port) {
    errno = EINVAL;
    return -EINVAL;
  }
  if (timeout_ms != 0) {
    if (const int waited = wait_until_readable(port->fd(), timeout_ms); waited < 0) {
      if (waited == -ETIMEDOUT) {
        errno = ETIMEDOUT;
      }
      return waited;
    }
  }
  auto& envelope = *static_cast<ib_user_mad*>(umad);
  errno = port->receive(envelope, *length);
  if (errno == EPIPE || errno == EIO) {
    return fabric_is_gone();
  }
  return errno == 0 ? static_cast<int>(envelope.agent_id) : -errno;
}

WEFT_EXPORT int umad_poll(int number, int timeout_ms) {
  const auto port = port_of(number);
  return port ? wait_until_readable(port->fd(), timeout_ms) : -EIO;
}

}  // extern "C"
