#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "host/control_socket.h"
#include "host/foreign/daemon_channel.h"
#include "host/process.h"
#include "os/hold_point.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::host {

/// How a process reacts to messages of its daemon. Calls are serialised and made without locks
/// held: on the control thread or, before it is started, on the thread that attaches or calls
/// hear_pending().
class DaemonHandler {
 public:
  DaemonHandler() = default;
  virtual ~DaemonHandler() = default;
  DaemonHandler(const DaemonHandler&) = delete;
  DaemonHandler& operator=(const DaemonHandler&) = delete;

  /// The process was joined with another one: `descriptors` are the memory of their lanes and the
  /// other's attention page.
  virtual void handle_lane(const uabi::Lane& lane, std::vector<os::UniqueFd>& descriptors) = 0;
  /// The process does not exist, or is gone.
  virtual void handle_peer_gone(uabi::ProcessAddress peer) = 0;
  /// A new generation of the fabric's tables, as a sealed file.
  virtual void handle_tables(const os::UniqueFd& file) = 0;
  /// A capture of a port starts; `file` is its ring.
  virtual void handle_tap(const uabi::OpenTap& tap, const os::UniqueFd& file) = 0;
  virtual void handle_tap_closed(const uabi::CloseTap& tap) = 0;
  /// The present members of a multicast group.
  virtual void handle_group(const uabi::GroupMembers& group) = 0;
  /// The oldest outstanding join has been answered.
  virtual void handle_group_joined() = 0;
  /// A message about objects that several processes share (host/foreign); others are ignored.
  virtual void handle_shared_object(const uabi::Message& message) = 0;
  /// Called on the control thread before it waits: posts the reports that are due. Returns when it
  /// wants to be called again at the latest; wake() advances that.
  virtual Instant report_due() { return Instant::never(); }
  /// The daemon has ended. The last call.
  virtual void handle_daemon_gone() = 0;
};

/// The connection of a process to its daemon: attaches, queues outgoing messages, receives on a
/// thread of its own, and detects the end of the daemon, which it reports to the program. Any
/// thread may call it; it has its own locks.
class DaemonConnection final : public DaemonChannel {
 public:
  /// Policy: the daemon answers within microseconds; it takes longer only if the machine is in
  /// trouble.
  static constexpr Duration kWaitLimit = Duration::seconds(10);

  DaemonConnection(DaemonHandler& handler, ProcessEvents& events);
  ~DaemonConnection() override;

  /// The daemon's response to attach().
  struct Attached {
    uabi::Welcome welcome;
    std::vector<os::UniqueFd> descriptors;
  };
  /// Requests to attach as a process of `host` on the named fabric. To be called once.
  [[nodiscard]] Result<Attached> attach(ControlSocket socket, const std::string& fabric,
                                        const std::string& host);
  /// Handles the messages that describe the state before this process attached, until the daemon
  /// says that they are complete.
  [[nodiscard]] Result<void> hear_initial_state();

  [[nodiscard]] uabi::ProcessAddress self() const override { return self_; }
  using DaemonChannel::post;
  void post(uabi::Message message, os::UniqueFd descriptor) override;
  void post_and_send(uabi::Message message, os::UniqueFd descriptor) override;
  void start_daemon_events() override;
  [[nodiscard]] bool is_gone() const override { return is_gone_.load(); }
  /// The same, known without a thread that hears it.
  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] Error gone() const override;

  /// Makes the control thread call DaemonHandler::report_due() soon.
  void wake() const;

  /// Handles the messages received so far; only while there is no control thread.
  void hear_pending();
  /// True if a received message has not been handled yet. One system call.
  [[nodiscard]] bool has_record() const;

  /// Reports the end of the daemon to the program, unless it was reported before.
  void tell_if_gone();

  /// There is a control thread.
  [[nodiscard]] bool has_thread();
  /// Asks it to stay, after what it does now, where it writes no memory but its stack, until
  /// release_hold(). False: there is none.
  [[nodiscard]] bool request_hold();
  [[nodiscard]] bool is_held() const { return hold_point_.is_held(); }
  void release_hold() { hold_point_.release(); }

  /// Ends the control thread and waits for it.
  void stop();

 private:
  struct Outgoing {
    uabi::Message message;
    os::UniqueFd descriptor;  // if the message has one
  };

  void run();
  void queue(uabi::Message message, os::UniqueFd descriptor);
  bool send_queued();
  void dispatch(Received received);
  void report_daemon_gone();

  DaemonHandler& handler_;
  ProcessEvents& events_;
  ControlSocket socket_;
  uabi::ProcessAddress self_;
  std::string fabric_;  // its name

  std::mutex out_lock_;
  std::deque<Outgoing> out_;
  os::UniqueFd wake_;  // eventfd

  std::atomic<bool> stopping_{false};
  std::atomic<bool> is_gone_{false};
  std::atomic<bool> works_{false};  // the thread is handling a message
  std::mutex gone_lock_;
  bool gone_is_told_{};
  std::string dismissal_;  // guarded by gone_lock_: the daemon's reason for dismissing this program
  os::HoldPoint hold_point_;
  std::mutex thread_lock_;
  std::thread thread_;
};

}  // namespace weft::host
