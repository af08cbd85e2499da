#pragma once

#include <utility>

#include "base/result.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::host {

/// What the parts of a process say to its daemon, and whether there is one still. The process has
/// one (DaemonConnection); tests have their own. Any thread, with any lock held.
class DaemonChannel {
 public:
  DaemonChannel() = default;
  virtual ~DaemonChannel() = default;
  DaemonChannel(const DaemonChannel&) = delete;
  DaemonChannel& operator=(const DaemonChannel&) = delete;

  /// This process, as the daemon names it.
  [[nodiscard]] virtual uabi::ProcessAddress self() const = 0;

  /// Queues a message, and the descriptor that belongs to it; they go in this order.
  virtual void post(uabi::Message message, os::UniqueFd descriptor) = 0;
  void post(uabi::Message message) { post(std::move(message), os::UniqueFd{}); }

  /// The same, and sends it on the caller's own thread, so that the descriptor is this process's no
  /// more when it returns. May wait for a daemon that takes no messages, for seconds.
  virtual void post_and_send(uabi::Message message, os::UniqueFd descriptor) = 0;

  /// From now on a thread hears what the daemon says.
  virtual void start_daemon_events() = 0;

  /// The daemon has ended: no answer comes any more.
  [[nodiscard]] virtual bool is_gone() const = 0;
  /// Why nothing works without it, in words.
  [[nodiscard]] virtual Error gone() const = 0;
};

}  // namespace weft::host
