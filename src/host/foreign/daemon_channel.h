#pragma once

#include <utility>

#include "base/result.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::host {

/// How the parts of a process send messages to its daemon, and find out whether it is still there.
/// Implemented by DaemonConnection, and by tests. Any thread, with any lock held.
class DaemonChannel {
 public:
  DaemonChannel() = default;
  virtual ~DaemonChannel() = default;
  DaemonChannel(const DaemonChannel&) = delete;
  DaemonChannel& operator=(const DaemonChannel&) = delete;

  /// This process's address at the daemon.
  [[nodiscard]] virtual uabi::ProcessAddress self() const = 0;

  /// Queues a message and its descriptor; messages are sent in order.
  virtual void post(uabi::Message message, os::UniqueFd descriptor) = 0;
  void post(uabi::Message message) { post(std::move(message), os::UniqueFd{}); }

  /// The same, but sends on the calling thread, so that this process has closed the descriptor when
  /// it returns. May wait for seconds if the daemon accepts no messages.
  virtual void post_and_send(uabi::Message message, os::UniqueFd descriptor) = 0;

  /// Starts the thread that receives the daemon's messages.
  virtual void start_daemon_events() = 0;

  /// The daemon has ended: no responses arrive any more.
  [[nodiscard]] virtual bool is_gone() const = 0;
  /// The error for calls that need the daemon, with the reason.
  [[nodiscard]] virtual Error gone() const = 0;
};

}  // namespace weft::host
