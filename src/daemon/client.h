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

/// State shared by all connections of one operating-system process.
struct Requester {
  /// Policy, not from the specification: a program needs one connection, and so does a command.
  static constexpr unsigned kMaxConnections = 64;

  pid_t pid{};
  std::string program;  // untrusted text
  RequestBudget budget;
  unsigned connections{};
};

/// One control connection, of a program or of the `weft` command. It never blocks the daemon:
/// output that cannot be sent is queued up to a limit, above which the client counts as stuck and
/// is disconnected. It cannot occupy the daemon either: while its answers are queued or its budget
/// is empty, nothing is read from it. Used on the daemon's thread only.
class Client : public std::enable_shared_from_this<Client> {
 public:
  /// Limits; policy, not from the specification.
  static constexpr std::size_t kMaxQueued = 16'384;
  static constexpr std::size_t kMaxUnread = 64;  // queued messages above which reading pauses
  static constexpr std::size_t kBatch = 64;      // messages read before other clients are served
  // messages still read from a process that has died
  static constexpr std::size_t kMessagesAfterDeath = 1'024;

  /// `on_offence` receives a description of the client's violation, worded to follow a count.
  struct Handlers {
    std::function<void(Client&, host::Received)> on_message;
    std::function<void(Client&, std::string_view)> on_offence;
    std::function<void(Client&)> on_end;
  };

  Client(asio::io_context& loop, host::ControlSocket socket, std::shared_ptr<Requester> requester);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Starts reading, and watching for the death of the process: a forked child may keep the
  /// connection open beyond it (docs/ARCHITECTURE.md, decision 9). `on_end` is called once.
  void start(Handlers handlers);
  void send(uabi::Message message, std::vector<SharedFd> descriptors = {});
  /// Sends the reason and ends the connection.
  void refuse(std::string reason);
  void end();
  /// Charges the budget for a message that costs more than one.
  void charge(std::int64_t cost) { charge_parts(cost * RequestBudget::kMessage); }
  /// Sets the cost of each further message, in fractions of a regular message's cost.
  void set_message_parts(std::int64_t parts) { message_parts_ = parts; }

  [[nodiscard]] pid_t pid() const { return requester_->pid; }
  [[nodiscard]] const std::string& program() const { return requester_->program; }
  /// Its queue is long: messages on behalf of others should be deferred.
  [[nodiscard]] bool is_backlogged() const { return queue_.size() > kMaxUnread; }

  // --- state that the daemon keeps for a program
  std::optional<node::ProcessId> process;
  SharedFd attention;
  os::Mapping counter_memory;
  std::optional<fabric::CounterPageView> counters;
  std::size_t groups{};  // multicast memberships

 private:
  void charge_parts(std::int64_t parts);
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
  asio::posix::stream_descriptor process_exit_;
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
