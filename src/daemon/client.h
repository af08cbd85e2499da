#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/request_budget.h"
#include "fabric/counters.h"
#include "host/control_socket.h"
#include "node/fabric.h"
#include "os/shared_memory.h"

namespace weft::daemon {

/// A descriptor that several messages carry.
using SharedFd = std::shared_ptr<const os::UniqueFd>;

/// What the connections of one operating-system process have in common.
struct Requester {
  /// Policy: a program has one, a command one.
  static constexpr unsigned kMaxConnections = 64;

  pid_t pid{};
  std::string program;  // foreign text
  RequestBudget budget;
  unsigned connections{};
};

/// One connection: a program, or the command. It never makes the daemon wait: what does not go out
/// at once is queued up to a limit, beyond which the client is taken for stuck and dropped. Nor can
/// it keep the daemon busy: while its answers wait, or its budget is empty, it is not read.
class Client : public std::enable_shared_from_this<Client> {
 public:
  /// Policy.
  static constexpr std::size_t kMaxQueued = 16'384;
  static constexpr std::size_t kMaxUnread = 64;     // queued, and still read
  static constexpr std::size_t kTurn = 64;          // messages before others are read
  static constexpr std::size_t kLastWords = 1'024;  // messages read of a process that has died

  /// `on_offence` hears what the client did wrong, as behind a count.
  struct Handlers {
    std::function<void(Client&, host::Received)> on_message;
    std::function<void(Client&, std::string_view)> on_offence;
    std::function<void(Client&)> on_end;
  };

  Client(asio::io_context& loop, host::ControlSocket socket, std::shared_ptr<Requester> requester);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Begins to listen, to the connection and for the death of its process: a child that was forked
  /// may keep the connection open (docs/ARCHITECTURE.md, decision 9). `on_end` is called once.
  void start(Handlers handlers);
  void send(uabi::Message message, std::vector<SharedFd> descriptors = {});
  /// Says why, and ends it.
  void refuse(std::string reason);
  void end();
  /// What a message costs beyond one.
  void spend(std::int64_t cost) { spend_parts(cost * RequestBudget::kMessage); }
  /// What each message costs from now on, in parts of a usual one's.
  void set_message_parts(std::int64_t parts) { message_parts_ = parts; }

  [[nodiscard]] pid_t pid() const { return requester_->pid; }
  [[nodiscard]] const std::string& program() const { return requester_->program; }
  [[nodiscard]] bool is_flushed() const { return queue_.empty(); }
  /// It leaves much unread: what others say to it may wait.
  [[nodiscard]] bool is_behind() const { return queue_.size() > kMaxUnread; }

  // --- what the daemon knows of a program
  std::optional<node::ProcessId> process;
  SharedFd attention;
  os::Mapping counter_memory;
  std::optional<fabric::CounterPageView> counters;
  std::size_t groups{};  // memberships

 private:
  void spend_parts(std::int64_t parts);
  void wait_for_messages();
  void wait_for_budget();
  void wait_for_room();
  void receive(std::size_t most, bool within_budget);
  void flush();

  struct Outgoing {
    uabi::Message message;
    std::vector<SharedFd> descriptors;
  };
  [[nodiscard]] Outgoing* superseded(const uabi::Message& message);

  asio::posix::stream_descriptor readable_;
  asio::posix::stream_descriptor death_;
  asio::steady_timer timer_;
  host::ControlSocket socket_;
  std::shared_ptr<Requester> requester_;
  std::deque<Outgoing> queue_;
  Handlers handlers_;
  std::int64_t message_parts_{RequestBudget::kMessage};
  bool waits_for_room_{};
  bool waits_for_flush_{};
  bool ended_{};
};

}  // namespace weft::daemon
