#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/counters.h"
#include "host/control_socket.h"
#include "host/shared_memory.h"
#include "node/fabric.h"

namespace weft::daemon {

/// A descriptor that several messages carry.
using SharedFd = std::shared_ptr<const host::UniqueFd>;

/// One connection: a program, or the command. It never makes the daemon wait: what does not go out
/// at once is queued up to a limit, beyond which the client is taken for stuck and dropped.
class Client : public std::enable_shared_from_this<Client> {
 public:
  /// Policy.
  static constexpr std::size_t kMaxQueued = 16'384;

  using OnMessage = std::function<void(Client&, host::Received)>;
  using OnEnd = std::function<void(Client&)>;

  Client(asio::io_context& loop, host::ControlSocket socket, pid_t pid);

  /// Begins to listen, to the connection and for the death of its process: a child that was forked
  /// may keep the connection open (DESIGN.md, decision 9). `on_end` is called once.
  void start(OnMessage on_message, OnEnd on_end);
  void send(uabi::Message message, std::vector<SharedFd> descriptors = {});
  void end();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool is_flushed() const { return queue_.empty(); }

  // --- what the daemon knows of a program
  std::optional<node::ProcessId> process;
  SharedFd attention;
  host::Mapping counter_memory;
  std::optional<fabric::CounterPageView> counters;

 private:
  void wait_for_messages();
  void wait_for_room();
  void receive_all();
  void flush();

  struct Outgoing {
    uabi::Message message;
    std::vector<SharedFd> descriptors;
  };

  asio::posix::stream_descriptor readable_;
  asio::posix::stream_descriptor death_;
  host::ControlSocket socket_;
  pid_t pid_;
  std::deque<Outgoing> queue_;
  OnMessage on_message_;
  OnEnd on_end_;
  bool waits_for_room_{};
  bool ended_{};
};

}  // namespace weft::daemon
